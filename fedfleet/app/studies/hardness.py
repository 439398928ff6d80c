"""How hard the fleet of a run is: the Monte-Carlo metrics, with the run's own cohort, deadline and model size."""

from __future__ import annotations

from fedfleet.app.fleets.measuring import measured
from fedfleet.app.fleets.sampling import SAMPLERS, sample_devices, sample_states
from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable
from fedfleet.measure.montecarlo.settings import VIT_KB, Settings

_ROUNDS, _TRIPS = 1000, 2000
_DEADLINE, _COHORT = 120.0, 10  # where the pacing of a run has none


def hardness(spec: Spec, name: str) -> float:
    """One of the six metrics of the fleet that this spec draws."""
    world, pace = spec.table()["world"], spec.pace
    seed = spec.fleet_seed
    settings = Settings(
        k=pace.get("cohort", _COHORT),
        rounds=_ROUNDS,
        trips=_TRIPS,
        deadline=float(pace.get("seconds", _DEADLINE)),
        size_kb=world["model_bytes"] / 1024 if "model_bytes" in world else VIT_KB,
    )
    devices = _devices(spec, seed) if not name.startswith("Stat") else None
    states = _states(spec, seed) if not name.startswith("Dev") else None
    if states is None and not name.startswith("Dev"):
        raise BadInput(
            f"measure.{name}: the fleet has no states that could be measured; name world.states, or measure DevMC"
        )
    return float(measured(name, settings, devices, states, seeds=1)["value"])


def _devices(spec: Spec, seed: int) -> DeviceTable:
    table = spec.world["devices"]
    if table["use"] not in SAMPLERS["devices"]:
        known = ", ".join(SAMPLERS["devices"])
        raise BadInput(
            f"measure: devices that are made by {table['use']!r} cannot be measured as a table; those of {known} can"
        )
    return sample_devices(table, spec.world["clients"], seed)


def _states(spec: Spec, seed: int) -> StateTable | None:
    table = spec.world["states"]
    return sample_states(table, spec.world["clients"], seed) if table["use"] in SAMPLERS["states"] else None
