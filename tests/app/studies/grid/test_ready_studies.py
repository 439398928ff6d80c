"""Studies that ship."""

import pytest

from fedfleet.app.studies.grid.ready_studies import NAMES, is_ready, ready_table, with_cohorts_for
from fedfleet.app.studies.grid.study_file import study_of
from fedfleet.app.studies.grid.study_runs import check_runs, expand_study


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_carried_out(name):
    study = study_of({**ready_table(name), "seeds": 1})
    assert len(expand_study(study)) == 3
    check_runs(expand_study(study))


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_ready("severe") and not is_ready("severe.toml") and not is_ready({"seeds": 1})
    (tmp_path / "severe").write_text("")
    assert not is_ready("severe")


@pytest.mark.parametrize(("clients", "cohort"), [(1, 1), (2, 2), (5, 2), (12, 4), (36, 10), (1000, 10)])
def test_small_fleets_get_small_cohorts(clients, cohort):
    study = with_cohorts_for(study_of(ready_table("severe")), clients)
    asked = [
        value for arm in study.arms for key, value in arm.settings.items() if key in ("pace.cohort", "pace.k", "pace.concurrency")
    ]
    assert len(asked) == 4 and set(asked) == {cohort}
