"""The runs of a study: every arm with every seed, resolved and checked before the first one starts; their folders and results."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import assemble, feasibility_warnings
from fedfleet.app.runs.custom_task import CustomTask, Resolver, resolve_named_task
from fedfleet.app.runs.extra_measures import noise_source
from fedfleet.app.spec import Spec, set_values
from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.compare.run_data import read_run
from fedfleet.app.studies.grid.study_file import Study, folder_words
from fedfleet.app.terminal.text import span
from fedfleet.core.errors import BadInput, FedFleetError, with_place
from fedfleet.store.seals import SEAL


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a study: its arm, its seed, other seeds that the grid draws, and its resolved spec."""

    arm: str
    seed: int
    spec: Spec
    draws: Mapping[str, int] = field(default_factory=dict[str, int])
    own: CustomTask | None = None

    @property
    def repetition(self) -> tuple[int, ...]:
        """What the runs of an arm differ in."""
        return (self.seed, *(self.draws[key] for key in sorted(self.draws)))

    @property
    def draw_ids(self) -> dict[str, int]:
        """Which draw of fleet, data and training it is: runs that share one are not independent of each other."""
        spec = self.spec
        return {"fleets": spec.fleet_seed, "draws of data": spec.data_seed, "trainings": spec.training_seed}

    @property
    def pairing(self) -> tuple[int, ...]:
        """Runs of different arms are paired where this agrees; an arm that sets a seed of its own has other fleets or data."""
        return tuple(self.draw_ids.values())

    @property
    def title(self) -> str:
        """The run in words."""
        return ", ".join([self.arm, f"seed {self.seed}", *(f"{k} {v}" for k, v in self.draws.items())])


def resolve_by_name(table: dict[str, Any], name: str) -> tuple[Spec, CustomTask | None]:
    """The spec of a table whose task has a name."""
    if table.get("task") == {"use": "own"}:
        raise BadInput(
            "model and data of this study were given in Python; resume the study in Python with fedfleet.study(.., model=.., "
            "data=..)"
        )
    return resolve_named_task(table, name)


def expand_study(study: Study, resolving: Resolver = resolve_by_name) -> list[Cell]:
    """All runs of a study in the order of the file; a spec that cannot be is refused with the arm that it belongs to."""
    cells = [
        _cell(study, arm.name, arm.settings, seed, draw, resolving)
        for arm in study.arms
        for seed in study.seeds
        for draw in study.draws
    ]
    by_digest: dict[str, Cell] = {}
    for cell in cells:
        twin = by_digest.setdefault(cell.spec.digest, cell)
        if twin is not cell:
            raise BadInput(f"{cell.title!r} is the same run as {twin.title!r}; leave one of them out")
    return cells


def _cell(study: Study, arm: str, settings: Mapping[str, Any], seed: int, draw: Mapping[str, int], resolving: Resolver) -> Cell:
    try:
        table = set_values(study.base, {**settings, **draw})
        spec, own = resolving({**table, "seed": seed}, study.name)
    except BadInput as error:
        raise with_place(f"the arm {arm!r}", error) from None
    return Cell(arm, seed, spec, draw, own)


def check_runs(cells: list[Cell]) -> dict[str, list[str]]:
    """Assemble every run, so that no mistake is found after the first has started; warnings, with the runs they are about."""
    warnings: dict[str, list[str]] = {}
    for cell in cells:
        try:
            setup = assemble(cell.spec, cell.own.task if cell.own else None)
            noise_source(setup.plan.algorithm)
        except BadInput as error:
            raise BadInput(f"the run {cell.title!r}: {error}") from None
        for doubt in feasibility_warnings(setup):
            warnings.setdefault(doubt, []).append(cell.title)
    return warnings


RUNS = "runs"
_DIGITS = 16  # of a digest, in the name of a folder


@dataclass(frozen=True, slots=True)
class StudyRun:
    """What became of one run: its measures and its curve, or the reason why it has none.

    A run that ended in order but made no model has both.
    """

    cell: Cell
    out: Path
    run: ComparedRun | None = None
    reason: str | None = None

    @property
    def good(self) -> bool:
        """Did it make a model?"""
        return self.reason is None

    @property
    def metrics(self) -> Mapping[str, Any] | None:
        """Its measures, as metrics.json has them."""
        return None if self.run is None else self.run.metrics


def run_folders(out: Path, cells: Sequence[Cell]) -> list[Path]:
    """Where each run lies, or will: a folder with its digest that is there already is used, whatever it is called."""
    existing = {path.name[-_DIGITS:]: path for path in sorted((out / RUNS).glob(f"*-{'?' * _DIGITS}")) if path.is_dir()}
    return [existing.get(_digest_mark(cell), out / RUNS / f"{_slug(cell)}-{_digest_mark(cell)}") for cell in cells]


def has_other_model(out: Path, cells: Sequence[Cell]) -> bool:
    """Are there runs of a custom model here, none of which had the data and first weights that are asked for now?"""
    own_contents = {cell.spec.task.get("content") for cell in cells if cell.own is not None}
    existing = {_content(path) for path in (out / RUNS).glob("*/spec.toml")} - {None} if own_contents else set[Any]()
    return bool(existing) and not existing & own_contents


def _content(spec: Path) -> Any:
    try:
        return tomllib.loads(spec.read_text(encoding="utf-8"))["task"].get("content")
    except (OSError, ValueError, KeyError, AttributeError):  # whatever it is, it is none of ours
        return None


def has_seal(folder: Path) -> bool:
    """Is there a finished run?"""
    return (folder / SEAL).is_file()


def read_study_run(cell: Cell, out: Path, failure: str | None = None) -> StudyRun:
    """What became of a run, from its folder; `failure` says why it could not be finished."""
    if failure is not None:
        return StudyRun(cell, out, reason=failure)
    try:
        run = read_run(out, cell.title)
    except FedFleetError as error:
        return StudyRun(cell, out, reason=f"{error}; move the folder away to have it run again")
    return StudyRun(cell, out, run, None if run.metrics["commits"] else _no_model_reason(run.metrics))


def _no_model_reason(metrics: Mapping[str, Any]) -> str:
    reasons = [warning.removeprefix("no model was made: ") for warning in metrics["warnings"]]
    why = f": {'; '.join(reasons[:2])}" if reasons else ""
    return f"no model was made in {metrics['rounds']} rounds and {span(metrics['virtual_seconds'])} of virtual time{why}"


def _digest_mark(cell: Cell) -> str:
    return cell.spec.digest[:_DIGITS]


def _slug(cell: Cell) -> str:
    return f"{folder_words(cell.arm)}-s{'-'.join(map(str, cell.repetition))}"
