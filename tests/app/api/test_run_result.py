"""What a run gives back and tells: commits as they come, columns for tables."""

import warnings

import numpy as np
import pytest

import fedfleet
from fedfleet.core.trees import content_hash

pytestmark = pytest.mark.slow

SPEC = {"seed": 2, "task": "digits_logreg", "world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 5}}


def hashes(result):
    return [str(e.model_hash) for e in result.events if type(e).__name__ == "ModelCommitted"]


@pytest.mark.parametrize("kept", [True, False])
def test_each_commit_is_told_once_with_its_model(kept, tmp_path):
    seen, models = [], []

    def note(commit):
        seen.append(commit)
        models.append(content_hash(commit.params))

    result = fedfleet.run(SPEC, "stop.evaluate_every=2", on_commit=note, out=tmp_path / "run" if kept else None)
    assert models == hashes(result)
    assert [c.version for c in seen] == [1, 2, 3, 4, 5] and [c.round for c in seen] == result.rounds["round"].tolist()
    assert [c.time for c in seen] == result.rounds["time"].tolist()
    np.testing.assert_array_equal([np.nan if c.accuracy is None else c.accuracy for c in seen], result.rounds["accuracy"])


def test_what_a_callback_does_with_the_model_changes_nothing():
    def spoil(commit):
        for leaf in commit.params.values():
            leaf[:] = 0

    assert fedfleet.run(SPEC, on_commit=[spoil, spoil]).metrics["digest"] == fedfleet.run(SPEC).metrics["digest"]


def test_a_callback_that_fails_is_named_once_and_loses_nothing(tmp_path):
    calls = []

    def fragile(commit):
        calls.append(commit.version)
        if commit.version == 2:
            raise KeyError("disk")

    with pytest.warns(UserWarning, match=r"on_commit: fragile failed at version 2 \(KeyError: 'disk'\); it is not called again"):
        done = fedfleet.run(SPEC, on_commit=fragile, out=tmp_path / "run")
    assert calls == [1, 2] and done.metrics["commits"] == 5
    assert done.metrics["digest"] == fedfleet.run(SPEC).metrics["digest"]


def test_columns_are_the_same_in_memory_and_from_the_folder(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alive, kept = fedfleet.run(SPEC), fedfleet.run(SPEC, out=tmp_path / "run")
    again = fedfleet.load(tmp_path / "run")
    for name in ("rounds", "clients"):
        for other in (kept, again):
            a, b = getattr(alive, name), getattr(other, name)
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[n], b[n], equal_nan=a[n].dtype.kind == "f") for n in a)
    assert {"kind", "samples"} <= alive.clients.keys()
    assert alive.clients["folded"].sum() == alive.rounds["folded"].sum()
