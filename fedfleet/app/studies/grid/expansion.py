"""From a study to its runs: every arm with every seed, each resolved and tried before the first one starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedfleet.app.assemble import assemble, feasibility_warnings
from fedfleet.app.runs.custom_task import CustomTask, Resolver, resolve_named_task
from fedfleet.app.runs.extra_measures import noise_source
from fedfleet.app.spec import Spec, set_values
from fedfleet.app.studies.grid.study_file import Study
from fedfleet.core.errors import BadInput


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
        """What tells the runs of an arm apart."""
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
            "model and data of this study were given in Python; go on there with fedfleet.study(.., model=.., data=..)"
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


def _cell(
    study: Study, arm: str, settings: Mapping[str, Any], seed: int, draw: Mapping[str, int], resolving: Resolver
) -> Cell:
    try:
        table = set_values(study.base, {**settings, **draw})
        spec, own = resolving({**table, "seed": seed}, study.name)
    except BadInput as error:
        raise BadInput(f"the arm {arm!r}: {error}") from None
    return Cell(arm, seed, spec, draw, own)


def check_runs(cells: list[Cell]) -> dict[str, list[str]]:
    """Assemble every run, so that a mistake in the last is told before the first; what is doubtful, with the runs it is said of."""
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
