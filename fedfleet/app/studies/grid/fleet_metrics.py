"""How hard the fleet of a run is: the Monte-Carlo metrics, with the run's own cohort, deadline, rounds and model size."""

from __future__ import annotations

from fedfleet.app.fleets.hardness import tables_of
from fedfleet.app.fleets.metrics import measure_metric
from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput
from fedfleet.measure.montecarlo.settings import VIT_KB, Settings

_MOST = 3000  # rounds: longer runs are not harder to tell apart
_DEADLINE, _COHORT = 120.0, 10  # where the pacing of a run has none


def fleet_metric(spec: Spec, name: str) -> float:
    """One of the six metrics of the fleet that this spec draws; each task is charged one sample, as FLHetBench does."""
    pace, size = spec.pace, spec.world["model_bytes"]
    k, rounds = pace.get("cohort") or _COHORT, min(spec.stop["rounds"], _MOST)
    settings = Settings(
        k=k,
        rounds=rounds,
        trips=k * rounds,
        deadline=float(pace.get("seconds") or _DEADLINE),
        size_kb=size / 1000 if size else VIT_KB,
    )
    devices, states, missing = tables_of(spec)
    if states is None and not name.startswith("Dev"):
        why = f" ({missing})" if missing else ""
        raise BadInput(
            f"measure.{name}: the fleet has no states that could be measured{why}; name world.states, or measure DevMC"
        )
    of_devices, of_states = not name.startswith("Stat"), not name.startswith("Dev")
    result = measure_metric(name, settings, devices if of_devices else None, states if of_states else None, seeds=1)
    return float(result["value"])
