"""Every arm with every seed, each tried before the first is run."""

from __future__ import annotations

import shutil

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.studies.grid.study_runs import check_runs, expand_study, has_seal, read_study_run, run_folders
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
    cells = expand_study(asked(grid={}, runs=[{"name": "hopeless", "pace": {"use": "deadline", "cohort": 4, "seconds": 1e-3}}]))
    said = check_runs(cells)
    assert said
    assert all("can report within" in doubt for doubt in said)
    assert sorted(title for titles in said.values() for title in titles) == ["hopeless, seed 0", "hopeless, seed 1"]


def test_a_folder_is_found_by_its_digest_whatever_it_is_called(tmp_path):
    cells = expand_study(asked())
    first = run_folders(tmp_path, cells)
    assert len({*first}) == 4
    assert first[0].name == f"algorithm.lr-0.05-s0-{cells[0].spec.digest[:16]}"
    moved = first[0].with_name(f"renamed-{cells[0].spec.digest[:16]}")
    moved.mkdir(parents=True)
    assert run_folders(tmp_path, cells) == [moved, *first[1:]]


def test_a_changed_key_changes_its_own_folders_only(tmp_path):
    before, after = (
        run_folders(tmp_path, expand_study(asked())),
        run_folders(tmp_path, expand_study(asked(grid={"algorithm.lr": [0.05, 0.2]}))),
    )
    assert before[:2] == after[:2]
    assert not {*before[2:]} & {*after[2:]}


def test_how_to_run_is_no_part_of_what_is_run(tmp_path):
    threads = asked(base={**BASE, "run": {"threads": 2}})
    assert run_folders(tmp_path, expand_study(threads)) == run_folders(tmp_path, expand_study(asked()))


def test_names_of_arms_make_no_path(tmp_path):
    odd = expand_study(asked(seeds=1, grid={}, runs=[{"name": "../../up/ and Ünder" + "x" * 300}]))
    (place,) = run_folders(tmp_path, odd)
    assert place.parent == tmp_path / "runs"
    assert len(place.name) < 100


def test_what_became_of_a_run(tmp_path):
    good, bad, gone = expand_study(
        asked(seeds=1, grid={"pace": ["readiness", {"use": "deadline", "seconds": 1e-3, "cohort": 4}, "buffered"]})
    )
    places = run_folders(tmp_path, [good, bad, gone])
    for cell, place in ((good, places[0]), (bad, places[1])):
        perform(cell.spec, place)
        assert has_seal(place)
    assert not has_seal(places[2])
    done = read_study_run(good, places[0])
    assert done.good and done.metrics["commits"] == 3 and done.run.end > 0
    nothing = read_study_run(bad, places[1])
    assert not nothing.good
    assert nothing.reason.startswith("no model was made in 3 rounds and ")
    assert nothing.run.metrics["commits"] == 0
    assert read_study_run(gone, places[2], "the sky fell").reason == "the sky fell"
    (places[0] / "metrics.json").write_text("{}")
    spoilt = read_study_run(good, places[0])
    assert "metrics.json was changed after it was sealed" in spoilt.reason and "move the folder away" in spoilt.reason
    shutil.rmtree(places[0])
    assert "no run folder" in read_study_run(good, places[0]).reason
