"""`fedfleet.measure`: how hard a fleet is, of a spec or of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.api.inputs import as_path, resolver_for, user_inputs
from fedfleet.app.api.results import Measured, make_measured
from fedfleet.app.fleets.metrics import measure_fleet, settings_of
from fedfleet.app.pages.fleet_pages import successes_page
from fedfleet.app.spec import spec_table
from fedfleet.app.studies.predict.fleet_hardness import measure_spec
from fedfleet.app.terminal.answers import check_writable, write_page
from fedfleet.app.terminal.value_checks import positive_int
from fedfleet.core.errors import BadInput
from fedfleet.measure.montecarlo.settings import Settings

_MOST_SEEDS = 10_000
_WITH_FILES = {"until_se", "only", "against", "page", "picture"}  # what only files of a fleet are asked


def measure(
    spec: str | Path | Mapping[str, Any] | None = None,
    *overrides: str,
    seeds: int = 3,
    model: Any = None,
    data: Any = None,
    devices: str | Path | None = None,
    states: str | Path | None = None,
    clients_k: int | None = None,
    rounds: int | None = None,
    trips: int | None = None,
    deadline: float | None = None,
    ready_share: float | None = None,
    t_cost: str | float | None = None,
    semantics: str | None = None,
    model_bytes: float | None = None,
    samples: float | None = None,
    t_break: float | None = None,
    until_se: float | None = None,
    only: Sequence[str] | None = None,
    against: str | Path | None = None,
    page: str | Path | None = None,
) -> Measured:
    """How hard is this fleet? The six Monte-Carlo metrics, before anyone trains on it.

    With a spec (a path or a nested dictionary, with `key=value` overrides): of the fleet that it draws, under its own pacing, model
    and work, with a verdict in words and the class clock. Without one: of `devices` and `states`, under what is said here.

    Args:
        seeds: how many simulations to average.
        model, data: your own, as for `run`, where the spec names no task.
        devices, states: files (.json, .csv, .npz) or bases, where there is no spec; one of the two may be left out.
        clients_k: clients per round; default: 20.
        rounds, trips: how long to simulate, with a deadline and waiting; default: 3,000 rounds and 10,000 trips.
        deadline, ready_share, t_break: seconds of a round, the share of clients that one waits for, the pause before it in seconds;
            default: 120, 0.8 and 20.
        t_cost: how long a task keeps a client whose state alone is measured: "uniform" (the default), "deadline", or seconds.
        semantics: "paper" (the default), or "released": as the published program does.
        model_bytes, samples: size of the model, and what each client trains on; default: ViT-B/16 and 1.
        until_se: add seeds until the standard error is this small.
        only: compute only these metrics.
        against: another fleet, to compare with by KS and JS distance.
        page: also draw how often each client succeeds, as one HTML file.

    >>> world = {"clients": 10, "model_bytes": 1e7, "devices": "spread"}
    >>> pace = {"use": "deadline", "cohort": 4, "seconds": 30.0}
    >>> found = measure({"task": "digits_logreg", "world": world, "pace": pace, "stop": {"rounds": 5}}, seeds=1)
    >>> sorted(found.metrics), found.metrics["DevMC-T"].unit, sorted(found.clock)[:3]
    (['DevMC-R', 'DevMC-T'], 'seconds of a round', ['classes', 'commits', 'effective'])
    """
    seed_count = positive_int("seeds", seeds, _MOST_SEEDS)
    options: dict[str, Any] = {
        "clients_k": clients_k, "rounds": rounds, "trips": trips, "deadline": deadline, "ready_share": ready_share,
        "t_cost": t_cost, "semantics": semantics, "model_bytes": model_bytes, "samples": samples, "t_break": t_break,
    }  # fmt: skip
    if spec is None:
        if overrides or model is not None or data is not None:
            raise BadInput("overrides, model and data go with a spec, and none was given; give one, or leave them out")
        settings = settings_of({name: value for name, value in options.items() if value is not None})
        fleet = FleetFiles(_text(devices), _text(states), metric_names(only), _text(against), until_se)
        return _measure_files(fleet, settings, seed_count, None if page is None else as_path("page", page))
    files = {"devices": devices, "states": states, "until_se": until_se, "only": only, "against": against, "page": page}
    for name, value in {**files, **options}.items():
        if value is not None:
            raise BadInput(conflict_message(name))
    resolved, custom_task = resolver_for(user_inputs(model, data, None), "measure")(*spec_table(spec, overrides))
    return make_measured(measure_spec(resolved, seeds=seed_count, task=custom_task.task if custom_task else None))


@dataclass(frozen=True, slots=True)
class FleetFiles:
    """A fleet of files or bases, and what of it is asked for."""

    devices: str | None
    states: str | None
    only: tuple[str, ...] = ()
    against: str | None = None
    until_se: float | None = None


def _measure_files(fleet: FleetFiles, settings: Settings, seeds: int, page: Path | None) -> Measured:
    if page is not None:
        check_writable("page", page)
    json_answer = measure_fleet(
        fleet.devices,
        fleet.states,
        settings,
        seeds=seeds,
        until_se=fleet.until_se,
        only=fleet.only,
        against=fleet.against,
    )
    if page is not None:
        write_page("page", page, successes_page(fleet.devices, fleet.states, settings))
    return make_measured(json_answer, page)


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)


def conflict_message(name: str) -> str:
    """What is said of a setting beside a spec: that has it already, or has no use for it.

    >>> both_given("--picture")
    '--picture goes with files of devices and states, not with a spec; leave one of the two out'
    """
    if name.strip("-").replace("-", "_") in _WITH_FILES:
        return f"{name} goes with files of devices and states, not with a spec; leave one of the two out"
    cure = "override the spec with KEY=VALUE, or leave the spec out"
    return f"{name} and a spec were both given, and the spec says it already; {cure}"


def metric_names(only: Sequence[str] | None) -> tuple[str, ...]:
    """Names of metrics, as a list or separated by commas."""
    return tuple(str(name).strip() for name in (only.split(",") if isinstance(only, str) else only or ()))
