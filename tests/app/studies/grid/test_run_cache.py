"""Runs lie in folders that their digests name."""

import shutil

from fedfleet.app.runs import perform
from fedfleet.app.studies.grid.expansion import expand_study
from fedfleet.app.studies.grid.run_cache import has_seal, read_study_run, run_folders
from tests.app.studies.tables import BASE, asked


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
