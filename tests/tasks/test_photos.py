"""Tasks on photographs: sides and heads that do not divide are refused before anything is read."""

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.photos import PATCHES_ACROSS, celeba_cnn, check_side, openimage_vit, transformer, vit_tiny


def test_pictures_are_cut_into_eight_patches_across():
    check_side(24)
    with pytest.raises(BadInput, match=r"task\.side = 12 cannot be cut into 8 patches"):
        openimage_vit(side=12)
    tokens = transformer((3, 48, 48), 5, width=6, depth=1, heads=2).positions.table.shape[0]
    assert tokens == PATCHES_ACROSS**2 + 1, "whatever the side, and one class token"


def test_heads_must_share_the_width_evenly():
    recipe = vit_tiny(width=10, heads=3, depth=1, synthetic=True, samples=10)
    with pytest.raises(BadInput, match=r"task\.width = 10 cannot be shared among 3 heads"):
        recipe(0).init(0)


def test_celebrities_smile_or_do_not():
    task = celeba_cnn(hidden=3, synthetic=True, samples=12)(0)
    assert task.dataset.x.shape == (12, 3, 84, 84) and task.dataset.classes == 2
    assert task.init(0)["head.weight"].shape == (2, 3)
