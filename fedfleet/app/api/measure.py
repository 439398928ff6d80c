"""`fedfleet.measure`: how hard a fleet is, of a spec or of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.terminal.answers import check_writable, option_name, write_page
from fedfleet.app.terminal.own_options import (
    DroppedColumns,
    InputColumns,
    KindOfTask,
    LabelColumn,
    MissingRule,
    OwnerColumn,
    OwnModel,
    OwnPath,
    TimeColumn,
)
from fedfleet.app.terminal.value_checks import MOST_SEEDS, Seeds, positive_int
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count

if TYPE_CHECKING:
    from fedfleet.app.api.measure_result import Measured

_ONLY_WITH_FILES = ("until_se", "only", "against", "page")


def measure(
    spec: str | Path | Mapping[str, Any] | None = None,
    *overrides: str,
    seeds: Seeds = 3,
    model: OwnModel = None,
    data: OwnPath = None,
    label: LabelColumn = None,
    owner: OwnerColumn = None,
    input: InputColumns = None,
    drop: DroppedColumns = None,
    time: TimeColumn = None,
    kind: KindOfTask = None,
    missing: MissingRule = None,
    devices: str | Path | None = None,
    states: str | Path | None = None,
    clients_k: Count | None = None,
    rounds: Count | None = None,
    trips: Count | None = None,
    deadline: float | None = None,
    ready_share: float | None = None,
    t_cost: str | float | None = None,
    semantics: str | None = None,
    model_bytes: float | None = None,
    samples: float | None = None,
    t_break: float | None = None,
    until_se: float | None = None,
    only: str | Sequence[str] | None = None,
    against: str | Path | None = None,
    page: str | Path | None = None,
) -> Measured:
    """How hard is this fleet? The six Monte-Carlo metrics, before anyone trains on it.

    With a spec: of the fleet that it draws, under its own pacing, model and work, with a verdict in words and the class clock.
    Without one: of devices and states, under the options given here.

    Args:
        spec: the spec file whose fleet is measured, under its own pacing and work; in Python also a nested dictionary.
        overrides: overrides of the spec, for example pace.cohort=20.
        seeds: how many simulations to average.
        model, data, label, owner, input, drop, time, kind, missing: your own, by their places; in Python also as objects, as for
            `run`.
        devices: a devices file (.json, .csv, .npz) or base, where there is no spec.
        states: a states file (.json, .csv, .npz) or base, where there is no spec.
        clients_k: clients per round; default: 20.
        rounds: rounds of the simulation with a deadline; default: 3000.
        trips: trips of the simulation that waits for a share of the cohort; default: 10000.
        deadline: the deadline of a round, in seconds; default: 120.
        ready_share: the share of clients that a round waits for; default: 0.8.
        t_cost: how long a task takes for the state metrics: uniform (the default), deadline, or a number of seconds.
        semantics: paper: as the paper says (the default); released: as the published program does.
        model_bytes: size of the model in bytes; default: ViT-B/16, in the published program's units.
        samples: samples that each client trains on, in paper semantics; default: 1.
        t_break: pause before each round, in seconds; default: 20.
        until_se: add seeds until the standard error is this small.
        only: compute only these metrics, separated by commas.
        against: another fleet, to compare with by KS and JS distance.
        page: also draw how often each client succeeds, as an HTML page.

    >>> world = {"clients": 10, "model_bytes": 1e7, "devices": "spread"}
    >>> pace = {"use": "deadline", "cohort": 4, "seconds": 30.0}
    >>> found = measure({"task": "digits_logreg", "world": world, "pace": pace, "stop": {"rounds": 5}}, seeds=1)
    >>> sorted(found.metrics), found.metrics["DevMC-T"].unit, sorted(found.clock)[:3]
    (['DevMC-R', 'DevMC-T'], 'seconds of a round', ['classes', 'commits', 'effective'])
    """
    from fedfleet.app.api.measure_result import make_measured

    seed_count = positive_int("seeds", seeds, MOST_SEEDS)
    settings: dict[str, Any] = {
        "clients_k": clients_k, "rounds": rounds, "trips": trips, "deadline": deadline, "ready_share": ready_share,
        "t_cost": t_cost, "semantics": semantics, "model_bytes": model_bytes, "samples": samples, "t_break": t_break,
    }  # fmt: skip
    if spec is not None or (data is not None and devices is None and states is None):
        _refuse_both(
            {"devices": devices, "states": states, **settings, "until_se": until_se, "only": only, "against": against, "page": page}
        )
        from fedfleet.app.api.inputs import resolver_for, take_inputs, user_inputs
        from fedfleet.app.api.own_task import Columns
        from fedfleet.app.studies.predict.fleet_hardness import measure_spec

        columns = Columns(label, owner, input, drop, time, kind, missing)
        table, name, inputs = take_inputs(spec, overrides, user_inputs(model, data, None), columns)
        resolved, custom_task = resolver_for(inputs, "measure")(table, name)
        return make_measured(measure_spec(resolved, seeds=seed_count, task=custom_task.task if custom_task else None))
    if overrides or model is not None or data is not None:
        raise BadInput("overrides, model and data need a spec; give a spec, or leave them out")
    if devices is None and states is None:
        raise BadInput(
            f"nothing to measure: give a spec file (fedfleet measure spec.toml), or a devices file, a states file or both "
            f"({option_name('devices')}, {option_name('states')})"
        )
    from fedfleet.app.api.inputs import as_path
    from fedfleet.app.fleets.metrics import measure_fleet, settings_of
    from fedfleet.app.pages.fleet_pages import successes_page

    under = settings_of({name: value for name, value in settings.items() if value is not None})
    page_path = None if page is None else as_path("page", page)
    if page_path is not None:
        check_writable("page", page_path)
    device_file, state_file, other = (None if path is None else str(path) for path in (devices, states, against))
    values = measure_fleet(
        device_file,
        state_file,
        under,
        seeds=seed_count,
        until_se=until_se,
        only=tuple(str(name).strip() for name in (only.split(",") if isinstance(only, str) else only or ())),
        against=other,
    )
    if page_path is not None:
        write_page("page", page_path, successes_page(device_file, state_file, under))
    return make_measured(values, page_path)


def _refuse_both(options: Mapping[str, Any]) -> None:
    """Refuse a setting beside a spec, which has it already or has no use for it."""
    for name, value in options.items():
        if value is None:
            continue
        if name in _ONLY_WITH_FILES:
            raise BadInput(f"{option_name(name)} applies to files of devices and states, not to a spec; leave one of the two out")
        raise BadInput(
            f"{option_name(name)} and a spec were both given, but the spec already sets this value; "
            "override the spec with KEY=VALUE, or leave the spec out"
        )
