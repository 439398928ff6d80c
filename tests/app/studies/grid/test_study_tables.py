"""Tables for people: units on every number, words where there is none."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import sys

import pytest

from fedfleet.app.studies.grid import study_tables
from fedfleet.app.studies.grid.analysis_results import arm_rows, run_analyses
from fedfleet.app.studies.grid.study_tables import (
    TABLES,
    align_table,
    as_csv,
    export,
    flat_row,
    latex,
    markdown,
    results_table,
    run_row,
    wall_row,
)
from fedfleet.core.errors import RunFailed
from tests.app.studies.tables import aims, asked, ran, with_run

A, B = "algorithm.lr=0.05", "algorithm.lr=0.1"


def shown(accuracies, **more):
    study = asked(seeds=len(accuracies) // 2, baseline=A)
    seen = aims(**more)
    return results_table(arm_rows(study, ran(study, accuracies), seen), A, seen)


def test_a_row_in_words():
    header, (first, second) = shown([0.5, 0.6, 0.7, 0.7, 0.81, 0.9], target=0.65)
    assert header == [
        "arm", "runs", "accuracy at the end", "accuracy after 20 s", "virtual time", "sent up", "sent down",
        "median time to 65.0 %", f"at the end, against {A}", f"after 20 s, against {A}",
    ]  # fmt: skip
    assert first[:3] == [A, "3", "60.0 % [35.2 % to 84.8 %]"]
    assert first[4:] == ["20 s", "1.0 kB", "2.0 kB", "not by half (2 of 3 never)", "the baseline", "the baseline"]
    assert second[7] == "20 s"
    assert re.fullmatch(r"\+20\.3 points \[\+\d.* to \+.*\], p = 0\.\d{3}|.*p < 0\.001", second[8])


def test_failures_and_single_seeds_say_so():
    _, (_, second) = shown([0.5, 0.7])
    assert second[7] == "+20.0 points (one seed)"
    _, (_first, second) = shown([0.5, 0.6, None, None])
    assert second[:3] == [B, "2, 2 failed", "none"]
    assert second[-1] == "no common seed"
    assert shown([None, None], equal_time=None)[0][3] == "virtual time"


def test_every_line_has_all_columns_in_every_format():
    header, body = ["a|b", "50 % & more"], [["x_1 | y", "{z}"], ["", "~"]]
    lines = markdown(header, body, "name", "Words.").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in table)
    text = latex(header, body)
    assert r"50 \% \& more" in text and r"x\_1 \textbar{} y & \{z\} \\" in text
    assert text.count(r"\\") == 3
    assert len({line.index("50") if "50" in line else None for line in align_table(header, body).splitlines()[:1]}) == 1


def test_names_of_arms_break_no_table():
    odd = ["[0.5] a", "*", "a\\|b", "<script>x</script>", "`b`"]
    md = markdown(["arm", "runs"], [[name, "1"] for name in odd], "<b>", "A *wins*.")
    assert "<script" not in md.replace("\\<", "") and "# \\<b>" in md and "A \\*wins\\*." in md
    assert r"a\\\|b" in md, "a backslash of the name does not swallow that of the cell"
    tex = latex(["arm", "runs"], [[name, "1"] for name in odd])
    for line in tex.splitlines():
        assert not line.startswith(("[", "*")), "the line before would take it for its own option"


def test_a_difference_that_is_alike_on_every_seed_is_told_with_its_p():
    pair = {"difference": 0.1, "low": None, "high": None, "p": 0.25, "p_holm": 0.25, "n": 3}
    row = {"arm": "b", "against": pair}
    assert study_tables._against(row, "against", "a") == "+10.0 points on each seed, p = 0.250"
    assert study_tables._against({"arm": "b", "against": {**pair, "p_holm": None}}, "against", "a") == "+10.0 points (one seed)"


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
    study = asked(seeds=1, grid={"pace": ["readiness", {"use": "buffered", "k": 2}], "world.split": [[6, 2, 2], [1, 0, 0]]})
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
    study = asked(grid={"pace": [{"use": "deadline", "seconds": float("inf")}]}, analysis=[{"kind": "table", "rows": "loss"}])
    cells = ran(study, [0.5, 0.6], loss=float("nan"))
    export(study, cells, arm_rows(study, cells, aims()), run_analyses(study, cells, aims()), aims(), "", tmp_path)
    result = json.loads((tmp_path / "study.json").read_text(), parse_constant=lambda odd: pytest.fail(f"{odd} is no JSON"))
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
