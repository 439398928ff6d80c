"""The vectors that hold a share of the energy: found in blocks they are those of the whole decomposition."""

import pytest
import torch

from fedfleet.learn import leading_vectors as module
from fedfleet.learn.leading_vectors import leading_vectors

ROWS = 300
RANGE = torch.arange(1, ROWS + 1.0)
SPECTRA = {
    "falling fast": 0.9**RANGE,
    "falling slowly": RANGE**-0.75,
    "of low rank": (RANGE <= 40) * RANGE**-0.5,
    "zero": 0 * RANGE,
}


def matrices(name, count=2):
    draw = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(count, ROWS, ROWS, generator=draw, dtype=torch.float64))[0]
    return ((turn * SPECTRA[name].double() ** 2) @ turn.transpose(1, 2)).float()


def projection(basis, rank):
    kept = basis[:, basis.shape[1] - int(rank) :] if rank else basis[:, :0]
    return kept @ kept.T


@pytest.mark.parametrize("share", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("name", SPECTRA)
def test_blocks_find_the_same_rank_and_the_same_space(name, share, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 32)
    gram, shares = matrices(name), torch.full((2, 1), share)
    whole, rank = leading_vectors(gram, shares, in_blocks=False)
    basis, found = leading_vectors(gram, shares, in_blocks=True)
    assert found.tolist() == rank.tolist()
    for i in range(2 if name != "zero" else 0):
        # What matters is what the projection leaves of the matrix.
        left = (projection(basis[i], found[i]) - projection(whole[i], rank[i])) @ gram[i]
        assert float(left.norm()) < 1e-3 * float(gram[i].norm())


def test_a_matrix_is_judged_alone():
    mixed = torch.cat([matrices("falling fast", 1), matrices("falling slowly", 1)])
    shares = torch.full((2, 1), 0.95)
    basis, rank = leading_vectors(mixed, shares, in_blocks=True)
    for i in range(2):
        alone, alone_rank = leading_vectors(mixed[i : i + 1], shares[:1], in_blocks=True)
        assert alone_rank[0] == rank[i]
        assert torch.allclose(projection(basis[i], rank[i]), projection(alone[0], alone_rank[0]), atol=1e-5)


def test_small_matrices_and_those_on_a_cpu_are_decomposed_whole():
    gram, shares = matrices("falling fast")[:, :50, :50], torch.full((2, 1), 0.9)
    basis, _ = leading_vectors(gram, shares, in_blocks=True)
    assert basis.shape == (2, 50, 50)
    assert leading_vectors(matrices("falling fast"), shares)[0].shape == (2, ROWS, ROWS)
