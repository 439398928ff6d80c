"""The studies of a language model and a regression are valid, and compare what their page says."""

from pathlib import Path

import pytest

from fedfleet.app.studies.grid.study_file import read_study
from fedfleet.app.studies.grid.study_runs import expand_study

STUDIES = Path(__file__).parents[2] / "studies"
KINDS = {"other_tasks_text": "text_gpt", "other_tasks_numbers": "digits_completion"}


@pytest.mark.parametrize("scale", [None, "quick"])
@pytest.mark.parametrize("name", KINDS)
def test_every_arm_has_the_same_fleets_and_five_seeds(name, scale):
    runs = expand_study(read_study(STUDIES / f"{name}.toml", scale=scale))
    arms = {run.arm: [other for other in runs if other.arm == run.arm] for run in runs}
    assert [*arms] == ["centralised", "FedAvg, waiting", "FedAvg, deadline", "FedBuff"]
    assert {len(each) for each in arms.values()} == {5}
    assert {run.spec.task["use"] for run in runs} == {KINDS[name]}
    assert len({str(run.spec.world["devices"]) + str(run.spec.world["states"]) for run in runs}) == 1
