"""How fast a cohort trains here."""

import pytest

from fedfleet.app.machine.cohort_speed import bench_train, synthetic_task
from fedfleet.core.errors import BadInput

SMALL = {"cohort": 3, "steps": 2, "batch": 4, "device": "cpu", "tf32": False, "repeats": 1}


def test_tasks_without_files_get_synthetic_data():
    assert len(synthetic_task("mlp", 210).dataset.y) == 210
    assert synthetic_task("digits_logreg", 50).dataset.classes == 10, "the digits come with the package"
    with pytest.raises(BadInput, match="did you mean 'mlp'"):
        synthetic_task("mpl", 10)


def test_one_form_is_timed_against_the_loop():
    got = bench_train("mlp", **SMALL, form="loop")
    assert got["ratio"] == pytest.approx(got["naive_seconds"] / got["stacked_seconds"])
    assert got["max_rel_difference"] < 1e-3
    assert (got["task"], got["cohort"], got["steps"], got["batch"], got["device"]) == ("mlp", 3, 2, 4, "cpu")
