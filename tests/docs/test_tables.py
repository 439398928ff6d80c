"""A table of runs is compared with the runs, cell by cell, and only if the page's commands make them."""

import json

import pytest

from fedfleet.app.studies.grid.study_file import read_study
from fedfleet.app.studies.grid.study_runs import expand_study
from tests.docs.pages import PAGES, ROOT, blocks, blocks_of, name_of
from tests.docs.tables import faults, made_by_the_page, rounds_to, shown

TABLE = """<!-- table: runs/mine -->
| arm | `accuracy` | MB up (`bytes_up`) | seconds (`time_to_target`) | never (`participation.never`) |
| --- | --- | --- | --- | --- |
| `a`, patient | 0.80, 0.90 | 3.85 | 12, never | 4 |
"""
RUN = "```console\nfedfleet study x.toml --out runs/mine\n```\n"


@pytest.fixture
def folder(tmp_path):
    lines = ["arm,seed,folder,time_to_target,accuracy_at_equal_time"]
    for seed, accuracy, reached in ((1, 0.81, "12.2"), (2, 0.9, "")):
        at = tmp_path / f"runs/mine/runs/a-{seed}"
        at.mkdir(parents=True)
        measured = {"accuracy": accuracy, "bytes_up": 3_848_000.0, "participation": {"never": 4}}
        (at / "metrics.json").write_text(json.dumps(measured))
        lines.append(f"a,{seed},runs/a-{seed},{reached},0.5")
    (tmp_path / "runs/mine/runs.csv").write_text("\n".join(lines))
    return tmp_path


def test_a_table_that_is_true(folder):
    assert faults(TABLE, folder) == []
    assert faults(TABLE.replace("0.80, 0.90", "86 %"), folder) == []  # the mean, to a few points


@pytest.mark.parametrize(
    ("true", "false", "told"),
    [
        ("0.80, 0.90", "0.80, 0.96", "accuracy"),
        ("3.85", "3.95", "bytes_up"),
        ("12, never", "13, never", "time_to_target"),
        ("12, never", "12, 30", "time_to_target"),
        ("12, never", "12", "time_to_target"),
        ("| 4 |", "| 5 |", "participation.never"),
        ("`a`", "`b`", "has the arms ['a']"),
    ],
)
def test_a_table_that_lies(folder, true, false, told):
    (one,) = faults(TABLE.replace(true, false), folder)
    assert told in one


def test_runs_by_name_and_spans_as_commands_write_them(tmp_path):
    (tmp_path / "runs/quick").mkdir(parents=True)
    (tmp_path / "runs/quick/metrics.json").write_text(json.dumps({"virtual_seconds": 6400.0}))
    text = "<!-- table: runs -->\n| run | time (`virtual_seconds`) |\n| --- | --- |\n| `quick` | 1.8 h |\n"
    assert faults(text, tmp_path) == []
    assert len(faults(text.replace("1.8", "1.9"), tmp_path)) == 1


def test_only_what_the_page_runs_is_vouched_for():
    (table,) = shown(TABLE)
    assert made_by_the_page(table, blocks_of(RUN, "a.md"))
    assert not made_by_the_page(table, blocks_of(RUN.replace("mine", "other"), "a.md"))


SHOWN = [pytest.param(page, table, id=name_of(page)) for page in PAGES for table in shown(page.read_text())]


@pytest.mark.parametrize(("page", "table"), SHOWN)
def test_every_table_of_runs_is_made_by_its_page(page, table):
    assert made_by_the_page(table, blocks(page))


@pytest.mark.parametrize("path", sorted((ROOT / "examples/studies").glob("*.toml")), ids=lambda p: p.name)
def test_studies_are_valid_and_have_the_arms_that_pages_show(path):
    cells = expand_study(read_study(path))
    tables = [t for page in PAGES for t in shown(page.read_text()) if t.folder == f"runs/{path.stem}"]
    assert all(set(table.rows) == {one.arm for one in cells} for table in tables)


def test_rounding():
    assert rounds_to(13.6, "14") and rounds_to(254, "250") and not rounds_to(13.2, "14") and not rounds_to(80.8, "82")
    assert rounds_to(108_456, "100,000") and rounds_to(1.84, "1.8") and rounds_to(80.5, "81") and not rounds_to(0.31, "0.3000")
    assert rounds_to(0.0, "0") and not rounds_to(0.6, "0")
