"""Results by class: of the stored model, on the central test set, and found out if they lie."""

import json

import numpy as np
import pytest

from fedfleet.app.runs.class_measures import stored_class_measures, with_class_measures
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Dataset, Task
from tests.app.runs.tampering import reseal


def test_a_run_tells_what_its_model_takes_for_what(tiny_run):
    metrics = tiny_run.metrics
    matrix, classes = np.array(metrics["confusion"]), metrics["classes"]
    last = metrics["curve"]["accuracy"][-1]
    assert matrix.shape == (10, 10) and np.trace(matrix) / matrix.sum() == pytest.approx(last) == metrics["accuracy"]
    assert [one["n"] for one in classes] == matrix.sum(1).tolist()
    assert json.loads((tiny_run.out / "metrics.json").read_text())["confusion"] == metrics["confusion"]


@pytest.mark.parametrize("quick", [True, False])
def test_results_by_class_that_lie_are_found_out(run_copy, quick):
    path = run_copy / "metrics.json"
    said = json.loads(path.read_text())
    said["confusion"][0][0] += 1
    path.write_text(json.dumps(said, indent=1) + "\n")
    reseal(run_copy)
    with pytest.raises(RunFailed, match=r"metrics.json lies: confusion is .* follows from the model"):
        replay_run(run_copy, quick=quick)


def test_too_many_classes_or_labels_in_a_row_have_no_table():
    x = np.zeros((6, 2), np.float32)

    def found(y, classes):
        return with_class_measures(
            {"a": 1}, Task("toy", Dataset(x, y, classes), np.arange(4), list, lambda seed: {}), {}
        )

    nothing = {"a": 1, "classes": None, "confusion": None}
    assert found(np.zeros(6, np.int64), 101) == nothing
    assert found(np.zeros((6, 3), np.int64), 5) == nothing


def test_code_that_is_not_trusted_is_not_asked(coded):
    result = replay_run(coded.out)
    assert {"classes", "confusion"} <= set(result["not_verified"]) and sum(map(sum, coded.metrics["confusion"])) == 40


def test_what_was_found_is_kept_for_the_report(tiny_run, tmp_path):
    assert stored_class_measures(tiny_run.out) == {key: tiny_run.metrics[key] for key in ("classes", "confusion")}
    assert stored_class_measures(tmp_path) == {}
    (tmp_path / "metrics.json").write_text('{"classes": null}')
    assert stored_class_measures(tmp_path) == {}
