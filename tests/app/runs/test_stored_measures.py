"""metrics.json as anybody may have written it: measures of the right types, or a reason."""

import json

import pytest

from fedfleet.app.runs.folder_seals import stored_measures
from fedfleet.app.runs.stored_measures import read_measures


def with_measures(folder, text):
    (folder / "metrics.json").write_text(text)
    return folder


def test_what_runs_write_is_read(tmp_path):
    measures = {
        "rounds": 3, "accuracy": 0.5, "chance": None, "classes": None, "confusion": [[1, 0], [0, 2]], "mine": {"x": [1]},
        "utilisation": {"mean": 1, "sd": 0.5}, "own": {"f1": None}, "energy": None, "task_results": None,
    }  # fmt: skip
    assert read_measures(with_measures(tmp_path, json.dumps(measures))) == measures


@pytest.mark.parametrize(
    ("measures", "says"),
    [
        ([], "no measures"),
        ({"chance": [1]}, "chance"),
        ({"chance": 7.0}, "chance"),
        ({"rounds": "3"}, "rounds"),
        ({"warnings": "all is well"}, "warnings"),
        ({"energy": {"joules": 1.0}}, "energy"),
        ({"confusion": [[1, 2], [3]]}, "square"),
        ({"failed_rounds": {"why": 1.5}}, "failed_rounds"),
        ({"score": 3}, "score"),
    ],
)
def test_what_no_run_writes_is_refused(tmp_path, measures, says):
    folder = with_measures(tmp_path, json.dumps(measures))
    with pytest.raises(ValueError, match=says):
        read_measures(folder)
    assert stored_measures(folder) == {}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 5000])
def test_what_is_no_json_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match=r"."):
        read_measures(with_measures(tmp_path, text))
