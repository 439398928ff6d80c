"""Taking a report in: decoded and checked as the fold would; what is wrong is a reason and never an exception."""

from __future__ import annotations

import numpy as np
import pytest

from fedfleet.core.registry import builder
from fedfleet.core.tensor_format import pack_tree
from fedfleet.learn.codecs.chain import chain
from fedfleet.network.frontend.partial_sums import fold_layout
from fedfleet.network.frontend.report_decoder import codec_from, codec_recipe, decode_report
from tests.network.frontend.test_partial_sums import SERVER, fold_of, model

SHEET = fold_layout(fold_of(model()), SERVER)


def test_an_honest_report_is_its_tree() -> None:
    result = decode_report(SHEET, None, memoryview(pack_tree(model(3))), 1.0)
    assert result.fault == "" and result.tree.keys() == model(3).keys()
    assert all(np.array_equal(result.tree[n], leaf) for n, leaf in model(3).items())
    assert result.nbytes == sum(leaf.nbytes for leaf in model(3).values())


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"garbage", ""),
        (b"", ""),
        (pack_tree({"other": np.zeros(3, np.float32)}), "missing"),
        (
            pack_tree({n: v * np.float32("nan") if v.dtype == np.float32 else v for n, v in model(1).items()}),
            "not finite",
        ),
    ],
    ids=["garbage", "nothing", "another leaf", "NaN"],
)
def test_what_cannot_be_folded_has_a_reason(data: bytes, word: str) -> None:
    result = decode_report(SHEET, None, memoryview(data), 1.0)
    assert result.fault and word in result.fault


def test_whoever_folds_later_looks_later() -> None:
    assert decode_report(SHEET, None, memoryview(b"garbage"), 1.0, check=False) == ({}, 7, "", None)


def test_a_codec_is_made_again_from_its_recipe() -> None:
    whole = chain([builder("codecs", "int8")()])
    assert whole is not None
    again = codec_from(codec_recipe(whole))
    assert codec_recipe(again) == codec_recipe(whole)
