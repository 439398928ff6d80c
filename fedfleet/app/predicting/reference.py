"""Reference runs: how an ideal fleet learns this task from this data with full and with small cohorts, trained once and kept.

On an ideal fleet everyone is alike, always there and reports. Two short runs tell what no fleet can: the learning curve g, commit
by commit, and by how much small cohorts slow it down, which is the noise b of the class clock. Neither depends on devices, states,
pacing or deadlines, so that one pair serves every fleet with the same task, data and algorithm.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup, assemble, executing
from fedfleet.app.predicting.participation import fleet_of
from fedfleet.app.spec import Spec, resolve
from fedfleet.app.spec.tables import build_part
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, Event
from fedfleet.core.parts import Policy, Task
from fedfleet.core.records import Floats
from fedfleet.measure.clock import Ideal, Participation, class_clock, noise_of, rising
from fedfleet.runtime.dry import dry_run
from fedfleet.runtime.simulate import simulate

FORM = 1  # of kept files: those of another form are made anew
FEW = 2  # reports in a commit of the run with small cohorts
MOST = 300  # commits of a reference run
_PATIENCE, _GAIN = 25, 0.002  # no gain of so much in so many commits: the curve is flat


@dataclass(frozen=True, slots=True)
class Reference:
    """What an ideal fleet learns. `small` is its learning curve with FEW reports a commit, from which the noise came.

    `flat`: the curve had stopped rising. `seconds` is what training both took, `kept` whether that was before.
    """

    ideal: Ideal
    small: Floats
    flat: bool
    seconds: float
    kept: bool = False


def cache_folder() -> Path:
    """Where reference runs are kept unless somebody says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fedfleet" / "reference"


def cohort_of(spec: Spec) -> int:
    """How many reports a model of this spec has at most."""
    pace: Policy = build_part("policies", spec.pace)
    return pace.cohort if pace.holds is None else pace.holds


def reference_of(
    spec: Spec,
    *,
    cache: Path | None = None,
    task: Task | None = None,
    code: str | None = "",
    tell: Callable[[str], None] | None = None,
) -> Reference:
    """The reference runs of a spec: those that are kept, if they are long enough, else trained now.

    `code` tells apart own tasks of equal data and first weights; None: nobody can tell, so that nothing is kept.
    """
    cohort, rounds = cohort_of(spec), min(spec.stop["rounds"], MOST)
    ideal = ideal_spec(spec, cohort, rounds)
    place = (cache_folder() if cache is None else cache) / f"{_name(ideal, code or '')}.json"
    found = None if code is None else _kept(place)
    if found is not None and (found.flat or len(found.ideal.accuracy) > rounds):
        return found
    if tell is not None:
        tell(
            f"two reference runs of {rounds} commits at most on an ideal fleet, once for this task, data and algorithm"
        )
    start = time.perf_counter()
    made = _trained(ideal, ideal_spec(spec, min(FEW, cohort), rounds, patient=True), task, cohort)
    made = replace(made, seconds=time.perf_counter() - start)
    if code is not None:
        _keep(place, made, ideal)
    return made


def _trained(full: Spec, small: Spec, task: Task | None, cohort: int) -> Reference:
    setup, few = assemble(full, task), assemble(small, task)
    curve, part = _run(setup)
    flat = len(curve) <= full.stop["rounds"]
    little, members = _run(few, len(curve) - 1)
    fleet = fleet_of(setup)
    diversity = class_clock(part, fleet.labels, cohort=cohort).diversity
    ideal = Ideal(rising(curve), diversity, 0.0, cohort)
    noise = noise_of(ideal, members, fleet.labels, little, fleet.test) if cohort > FEW else 0.0
    return Reference(replace(ideal, noise=noise), little, flat, 0.0)


def ideal_spec(spec: Spec, cohort: int, rounds: int, *, patient: bool = False) -> Spec:
    """The same task, data, algorithm and seeds on a fleet where everyone is alike, always there and reports."""
    table = spec.table()
    world = {k: v for k, v in table["world"].items() if k not in ("faults", "users", "tags", "model_bytes", "charge")}
    world |= {"devices": {"use": "homogeneous"}, "states": {"use": "always_on"}, "heterogeneity": "both"}
    stop: dict[str, Any] = {"rounds": max(rounds, 1)}
    if not patient:
        stop |= {"patience": _PATIENCE, "min_delta": _GAIN}
    kept = {k: v for k, v in table.items() if k not in ("edge", "choose", "override", "seed", "seeds")}
    changed = {
        **kept,
        "seed": spec.training_seed,  # whatever fleet it is
        "seeds": {"data": spec.data_seed},
        "world": world,
        "pace": {"use": "readiness", "cohort": cohort, "min_clients": 1},
        "stop": stop,
        "run": {**table["run"], "execute": "stacked" if table["run"]["execute"] == "auto" else table["run"]["execute"]},
    }
    return resolve(changed, "reference", own_task=spec.task["content"] if spec.task["use"] == "own" else None)


def _name(ideal: Spec, code: str = "") -> str:
    """By what kept runs are found: everything but how long they are."""
    asked = {k: v for k, v in ideal.table().items() if k not in ("run", "stop")}
    named = [FORM, asked, *([code] if code else [])]
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:24]


def _run(setup: Setup, commits: int | None = None) -> tuple[Floats, Participation]:
    """Accuracy after 0, 1, 2, .. commits, and who was in them."""
    plan, found = setup.plan, dict[int, float]()
    if commits is not None:
        plan = replace(plan, stop=replace(plan.stop, commits=commits))

    def watch(events: Sequence[Event]) -> None:
        found.update({e.version: e.correct / e.total for e in events if isinstance(e, Evaluated) and e.total})

    with executing(setup) as execute:
        simulate(plan, setup.world, execute, watch=watch)
    if len(found) < 2:
        raise BadInput("predict: the reference run made no model, or there is no test set to try it on")
    versions = sorted(found)
    curve = np.interp(np.arange(versions[-1] + 1), versions, [found[v] for v in versions])
    return curve, dry_run(replace(plan, stop=replace(plan.stop, commits=versions[-1])), setup.world)


def _kept(place: Path) -> Reference | None:
    try:
        got = json.loads(place.read_text())
        ideal = Ideal(np.array(got["accuracy"]), np.array(got["diversity"]), float(got["noise"]), int(got["cohort"]))
        return Reference(ideal, np.array(got["small"]), bool(got["flat"]), float(got["seconds"]), kept=True)
    except (OSError, ValueError, KeyError, TypeError):  # what cannot be read is made again
        return None


def _keep(place: Path, made: Reference, spec: Spec) -> None:
    ideal = made.ideal
    text = json.dumps({
        "accuracy": ideal.accuracy.tolist(), "diversity": ideal.diversity.tolist(), "noise": ideal.noise, "cohort": ideal.cohort,
        "small": made.small.tolist(), "flat": made.flat, "seconds": made.seconds, "spec": spec.table(),
    })  # fmt: skip
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(f".{os.getpid()}.part")
        part.write_text(text)
        part.replace(place)
    except OSError as wrong:
        raise BadInput(
            f"predict: cannot keep reference runs in {place.parent}: {wrong.strerror}; name another folder with --cache"
        ) from None
