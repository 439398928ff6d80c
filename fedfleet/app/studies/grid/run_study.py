"""A study from its file to its tables: expand it, try every run, have the missing ones done, analyse, write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fedfleet.app.runs.custom_task import Resolver
from fedfleet.app.runs.run_folder import claim_folder, make_folder
from fedfleet.app.studies.compare.comparison import json_value
from fedfleet.app.studies.compare.records import Recommendation
from fedfleet.app.studies.grid.analysis_results import arm_rows, check_analyses, conclusion, run_analyses, study_verdict
from fedfleet.app.studies.grid.joint_jobs import FORMS_FILE
from fedfleet.app.studies.grid.quantities import (
    Aims,
    FleetMetric,
    equal_time,
    fleet_metric,
    resolve_target,
    score_of_cells,
    shown_measures,
)
from fedfleet.app.studies.grid.study_file import Study, read_study, study_of, study_text
from fedfleet.app.studies.grid.study_jobs import LOG, RunNews, WorkerSettings, carry_out_runs
from fedfleet.app.studies.grid.study_progress import board, show_board
from fedfleet.app.studies.grid.study_runs import (
    RUNS,
    Cell,
    StudyRun,
    check_runs,
    expand_study,
    has_other_model,
    has_seal,
    read_study_run,
    resolve_by_name,
    run_folders,
)
from fedfleet.app.studies.grid.study_tables import TABLES, align_table, export, flat_row, results_table
from fedfleet.app.studies.run_export import RunTracker
from fedfleet.app.terminal.answers import say, warn
from fedfleet.core.errors import BadInput
from fedfleet.core.json_text import parse_json
from fedfleet.core.registry import added_here
from fedfleet.executors.worker_pool import processor_count
from fedfleet.store.files import write_atomically
from fedfleet.store.lock import LOCK, hold_lock

_LONGEST = 60  # letters of a folder
LOOKS = "looks.json"  # in the folder: with which numbers of seeds the study was evaluated before
FILE = "study.toml"  # in the folder: the study as it was carried out, which can be carried out again


@dataclass(frozen=True, slots=True, repr=False)
class Studied:
    """A study that has been carried out; `print` shows the answer.

    `rows` has one row per arm (see `analysis_results.arm_rows`), `analyses` one answer per [[analysis]], `cells` one per run in
    the order of the file. `cached` counts the runs that were finished before. `verdict` is the conclusion in words,
    `recommendation` the same as a record (None: no run ended), `aims` what the runs were measured by together; `notes` are
    warnings for readers; those in `told` were said before the first run.
    """

    study: Study
    cells: list[StudyRun]
    rows: list[dict[str, Any]]
    analyses: list[dict[str, Any]]
    out: Path
    aims: Aims
    cached: int = 0
    verdict: str = ""
    notes: tuple[str, ...] = ()
    page: Path | None = None
    recommendation: Recommendation | None = None
    told: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        """How many runs made no model."""
        return sum(not one.good for one in self.cells)

    @property
    def unfinished(self) -> int:
        """How many of those could not be finished, so that their result is unknown."""
        return sum(one.run is None for one in self.cells)

    def table(self) -> list[dict[str, Any]]:
        """The rows with one plain value in every column, as results.csv has them: `pandas.DataFrame(studied.table())`."""
        return [flat_row(row, self.aims) for row in self.rows]

    def __repr__(self) -> str:
        failed = f", {self.failed} without a model" if self.failed else ""
        return f"Studied({self.study.name}: {len(self.rows)} arms, {len(self.cells)} runs{failed}; {self.out})"

    def __str__(self) -> str:
        table = align_table(*results_table(self.rows, self.study.baseline, self.aims))
        failed = [f"{r['arm']}: {why} ({n} of {r['runs']} runs)" for r in self.rows for why, n in r["reasons"].items()]
        cached = f", {self.cached} of them from before" if self.cached else ""
        page = "" if self.page is None else f"; page: {self.page}"
        return "\n".join([self.verdict, "", table, *failed, "", f"{len(self.cells)} runs{cached}; tables: {self.out}{page}"])

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the command line says beside the answer."""
        new = tuple(note for note in self.notes if note not in self.told)
        if not self.unfinished:
            return new
        cure = "correct the cause and run the same command again: only these runs are tried"
        return (*new, f"{self.unfinished} of {len(self.cells)} runs have no result; {cure}")

    @property
    def exit_code(self) -> int:
        """1 if runs are missing, or if none made a model; a single run that ended in order without one is a finding."""
        return int(bool(self.unfinished) or self.failed == len(self.cells))

    def to_dict(self) -> dict[str, Any]:
        """What `fedfleet study --json` answers."""
        return {
            "runs": len(self.cells),
            "cached": self.cached,
            "failed": self.failed,
            "unfinished": self.unfinished,
            "verdict": self.verdict,
            "recommendation": None if self.recommendation is None else asdict(self.recommendation),
            "target": self.aims.target,
            "equal_time_seconds": self.aims.equal_time,
            "rows": json_value(self.rows),
            "analyses": json_value(self.analyses),
            "notes": list(self.notes),
            "out": str(self.out),
            "page": None if self.page is None else str(self.page),
        }

    answer = to_dict  # its name before


