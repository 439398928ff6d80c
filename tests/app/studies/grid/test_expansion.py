"""Every arm with every seed, each tried before the first is run."""

import pytest

from fedfleet.app.studies.grid.expansion import check_runs, expand_study
from fedfleet.core.errors import BadInput
from tests.app.studies.tables import BASE, asked


def test_cells_come_in_the_order_of_the_file_each_with_its_seed_and_values():
    cells = expand_study(asked())
    assert [(c.arm, c.seed) for c in cells] == [
        ("algorithm.lr=0.05", 0), ("algorithm.lr=0.05", 1), ("algorithm.lr=0.1", 0), ("algorithm.lr=0.1", 1),
    ]  # fmt: skip
    assert [c.spec.algorithm["lr"] for c in cells] == [0.05, 0.05, 0.1, 0.1]
    assert [c.spec.seed for c in cells] == [0, 1, 0, 1]
    assert len({c.spec.digest for c in cells}) == 4
    assert cells[0].title == "algorithm.lr=0.05, seed 0"


def test_seeds_of_parts_are_drawn_for_every_arm_and_seed():
    cells = expand_study(asked(grid={"algorithm.lr": [0.05, 0.1], "seeds.fleet": [7, 8]}))
    assert [(c.arm, c.seed, c.spec.fleet_seed, c.spec.training_seed) for c in cells[:4]] == [
        ("algorithm.lr=0.05", 0, 7, 0), ("algorithm.lr=0.05", 0, 8, 0), ("algorithm.lr=0.05", 1, 7, 1),
        ("algorithm.lr=0.05", 1, 8, 1),
    ]  # fmt: skip
    assert [c.repetition for c in cells[:4]] == [c.repetition for c in cells[4:]] == [(0, 7), (0, 8), (1, 7), (1, 8)]
    assert cells[0].title == "algorithm.lr=0.05, seed 0, seeds.fleet 7"


def test_an_arm_that_names_another_part_drops_the_settings_of_the_one_before():
    strict = {"name": "strict", "pace": {"use": "deadline", "seconds": 5.0, "cohort": 3}}
    (cell,) = expand_study(asked(seeds=1, grid={}, runs=[strict]))
    assert (cell.spec.pace["use"], cell.spec.pace["cohort"]) == ("deadline", 3)


def test_a_key_that_no_part_has_is_told_with_its_arm():
    with pytest.raises(BadInput, match=r"the arm 'algorithm.lrr=0.1': algorithm has no key 'lrr'; did you mean 'lr'"):
        expand_study(asked(grid={"algorithm.lrr": [0.1]}))
    with pytest.raises(BadInput, match=r"the arm 'algorithm.lr=fast': algorithm.lr = 'fast'"):
        expand_study(asked(grid={"algorithm.lr": [0.1, "fast"]}))


def test_two_arms_that_ask_for_the_same_run_are_told():
    runs = [{"name": "a"}, {"name": "b", "pace.cohort": BASE["pace"]["cohort"]}]
    with pytest.raises(BadInput, match="'b, seed 0' is the same run as 'a, seed 0'"):
        expand_study(asked(grid={}, runs=runs))


def test_a_run_that_cannot_be_assembled_is_told_before_any_starts():
    cells = expand_study(asked(grid={"pace.cohort": [4, 400]}))
    with pytest.raises(BadInput, match=r"the run 'pace.cohort=400, seed 0': .*400"):
        check_runs(cells)


def test_doubts_are_said_once_with_the_runs_they_are_of():
    cells = expand_study(
        asked(grid={}, runs=[{"name": "hopeless", "pace": {"use": "deadline", "cohort": 4, "seconds": 1e-3}}])
    )
    said = check_runs(cells)
    assert said
    assert all("can report within" in doubt for doubt in said)
    assert sorted(title for titles in said.values() for title in titles) == ["hopeless, seed 0", "hopeless, seed 1"]
