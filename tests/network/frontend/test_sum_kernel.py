"""The compiled loops give the bits and the sentences of the exact accumulator in numpy."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core import clip, exact
from fedfleet.network.frontend import sum_kernel
from fedfleet.network.frontend.sum_kernel import COMPILE_MIN_ELEMENTS

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _always_compiled() -> Any:
    sum_kernel.COMPILE_MIN_ELEMENTS = 0
    assert sum_kernel.speed_warning({}) is None  # numba is there, and compiles now and not in the first test
    yield
    sum_kernel.COMPILE_MIN_ELEMENTS = COMPILE_MIN_ELEMENTS


KINDS = (np.float32, np.float64, np.float16)
FINITE = st.floats(-1024, 1024, width=16) | st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1e-40, 2.0**-24, 1024.0, -1024.0])


@st.composite
def trees(draw: st.DrawFn, number: st.SearchStrategy[float] = FINITE) -> dict[str, np.ndarray]:
    tree: dict[str, np.ndarray] = {}
    for i in range(draw(st.integers(1, 3))):
        values = draw(st.lists(number, max_size=9))
        with np.errstate(over="ignore"):
            tree[f"l{i}"] = np.array(values, np.float64).astype(draw(st.sampled_from(KINDS)))
    return tree


@given(tree=trees(), weight=st.floats(2.0**-60, 2.0**24), factor=st.floats(-1, 1), two=st.lists(st.booleans(), min_size=3))
def test_adding_gives_the_same_bits(tree: dict[str, np.ndarray], weight: float, factor: float, two: list[bool]) -> None:
    scales = {n: exact.scale_for(2.0**10, 2.0**24, two_limbs=two[i]) for i, n in enumerate(tree)}
    mine, theirs = exact.zero(tree, scales), exact.zero(tree, scales)
    for _ in range(2):
        sum_kernel.add(mine, tree, weight, scales, factor=factor, units=exact.weight_units(weight))
        exact.add(theirs, tree, weight, scales, factor=factor)
    assert (mine.weight, mine.count) == (theirs.weight, theirs.count)
    for a, b in ((mine.sums, theirs.sums), (mine.fine, theirs.fine)):
        assert {n: v.tolist() for n, v in a.items()} == {n: v.tolist() for n, v in b.items()}


ANY = st.floats(width=16) | st.floats(width=32) | st.floats()


@settings(max_examples=300)
@given(tree=trees(ANY), bound=st.sampled_from([0.1, 1.0, 1e30, 2.0**10]), weight=st.floats())
def test_refusing_gives_the_same_sentences(tree: dict[str, np.ndarray], bound: float, weight: float) -> None:
    like = {n: np.zeros_like(v) for n, v in tree.items()}
    scales = {n: exact.Scale(bound, 20) for n in tree}
    for heavy in (weight, 1.0):
        mine = sum_kernel.refusal(tree, heavy, like, scales, 2.0**24)
        assert mine == exact.refusal(tree, heavy, like, scales, 2.0**24)


@settings(max_examples=300)
@given(data=st.data(), bounds=st.lists(st.sampled_from([0.1, 1.0, 2.0**10]), min_size=3), kind=st.sampled_from(KINDS))
def test_a_whole_update_is_refused_in_the_same_words_and_adds_the_same_bits(
    data: st.DataObject, bounds: list[float], kind: Any
) -> None:
    with np.errstate(over="ignore"):
        tree = {n: leaf.astype(kind) for n, leaf in data.draw(trees(ANY)).items()}
    whole = np.concatenate([tree[n] for n in sorted(tree)])
    scales = {n: exact.Scale(bounds[i], 20) for i, n in enumerate(tree)}
    why = exact.refusal(tree, 1.0, tree, scales, 2.0**24)
    assert sum_kernel.refusal(tree, 1.0, tree, scales, 2.0**24, whole) == why
    if why is None:
        total, alone, theirs = np.zeros(whole.size, np.int64), exact.Scale(1.0, 20), exact.zero(tree, scales)
        exact.add(theirs, tree, 3.0, dict.fromkeys(tree, alone), factor=-0.5)
        if sum_kernel.add_whole(total, whole, 3.0, alone, factor=-0.5):
            assert total.tolist() == np.concatenate([theirs.sums[n] for n in sorted(tree)]).tolist()
        else:
            assert kind == np.float16  # which no loop reads


@pytest.mark.parametrize("at", [0, 1, 4097, 9999])
@pytest.mark.parametrize("odd", [np.nan, -np.nan, np.inf, -np.inf, 1025.0, -1025.0, np.float32(0.1)])
@pytest.mark.parametrize("kind", KINDS)
def test_one_odd_number_anywhere_is_found(at: int, odd: float, kind: Any) -> None:
    tree = {"w": np.zeros(10_000, kind)}
    tree["w"][at] = odd
    scales = {"w": exact.scale_for(1024.0 if abs(odd) != np.float32(0.1) else 0.1, 2.0**24)}
    mine = sum_kernel.refusal(tree, 1.0, tree, scales, 2.0**24)
    assert mine == exact.refusal(tree, 1.0, tree, scales, 2.0**24)
    assert kind == np.float16 or mine is not None or abs(odd) < 1  # 0.1 as float32 is beyond 0.1


@pytest.mark.parametrize("other", [{"v": np.zeros(2)}, {"w": np.zeros(3)}, {"w": np.zeros(2, np.float32)}, {}])
def test_another_shape_is_refused_in_the_same_words(other: dict[str, np.ndarray]) -> None:
    like, scales = {"w": np.zeros(2)}, {"w": exact.scale_for(1.0, 1.0)}
    assert sum_kernel.refusal(other, 1.0, like, scales, 1.0) == exact.refusal(other, 1.0, like, scales, 1.0) is not None


@given(tree=trees(), n=st.integers(0, 70), seed=st.integers(0, 9))
def test_squares_have_the_same_bits(tree: dict[str, np.ndarray], n: int, seed: int) -> None:
    tree["more"] = np.random.default_rng(seed).normal(size=n)
    assert sum_kernel.squares_of(tree, tree) == clip.squares_of(tree, tree)


def test_leaves_may_lie_anywhere_and_be_read_only() -> None:
    x = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    odd = np.frombuffer(b"abc" + x.tobytes(), np.float32, offset=3)
    strided = np.repeat(x, 2)[::2]
    assert not odd.flags.aligned and not odd.flags.writeable and not strided.flags.contiguous
    scales = {"w": exact.scale_for(64.0, 64.0, two_limbs=True)}
    expected = exact.add(exact.zero({"w": x}, scales), {"w": x}, 1.5, scales)
    for leaf in (odd, strided, x.astype(">f4"), x.reshape(50, 100)):
        acc = exact.zero({"w": leaf}, scales)
        sum_kernel.add(acc, {"w": leaf}, 1.5, scales, factor=1.0, units=exact.weight_units(1.5))
        assert acc.sums["w"].tobytes() == expected.sums["w"].tobytes()
        assert acc.fine["w"].tobytes() == expected.fine["w"].tobytes()


def test_a_leaf_of_another_size_never_reaches_the_loop() -> None:
    scales = {"w": exact.scale_for(1.0, 1.0)}
    with pytest.raises(ValueError, match="elements"):
        sum_kernel.add(exact.zero({"w": np.zeros(2)}, scales), {"w": np.zeros(3)}, 1.0, scales, factor=1.0, units=1)
    with pytest.raises(ValueError, match="elements"):
        sum_kernel.add_whole(np.zeros(2, np.int64), np.zeros(3), 1.0, scales["w"], factor=1.0)


def test_without_numba_numpy_serves_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("numba"):
            raise ImportError(name)
        return real(name, *more)

    tree, scales = {"w": np.ones(3, np.float32)}, {"w": exact.scale_for(1.0, 4.0)}
    sum_kernel._compile_loops.cache_clear()
    try:
        monkeypatch.setattr(builtins, "__import__", without)
        assert "fedfleet[server]" in (sum_kernel.speed_warning(tree) or "")
        acc = exact.zero(tree, scales)
        sum_kernel.add(acc, tree, 1.0, scales, factor=0.5, units=exact.weight_units(1.0))
        assert acc.sums["w"].tolist() == exact.add(exact.zero(tree, scales), tree, 1.0, scales, factor=0.5).sums["w"].tolist()
        assert sum_kernel.refusal({"w": np.full(3, 2, np.float32)}, 1.0, tree, scales, 4.0) is not None
        assert sum_kernel.squares_of(tree, tree) == [3.0]
    finally:
        monkeypatch.undo()
        sum_kernel._compile_loops.cache_clear()
    assert sum_kernel.speed_warning(tree) is None


def test_a_small_model_does_not_load_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_kernel, "COMPILE_MIN_ELEMENTS", COMPILE_MIN_ELEMENTS)
    monkeypatch.setattr(sum_kernel, "_compile_loops", lambda: pytest.fail("it was asked for"))
    tree, scales = {"w": np.ones(COMPILE_MIN_ELEMENTS - 1, np.float32)}, {"w": exact.scale_for(1.0, 4.0)}
    assert sum_kernel.speed_warning(tree) is None
    assert sum_kernel.refusal(tree, 1.0, tree, scales, 4.0) is None