def load_study(file: str | Path | Mapping[str, Any], scale: str | None = None) -> Study:
    """The study of a file, or of a table."""
    return study_of(file, scale=scale) if isinstance(file, Mapping) else read_study(file, scale=scale)


def default_folder(definition: Study) -> Path:
    """The folder of a study without --out: below runs/, whatever its name is."""
    name = definition.name if definition.scale is None else f"{definition.name}-{definition.scale}"
    return Path("runs") / (re.sub(r"[/\\]+", "-", name)[:_LONGEST].strip(" .-") or "study")


def study(
    file: Study | str | Path | Mapping[str, Any],
    out: Path | None = None,
    *,
    scale: str | None = None,
    worker_settings: WorkerSettings = WorkerSettings(0),  # noqa: B008
    quiet: bool = True,
    resolving: Resolver = resolve_by_name,
    prepare: Callable[[], None] | None = None,
    tell: Callable[[str], None] = say,
    tracker: RunTracker | None = None,
) -> Studied:
    """Carry out a study of a file or a table: finished runs are read, those that were interrupted go on, the others are begun.

    Everything that can be wrong is reported before the first run. `resolving` makes the spec of a table, with the own task where a
    person gave one; `prepare` is called once the folder is there and nothing has begun; `worker_settings` says by what the runs are
    done; `tracker` gets every run that is finished now.
    """
    definition = file if isinstance(file, Study) else load_study(file, scale)
    out = default_folder(definition) if out is None else out
    cells = expand_study(definition, resolving)
    outs = run_folders(out, cells)
    missing = [cell for cell, place in zip(cells, outs, strict=True) if not has_seal(place)]
    doubts = [f"{doubt} ({_runs_phrase(titles, cells)})" for doubt, titles in check_runs(missing).items()]
    blank = Aims(None, None, _cached_metric(cells))
    check_analyses(definition, [StudyRun(cell, place) for cell, place in zip(cells, outs, strict=True)], blank)
    if worker_settings.ray and missing:
        _check_ray(worker_settings.address, missing)
    for doubt in doubts:
        tell(f"WARNING: {doubt}")
    claim_folder(out, "study", marker=FILE, known={LOCK, RUNS, FORMS_FILE, LOOKS})
    make_folder(out / RUNS)
    with hold_lock(out):
        if has_other_model(out, cells):
            tell(
                f"the runs in {out} had other data or other initial weights, so all runs start again; a model of your own "
                "that is made after torch.manual_seed, or by a function given as model, has the same initial weights each time"
            )
        if _remove_stale_tables(out, cells):
            tell(f"the tables in {out} are of other runs than this file asks for; they are deleted and written again for its runs")
        write_atomically(out / FILE, study_text(definition, own=any(cell.own for cell in cells)).encode())
        if prepare is not None:
            prepare()
        settings = _with_workers(worker_settings, cells)
        runs, cached = _finish_runs(cells, outs, settings, out, quiet=quiet, tracker=tracker or RunTracker([]))
        target = resolve_target(definition.target, runs, definition.baseline)
        score, shown = score_of_cells(runs), shown_measures(runs, definition.aim)
        aims = replace(blank, equal_time=equal_time(runs), target=target, look=note_look(out, definition), score=score, shown=shown)
        rows, analyses = arm_rows(definition, runs, aims), run_analyses(definition, runs, aims)
        found = study_verdict(definition, runs, aims)
        verdict = conclusion(found, runs)
        notes = export(definition, runs, rows, analyses, aims, verdict, out)
    best = None if found is None else found.recommendation
    return Studied(
        definition, runs, rows, analyses, out, aims, cached, verdict, (*doubts, *notes), recommendation=best, told=tuple(doubts)
    )


