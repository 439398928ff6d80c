"""Tables of a page that show runs: `<!-- table: FOLDER -->` above a table whose columns name a measure in code.

Rows are the arms of the study in that folder, or the runs in it by name. The page has the commands that make the folder too, so
that whoever executes them compares every cell. One number of an arm is the mean over its seeds, several are one each.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedfleet.app.terminal.text import span
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
    digits = told.replace(",", "")
    _, point, after = digits.partition(".")
    zeros = len(digits) - len(digits.rstrip("0")) if digits.strip("0") else 0
    unit = 10.0 ** -len(after) if point else 10.0**zeros
    return abs(source - value(told)) <= 0.5 * unit * (1.0 + 1e-9)


def shown(text: str) -> list[Shown]:
    """All marked tables of a page."""
    result: list[Shown] = []
    for m in _MARKED.finditer(text):
        head, _, *rows = m["rows"].splitlines()
        result.append(Shown(m["folder"], cells(head)[1:], {name_in(cells(r)[0]): cells(r)[1:] for r in rows}, rows))
    return result


def made_by_the_page(table: Shown, blocks: list[Block]) -> bool:
    """Whether commands of the page make what the table shows, the whole study or each of the runs, so that cells are compared."""
    made = re.findall(r"--out (\S+)", "\n".join(c.line for b in blocks if b.language == "console" for c in commands_of(b)))
    return table.folder in made or all(f"{table.folder}/{name}" in made for name in table.rows)


def runs_of(folder: Path, names: Iterable[str]) -> dict[str, list[dict[str, object]]]:
    """The measures of each arm's runs in the order of their seeds, with what the study adds; or of the runs of these names."""
    if not (folder / "runs.csv").exists():
        return {name: [json.loads((folder / name / "metrics.json").read_text())] for name in names}
    arms: dict[str, list[dict[str, object]]] = {}
    for line in csv.DictReader((folder / "runs.csv").read_text().splitlines()):
        metrics = json.loads((folder / line["folder"] / "metrics.json").read_text())
        own = {key: float(line[key]) if line[key] else None for key in ("time_to_target", "accuracy_at_equal_time")}
        arms.setdefault(line["arm"], []).append(metrics | own)
    return arms


def faults(text: str, root: Path) -> list[str]:
    """Cells that are not what the runs say, one sentence each."""
    result: list[str] = []
    for table in shown(text):
        arms = runs_of(root / table.folder, table.rows)
        if set(arms) != set(table.rows):
            result.append(f"{table.folder} has the arms {sorted(arms)}, and the table {sorted(table.rows)}")
            continue
        for arm, row in table.rows.items():
            for title, cell in zip(table.titles, row, strict=True):
                measured = [_measure(run, name_in(title)) for run in arms[arm]]
                if not _same(title, cell, measured):
                    result.append(f"{table.folder}: {title} of {arm} is {measured}, and the page says {cell}")
    return result


def _measure(run: dict[str, object], name: str) -> float | None:
    here: object = run
    for key in name.split("."):
        here = here[key] if isinstance(here, dict) else None
    return here if isinstance(here, int | float) else None


def _same(title: str, cell: str, measured: list[float | None]) -> bool:
    """Whether a cell says this; `never` where a run has none, and spans of time as the commands write them."""
    if re.fullmatch(r"[\d.]+ [a-z]+", cell):
        return [cell] == [span(one) for one in measured if one is not None]
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
