"""A study from its file to its tables: expand it, try every run, have the missing ones done, analyse, write."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fedfleet.app.runs.custom_task import Resolving
from fedfleet.app.runs.run_folder import make_folder
from fedfleet.app.studies.compare.comparison import plain
from fedfleet.app.studies.grid.analysis_results import analysed, check_askable, conclusion, rows_of
from fedfleet.app.studies.grid.expansion import Cell, by_name, expanded, tried
from fedfleet.app.studies.grid.fleet_metrics import hardness
from fedfleet.app.studies.grid.quantities import Aims, Hardness, aimed_at, equal_time
from fedfleet.app.studies.grid.run_cache import RUNS, Ran, folders, of_another_model, ran, sealed
from fedfleet.app.studies.grid.stack_forms import FILE as FORMS
from fedfleet.app.studies.grid.study_file import Study, read_study, study_of, study_text
from fedfleet.app.studies.grid.study_jobs import LOG, Means, carried_out
from fedfleet.app.studies.grid.study_progress import board, shown
from fedfleet.app.studies.grid.study_tables import aligned, shown_table
from fedfleet.app.studies.grid.table_files import TABLES, export, flat_row
from fedfleet.app.terminal.answers import say
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import added_here
from fedfleet.store.files import write_whole
from fedfleet.store.lock import LOCK, locked

_LONGEST = 60  # letters of a folder
FILE = "study.toml"  # in the folder: the study as it was carried out, which can be carried out again


@dataclass(frozen=True, slots=True, repr=False)
class Studied:
    """A study that has been carried out; `print` shows the answer.

    `rows` has one row per arm (see `analysing.rows_of`), `analyses` one answer per [[analysis]], `cells` one per run in the order
    of the file. `cached` counts the runs that were finished before. `verdict` is the conclusion in words, `aims` what the runs
    were measured by together; `notes` say what whoever reads this must know.
    """

    study: Study
    cells: list[Ran]
    rows: list[dict[str, Any]]
    analyses: list[dict[str, Any]]
    out: Path
    aims: Aims
    cached: int = 0
    verdict: str = ""
    notes: tuple[str, ...] = ()
    page: Path | None = None

    @property
    def failed(self) -> int:
        """How many runs made no model."""
        return sum(not one.good for one in self.cells)

    @property
    def unfinished(self) -> int:
        """How many of those could not be finished, so that nobody knows what they would have come to."""
        return sum(one.run is None for one in self.cells)

    def table(self) -> list[dict[str, Any]]:
        """The rows with one plain value in every column, as results.csv has them: `pandas.DataFrame(studied.table())`."""
        return [flat_row(row, self.aims) for row in self.rows]

    def __repr__(self) -> str:
        failed = f", {self.failed} without a model" if self.failed else ""
        return f"Studied({self.study.name}: {len(self.rows)} arms, {len(self.cells)} runs{failed}; {self.out})"

    def __str__(self) -> str:
        shown = aligned(*shown_table(self.rows, self.study.baseline, self.aims))
        failed = [f"{r['arm']}: {why} ({n} of {r['runs']} runs)" for r in self.rows for why, n in r["reasons"].items()]
        before = f", {self.cached} of them from before" if self.cached else ""
        page = "" if self.page is None else f"; page: {self.page}"
        return "\n".join(
            [self.verdict, "", shown, *failed, "", f"{len(self.cells)} runs{before}; tables: {self.out}{page}"]
        )

    def answer(self) -> dict[str, Any]:
        """What `fedfleet study --json` answers."""
        return {
            "runs": len(self.cells),
            "cached": self.cached,
            "failed": self.failed,
            "unfinished": self.unfinished,
            "verdict": self.verdict,
            "target": self.aims.target,
            "equal_time_seconds": self.aims.equal_time,
            "rows": plain(self.rows),
            "analyses": plain(self.analyses),
            "notes": list(self.notes),
            "out": str(self.out),
            "page": None if self.page is None else str(self.page),
        }


def asked_for(file: str | Path | Mapping[str, Any], scale: str | None = None) -> Study:
    """The study of a file, or of a table."""
    return study_of(file, scale=scale) if isinstance(file, Mapping) else read_study(file, scale=scale)


def place_of(asked: Study) -> Path:
    """The folder of a study for which nobody named one: below runs/, whatever its name is."""
    name = asked.name if asked.scale is None else f"{asked.name}-{asked.scale}"
    return Path("runs") / (re.sub(r"[/\\]+", "-", name)[:_LONGEST].strip(" .-") or "study")


def study(
    file: Study | str | Path | Mapping[str, Any],
    out: Path | None = None,
    *,
    scale: str | None = None,
    means: Means = Means(0),  # noqa: B008
    quiet: bool = True,
    resolving: Resolving = by_name,
    prepare: Callable[[], None] | None = None,
    tell: Callable[[str], None] = say,
) -> Studied:
    """Carry out a study of a file or a table: finished runs are read, those that were interrupted go on, the others are begun.

    Everything that can be wrong is told before the first run. `resolving` makes the spec of a table, with the own task where a
    person gave one; `prepare` is called once the folder is there and nothing has begun; `means` says by what the runs are done.
    """
    asked = file if isinstance(file, Study) else asked_for(file, scale)
    out = place_of(asked) if out is None else out
    cells = expanded(asked, resolving)
    outs = folders(out, cells)
    missing = [cell for cell, place in zip(cells, outs, strict=True) if not sealed(place)]
    doubts = [f"{doubt} ({_of(titles, cells)})" for doubt, titles in tried(missing).items()]
    blank = Aims(None, None, _measured(cells))
    check_askable(asked, [Ran(cell, place) for cell, place in zip(cells, outs, strict=True)], blank)
    if means.ray and missing:
        _check_ray(means.address, missing)
    for doubt in doubts:
        tell(f"WARNING: {doubt}")
    _take(out)
    with locked(out):
        if of_another_model(out, cells):
            tell(
                f"the runs in {out} had other data or other first weights, so all begin anew; an own model that is made after "
                "torch.manual_seed, or by a function given as model, has the same each time"
            )
        if _stale(out, cells):
            tell(
                f"the tables in {out} are of other runs than this file asks for; they go, and new ones come with its runs"
            )
        write_whole(out / FILE, study_text(asked, own=any(cell.own for cell in cells)).encode())
        if prepare is not None:
            prepare()
        found, cached = _done(cells, outs, _enough(means, cells), out, quiet=quiet)
        aims = replace(blank, equal_time=equal_time(found), target=aimed_at(asked.target, found, asked.baseline))
        rows, analyses = rows_of(asked, found, aims), analysed(asked, found, aims)
        verdict = conclusion(found)
        notes = export(asked, found, rows, analyses, aims, verdict, out)
    return Studied(asked, found, rows, analyses, out, aims, cached, verdict, (*doubts, *notes))


def _check_ray(address: str | None, missing: Sequence[Cell]) -> None:
    """Refuse a cluster that is not there, and runs that would wait on it for ever: for processors that they occupy themselves."""
    from fedfleet.executors.ray import require_ray

    inside = [cell.title for cell in missing if cell.spec.run["execute"] == "ray"]
    if inside:
        raise BadInput(
            f'the run {inside[0]!r}: run.execute = "ray" sends parts of a run to Ray, and --ray whole runs; use one of them'
        )
    require_ray(address)


def _measured(cells: Sequence[Cell]) -> Hardness:
    """The metrics of the runs' fleets, each found once."""
    by_digest = {cell.spec.digest: cell.spec for cell in cells}
    found = cache(lambda digest, name: hardness(by_digest[digest], name))
    return lambda spec, name: found(spec.digest, name)