def _check_ray(address: str | None, missing: Sequence[Cell]) -> None:
    """Refuse a cluster that is not there, and runs that would wait on it for ever: for processors that they occupy themselves."""
    from fedfleet.executors.ray_cluster import require_ray

    inside = [cell.title for cell in missing if cell.spec.run["execute"] == "ray"]
    if inside:
        raise BadInput(
            f'the run {inside[0]!r}: run.execute = "ray" sends parts of a run to Ray, but --ray sends whole runs; use one of them'
        )
    require_ray(address)


def _cached_metric(cells: Sequence[Cell]) -> FleetMetric:
    """The metrics of the runs' fleets, each found once."""
    by_digest = {cell.spec.digest: cell.spec for cell in cells}
    result = cache(lambda digest, name: fleet_metric(by_digest[digest], name))
    return lambda spec, name: result(spec.digest, name)


def _with_workers(worker_settings: WorkerSettings, cells: Sequence[Cell]) -> WorkerSettings:
    """As many workers as this machine, or our share of it, has room for, where no number is given."""
    if worker_settings.workers or worker_settings.ray:
        return worker_settings
    if added_here():
        return replace(worker_settings, workers=1)
    threads = max(cell.spec.run["threads"] for cell in cells)
    return replace(worker_settings, workers=max(1, processor_count() // threads))


def _finish_runs(
    cells: list[Cell], outs: list[Path], worker_settings: WorkerSettings, folder: Path, *, quiet: bool, tracker: RunTracker
) -> tuple[list[StudyRun], int]:
    """Every run as it ended, and how many had ended before."""
    cached = [i for i, place in enumerate(outs) if has_seal(place)]
    missing = [place for i, place in enumerate(outs) if i not in cached]
    try:
        with show_board(board(cells, cached), quiet=quiet) as take_news:

            def on_news(news: RunNews) -> None:
                take_news(news)
                if news.is_over and has_seal(outs[news.cell]):
                    tracker.write(outs[news.cell])

            failures = carry_out_runs(cells, outs, worker_settings, log=folder / LOG, on_news=on_news)
    finally:
        for place in filter(has_seal, missing):  # after an interrupt too: they are not tried again
            tracker.write(place)
        warn(tracker.warnings)
    ends = zip(cells, outs, failures, strict=True)
    return [read_study_run(cell, place, failure or None) for cell, place, failure in ends], len(cached)


def _remove_stale_tables(folder: Path, cells: Sequence[Cell]) -> bool:
    """Were there tables of an earlier file with other runs? They are removed: after an interrupt they must not
    lie with the new file as if they were its own. Their runs stay."""
    try:
        digests = {run["spec_digest"] for run in parse_json((folder / "study.json").read_text(encoding="utf-8"))["runs"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if digests == {cell.spec.digest for cell in cells}:
        return False
    for name in ("wall.csv", "report.html", *TABLES):  # the file that is looked for comes last
        (folder / name).unlink(missing_ok=True)
    return True


def _runs_phrase(titles: Sequence[str], cells: Sequence[Cell]) -> str:
    return f"in {titles[0]!r}" if len(titles) == 1 else f"in {len(titles)} of {len(cells)} runs"


def note_look(folder: Path, study: Study) -> int:
    """How often these arms have been evaluated by now, this time included; the folder keeps it.

    Looking again after more seeds must be surer than looking once. The same seeds again are the same look, and one seed is none,
    since nothing can be tested with it.
    """
    arms, count = [arm.name for arm in study.arms], len(study.seeds) * len(study.draws)
    looks = _earlier_looks(folder, arms)
    if count > 1 and count not in looks:
        looks.append(count)
        write_atomically(folder / LOOKS, json.dumps({"arms": arms, "seeds": looks}).encode())
    return looks.index(count) + 1 if count in looks else 1


def _earlier_looks(folder: Path, arms: list[str]) -> list[int]:
    """The numbers of seeds of earlier evaluations; none if they were of other arms."""
    try:
        kept = parse_json((folder / LOOKS).read_text(encoding="utf-8"))
        return [int(count) for count in kept["seeds"]] if kept["arms"] == arms else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
