"""Sinks are named by words; what cannot be is refused before the run."""

import sys

import pytest

from fedfleet.app.tracking.sink import numbers_in, sinks_of
from fedfleet.core.errors import BadInput


def test_words_name_sinks(tmp_path):
    names = [sink.name for sink in sinks_of([f"jsonl:{tmp_path}/a:b.jsonl", f"tensorboard:{tmp_path}"])]
    assert names == [f"jsonl:{tmp_path}/a:b.jsonl", f"tensorboard:{tmp_path}"]
    assert not [*tmp_path.iterdir()]  # nothing is written before there is something to write


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tensorbord:x", "did you mean 'tensorboard'"),
        ("jsonl", "does not say where"),
        ("mlflow:", "does not say where"),
    ],
)
def test_words_that_name_none(word, said):
    with pytest.raises(BadInput, match=said):
        sinks_of([word])


@pytest.mark.parametrize(
    ("word", "module"), [("tensorboard:x", "tensorboard.compat.proto"), ("mlflow:x", "mlflow.entities")]
)
def test_the_extra_that_brings_a_tool_is_named(monkeypatch, word, module):
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=r"pip install 'fedfleet\[track\]'"):
        sinks_of([word])


def test_only_finite_numbers_are_measures():
    assert numbers_in({"a": float("nan"), "b": True, "c": {"d": 1, "e": "x"}}) == {"c.d": 1.0}
