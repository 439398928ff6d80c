"""The files of a study hold its rows, and not one byte that depends on how it came about."""

import csv
import io
import json
import random
import sys

import pytest

from fedfleet.app.studies.grid.analysis_results import arm_rows, run_analyses
from fedfleet.app.studies.grid.table_files import TABLES, as_csv, export, flat_row, run_row, wall_row
from fedfleet.core.errors import RunFailed
from tests.app.studies.tables import aims, asked, ran, with_run

A, B = "algorithm.lr=0.05", "algorithm.lr=0.1"


def exported(folder, study, cells):
    folder.mkdir(exist_ok=True)
    seen = aims(target=0.55)
    rows = arm_rows(study, cells, seen)
    notes = export(study, cells, rows, run_analyses(study, cells, seen), seen, "B is better.", folder)
    return rows, notes


@pytest.fixture
def study():
    return asked(seeds=2, baseline=A, analysis=[{"kind": "pearson", "x": "algorithm.lr"}])


def test_every_format_holds_the_same_numbers(tmp_path, study):
    rows, notes = exported(tmp_path / "out", study, ran(study, [0.5, 0.6, 0.7, None]))
    assert notes == []
    with (tmp_path / "out/results.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [float(row["accuracy"]) for row in table] == [row["accuracy"]["value"] for row in rows]
    assert (table[1]["failed"], table[1]["against_difference"]) == ("1", str(rows[1]["against"]["difference"]))
    assert table[0]["algorithm.lr"] == "0.05" and table[0]["against_p"] == ""
    from pyarrow import parquet

    columns = parquet.read_table(tmp_path / "out/results.parquet").to_pydict()
    assert columns["accuracy"] == [row["accuracy"]["value"] for row in rows]
    whole = json.loads((tmp_path / "out/study.json").read_text())
    assert whole["rows"] == json.loads(json.dumps(rows))
    assert [run["reason"] for run in whole["runs"]] == [None, None, None, "out of luck"]
    assert "55.0 %" in (tmp_path / "out/results.md").read_text()
    assert "55.0 \\%" in (tmp_path / "out/results.tex").read_text()


def test_real_time_is_in_a_file_of_its_own(tmp_path, study):
    calm = ran(study, [0.5, 0.6, 0.7, 0.8])
    slow = [with_run(one, metrics={**one.run.metrics, "wall_seconds": random.random()}) for one in calm]
    for name, cells in (("calm", calm), ("slow", slow)):
        exported(tmp_path / name, study, cells)
    for table in TABLES:
        assert (tmp_path / "calm" / table).read_bytes() == (tmp_path / "slow" / table).read_bytes(), table
    assert (tmp_path / "calm/wall.csv").read_bytes() != (tmp_path / "slow/wall.csv").read_bytes()


def test_without_pyarrow_the_rest_is_written_and_the_extra_is_named(tmp_path, study, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    _, notes = exported(tmp_path / "out", study, ran(study, [0.5, 0.6, 0.7, 0.8]))
    assert notes == [
        'results.parquet is not written, because pyarrow is not installed; get it with: pip install "fedfleet[parquet]"'
    ]
    assert (tmp_path / "out/results.csv").is_file()


def test_columns_of_unlike_values_are_text_in_parquet_too(tmp_path):
    study = asked(
        seeds=1, grid={"pace": ["readiness", {"use": "buffered", "k": 2}], "world.split": [[6, 2, 2], [1, 0, 0]]}
    )
    exported(tmp_path / "out", study, ran(study, [0.5, 0.6, 0.7, 0.8]))
    from pyarrow import parquet

    result = parquet.read_table(tmp_path / "out/results.parquet").to_pydict()
    assert result["pace.k"] == [None, None, 2, 2]
    assert result["world.split"][0] == "[6, 2, 2]"


def test_rows_of_runs(study):
    good, *_, bad = ran(study, [0.5, 0.6, 0.7, None])
    row = run_row(good, aims(target=0.4))
    assert (row["arm"], row["seed"], row["accuracy"], row["time_to_target"]) == (A, 0, 0.5, 20.0)
    assert row["folder"].startswith("runs/")
    assert (run_row(bad, aims())["accuracy"], run_row(bad, aims())["reason"]) == (None, "out of luck")
    assert (wall_row(good)["wall_seconds"], wall_row(bad)["wall_seconds"]) == (0.5, None)
    assert flat_row(arm_rows(study, [good], aims())[0], aims())["equal_time_seconds"] == 20.0


def test_csv_has_every_column_that_any_row_has():
    text = as_csv([{"a": 1}, {"b": 'x,"y"', "a": None}])
    assert list(csv.DictReader(io.StringIO(text))) == [{"a": "1", "b": ""}, {"a": "", "b": 'x,"y"'}]


def test_an_endless_limit_is_a_word_in_json_and_a_diverged_loss_nothing(tmp_path):
    study = asked(
        grid={"pace": [{"use": "deadline", "seconds": float("inf")}]}, analysis=[{"kind": "table", "rows": "loss"}]
    )
    cells = ran(study, [0.5, 0.6], loss=float("nan"))
    export(study, cells, arm_rows(study, cells, aims()), run_analyses(study, cells, aims()), aims(), "", tmp_path)
    result = json.loads(
        (tmp_path / "study.json").read_text(), parse_constant=lambda odd: pytest.fail(f"{odd} is no JSON")
    )
    assert result["rows"][0]["settings"]["pace.seconds"] == "inf" and result["analyses"][0]["table"][0]["loss"] == "nan"


def test_a_full_disk_says_that_nothing_is_lost_and_leaves_the_table_of_before(tmp_path, monkeypatch):
    study = asked()
    cells = ran(study, [0.5, 0.6, 0.7, 0.8])
    rows = arm_rows(study, cells, aims())
    export(study, cells, rows, [], aims(), "", tmp_path)
    before = (tmp_path / "results.csv").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunFailed, match=r"results.csv cannot be written.*no run is lost"):
        export(study, cells, rows[:1], [], aims(), "", tmp_path)
    assert (tmp_path / "results.csv").read_bytes() == before and not list(tmp_path.glob("*.part"))