def _enough(means: Means, cells: Sequence[Cell]) -> Means:
    """As many workers as this machine, or our share of it, has room for, where nobody said how many."""
    if means.workers or means.ray:
        return means
    if added_here():
        return replace(means, workers=1)
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return replace(means, workers=max(1, mine // max(cell.spec.run["threads"] for cell in cells)))


def _done(cells: list[Cell], outs: list[Path], means: Means, folder: Path, *, quiet: bool) -> tuple[list[Ran], int]:
    """Every run as it ended, and how many had ended before."""
    cached = [i for i, place in enumerate(outs) if sealed(place)]
    with shown(board(cells, cached), quiet=quiet) as hear:
        failures = carried_out(cells, outs, means, log=folder / LOG, hear=hear)
    ends = zip(cells, outs, failures, strict=True)
    return [ran(cell, place, failure or None) for cell, place, failure in ends], len(cached)


def _take(folder: Path) -> None:
    """Refuse a folder that is not a study's, and make a new one."""
    try:
        there = {p.name for p in folder.iterdir()} if folder.is_dir() else set[str]()
    except OSError as wrong:
        raise BadInput(f"--out: cannot read {folder}: {wrong.strerror}; choose another folder") from None
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out: {folder} is a file; name a folder")
    # Files that a kill left half written are nobody's.
    strange = sorted(name for name in there - {LOCK, RUNS, FORMS} if not name.endswith(".part"))
    if strange and FILE not in there:
        raise BadInput(f"--out: {folder} holds something else than a study ({strange[0]}); choose another folder")
    make_folder(folder / RUNS)


def _stale(folder: Path, cells: Sequence[Cell]) -> bool:
    """Were there tables of an earlier file with other runs? They are taken away: whoever is interrupted now must not find
    them beside the new file as if they were its own. Their runs stay."""
    try:
        told = {run["spec_digest"] for run in json.loads((folder / "study.json").read_text(encoding="utf-8"))["runs"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if told == {cell.spec.digest for cell in cells}:
        return False
    for name in ("wall.csv", "report.html", *TABLES):  # the one that tells comes last
        (folder / name).unlink(missing_ok=True)
    return True


def _of(titles: Sequence[str], cells: Sequence[Cell]) -> str:
    return f"in {titles[0]!r}" if len(titles) == 1 else f"in {len(titles)} of {len(cells)} runs"
