"""Taking a report in: decoded and checked as the fold would; what is wrong is a reason and never an exception."""

from __future__ import annotations

import numpy as np
import pytest

from fedfleet.core.container import packed
from fedfleet.core.registry import builder
from fedfleet.learn.codecs.chain import chain
from fedfleet.network.frontend.partial_sums import sheet_of
from fedfleet.network.frontend.report_decoder import codec_from, recipe_of, taken
from tests.network.frontend.test_partial_sums import SERVER, fold_of, model

SHEET = sheet_of(fold_of(model()), SERVER)


def test_an_honest_report_is_its_tree() -> None:
    found = taken(SHEET, None, memoryview(packed(model(3))), 1.0)
    assert found.fault == "" and found.tree.keys() == model(3).keys()
    assert all(np.array_equal(found.tree[n], leaf) for n, leaf in model(3).items())
    assert found.nbytes == sum(leaf.nbytes for leaf in model(3).values())


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"garbage", ""),
        (b"", ""),
        (packed({"other": np.zeros(3, np.float32)}), "missing"),
        (packed({n: v * np.float32("nan") if v.dtype == np.float32 else v for n, v in model(1).items()}), "not finite"),
    ],
    ids=["garbage", "nothing", "another leaf", "NaN"],
)
def test_what_cannot_be_folded_has_a_reason(data: bytes, word: str) -> None:
    found = taken(SHEET, None, memoryview(data), 1.0)
    assert found.fault and word in found.fault


def test_whoever_folds_later_looks_later() -> None:
    assert taken(SHEET, None, memoryview(b"garbage"), 1.0, looks=False) == ({}, 7, "", None)


def test_a_codec_is_made_again_from_its_recipe() -> None:
    whole = chain([builder("codecs", "int8")()])
    assert whole is not None
    again = codec_from(recipe_of(whole))
    assert recipe_of(again) == recipe_of(whole)
