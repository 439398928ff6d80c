"""Tables of a page that show the runs of a study: `<!-- table: runs/NAME -->` above a table whose rows are arms and whose columns name a
measure in code. A page that has one also has the command that makes the folder; who runs it compares every cell."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.docs.numbers import NUMBER, value
from tests.docs.pages import Block, commands_of

POINTS = 4.0  # accuracies differ a little between kinds of processor, nothing else does
_MARKED = re.compile(r"^<!-- table: (?P<folder>\S+) -->\n+(?P<rows>(?:^\|.*\n)+)", re.M)


@dataclass(frozen=True, slots=True)
class Shown:
    """A table of a page: the study's folder, the measure of each column, and the cells by arm."""

    folder: str
    titles: list[str]
    rows: dict[str, list[str]]
    lines: list[str]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def name_in(cell: str) -> str:
    """What a row is about: its first code, else its first words."""
    code = re.search(r"`([^`]+)`", cell)
    return code[1] if code else cell.split(",")[0].strip()


def rounds_to(source: float, told: str) -> bool:
    """Whether a value is what the page says, to the digits that it says; trailing zeros of a whole number are no digits."""
    whole = "." not in told
    digits = told.replace(",", "").strip("0") if whole else re.sub(r"\D", "", told).lstrip("0")
    near = float(f"{source:.{max(1, len(digits))}g}") == value(told)
    return near or (not whole and round(source, len(told.split(".")[1])) == value(told))


def shown(text: str) -> list[Shown]:
    """All marked tables of a page."""
    found: list[Shown] = []
    for m in _MARKED.finditer(text):
        head, _, *rows = m["rows"].splitlines()
        found.append(Shown(m["folder"], cells(head)[1:], {name_in(cells(r)[0]): cells(r)[1:] for r in rows}, rows))
    return found


def made_by_the_page(table: Shown, blocks: list[Block]) -> bool:
    """Whether a command of the page makes the study that the table shows, so that its cells are compared."""
    lines = [c.line for b in blocks if b.language == "console" for c in commands_of(b)]
    return any("study " in line and f"--out {table.folder}" in line for line in lines)


def runs_of(folder: Path) -> dict[str, list[dict[str, object]]]:
    """The measures of each arm's runs in the order of their seeds, with what the study adds."""
    arms: dict[str, list[dict[str, object]]] = {}
    for line in csv.DictReader((folder / "runs.csv").read_text().splitlines()):
        metrics = json.loads((folder / line["folder"] / "metrics.json").read_text())
        own = {key: float(line[key]) if line[key] else None for key in ("time_to_target", "accuracy_at_equal_time")}
        arms.setdefault(line["arm"], []).append(metrics | own)
    return arms


def faults(text: str, root: Path) -> list[str]:
    """Cells that are not what the runs say, one sentence each."""
    found: list[str] = []
    for table in shown(text):
        arms = runs_of(root / table.folder)
        if set(arms) != set(table.rows):
            found.append(f"{table.folder} has the arms {sorted(arms)}, and the table {sorted(table.rows)}")
            continue
        for arm, row in table.rows.items():
            for title, cell in zip(table.titles, row, strict=True):
                measured = [_measure(run, name_in(title)) for run in arms[arm]]
                if not _same(title, cell, measured):
                    found.append(f"{table.folder}: {title} of {arm} is {measured}, and the page says {cell}")
    return found


def _measure(run: dict[str, object], name: str) -> float | None:
    here: object = run
    for key in name.split("."):
        here = here[key] if isinstance(here, dict) else None
    return here if isinstance(here, int | float) else None


def _same(title: str, cell: str, measured: list[float | None]) -> bool:
    """One number is the mean of all runs, several are one each; `never` where a run has none."""
    told = re.findall(rf"never|{NUMBER.pattern}", cell)
    wanted = measured
    if len(told) == 1 < len(measured) and None not in measured:
        wanted = [sum(one or 0.0 for one in measured) / len(measured)]
    return len(told) == len(wanted) and all(_near(title, cell, a, b) for a, b in zip(told, wanted, strict=True))


def _near(title: str, cell: str, told: str, measured: float | None) -> bool:
    if measured is None or told == "never":
        return measured is None and told == "never"
    scale = 100.0 if "%" in cell else 1e-6 if title.startswith("MB") else 1.0
    if "accuracy" in title:
        return abs(value(told) / scale - measured) * 100.0 <= POINTS
    return rounds_to(measured * scale, told)
