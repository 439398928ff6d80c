"""Reference runs: how an ideal fleet learns this task from this data with full and with small cohorts, trained once and kept.

On an ideal fleet everyone is alike, always there and reports. A short run tells what no fleet can: the learning curve g, commit
by commit. Two cheaper ones tell what the class clock has to know of this task and these data: by how much small cohorts slow
learning down (the noise b), and how much is lost when the same few people make every model (gamma). None depends on devices,
states, pacing or deadlines, so that the three serve every fleet with the same task, data and algorithm.
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

from fedfleet.app.assemble import Setup, assemble, open_executor
from fedfleet.app.spec import Spec, resolve
from fedfleet.app.spec.people import permit_numbers
from fedfleet.app.spec.table_checks import build_part
from fedfleet.app.studies.predict.participation import fleet_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, Event
from fedfleet.core.json_text import parse_json
from fedfleet.core.parts import Plan, Policy, Task
from fedfleet.core.records import Floats
from fedfleet.measure.calibration import ReferenceCurve, calibrate
from fedfleet.measure.class_clock import Ideal, class_clock, fit_monotone
from fedfleet.simulation.dry_run import dry_run
from fedfleet.simulation.simulator import simulate

FORM = 2  # of kept files: those of another form are made anew
FEW = 2  # reports in a commit of the run with small cohorts
SAME = 0.05  # of the clients are the same few people
MOST = 300  # commits of a reference run
LOOKS = 20  # how often the two runs beside the learning curve are tried on the test set
_PATIENCE, _GAIN = 25, 0.002  # no gain of so much in so many commits: the curve is flat


@dataclass(frozen=True, slots=True)
class Reference:
    """What an ideal fleet learns. `small` is its learning curve with FEW reports a commit, `same` the one of the same few people:
    from both the noise and the exponent came.

    `luck` is by how much accuracy jumps about its curve from commit to commit, as a standard deviation: no prediction is nearer.
    `flat`: the curve had stopped rising. `seconds` is what training all three took, `kept` whether that was before.
    """

    ideal: Ideal
    small: Floats
    same: Floats
    luck: float
    flat: bool
    seconds: float
    cached: bool = False


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
    """The reference runs of a spec: those that are kept, else trained now.

    `code` tells apart own tasks of equal data and first weights; None: they cannot be told apart, so that nothing is kept.
    """
    cohort, rounds = cohort_of(spec), min(spec.stop["rounds"], MOST)
    ideal = ideal_spec(spec, cohort, rounds)
    place = (cache_folder() if cache is None else cache) / f"{_cache_name(ideal, code or '')}.json"
    result = None if code is None else _load(place)
    if result is not None:
        return result
    if tell is not None:
        tell(f"three reference runs of {rounds} commits at most on an ideal fleet, once for this task, data, algorithm and length")
    start = time.perf_counter()
    reference = _train(spec, ideal, task, cohort)
    reference = replace(reference, seconds=time.perf_counter() - start)
    if code is not None:
        _save(place, reference, ideal)
    return reference


def _train(spec: Spec, full: Spec, task: Task | None, cohort: int) -> Reference:
    setup = assemble(full, task)
    full_run = _run_reference(setup.plan, setup)
    commits, fleet = full_run.part.commits, fleet_of(setup)
    diversity = class_clock(full_run.part, fleet.labels, cohort=cohort).diversity
    ideal = Ideal(fit_monotone(full_run.accuracy), diversity, 0.0, cohort)
    people = few_people(setup.plan.clients, spec.training_seed)
    small, same = (
        _run_reference(replace(other_setup.plan, stop=replace(other_setup.plan.stop, commits=commits)), other_setup)
        for other_setup in (
            assemble(ideal_spec(spec, min(FEW, cohort), full.stop["rounds"], fixed_length=True), setup.task),
            assemble(ideal_spec(spec, min(len(people), cohort), full.stop["rounds"], fixed_length=True, only=people), setup.task),
        )
    )
    ideal = calibrate(ideal, [small, same], fleet.labels, fleet.test)
    luck = float(np.sqrt(np.mean((full_run.accuracy - ideal.accuracy) ** 2)))
    return Reference(ideal, small.accuracy, same.accuracy, luck, commits < full.stop["rounds"], 0.0)


def few_people(clients: int, seed: int) -> list[int]:
    """The same few people of a fleet of so many, drawn from this seed: at least two."""
    many = max(round(SAME * clients), FEW)
    return sorted(np.random.default_rng([seed, many]).permutation(clients)[:many].tolist())


def ideal_spec(spec: Spec, cohort: int, rounds: int, *, fixed_length: bool = False, only: Sequence[int] = ()) -> Spec:
    """The same task, data, algorithm and seeds on a fleet where everyone is alike, always there and reports.

    `beside`: it runs as long as the learning curve did, and is tried on the test set now and then. `only` these clients are asked.
    """
    table = spec.table()
    world = {k: v for k, v in table["world"].items() if k not in ("faults", "users", "tags", "model_bytes", "charge")}
    # A fleet without users has other clients than people.
    world["data"] = permit_numbers(world["data"], replace=True)
    world |= {"devices": {"use": "homogeneous"}, "states": {"use": "always_on"}, "heterogeneity": "both"}
    stop: dict[str, Any] = {"rounds": max(rounds, 1)}
    stop |= {"evaluate_every": max(rounds // LOOKS, 1)} if fixed_length else {"patience": _PATIENCE, "min_delta": _GAIN}
    unchanged = {k: v for k, v in table.items() if k not in ("edge", "choose", "override", "seed", "seeds")}
    changed = {
        **unchanged,
        "seed": spec.training_seed,  # whatever fleet it is
        "seeds": {"data": spec.data_seed},
        "world": world,
        "pace": {"use": "readiness", "cohort": cohort, "min_clients": 1},
        "stop": stop,
        **({"choose": {"use": "only", "ids": list(only)}} if only else {}),
        "run": {**table["run"], "execute": "stacked" if table["run"]["execute"] == "auto" else table["run"]["execute"]},
    }
    return resolve(changed, "reference", content_id=spec.task["content"] if spec.task["use"] == "own" else None)


def _cache_name(ideal: Spec, code: str = "") -> str:
    """By what kept runs are found; also by how long they are, so that the same spec has one answer, whatever was asked before."""
    settings = {k: v for k, v in ideal.table().items() if k != "run"}
    key_parts = [FORM, settings, *([code] if code else [])]
    return hashlib.sha256(json.dumps(key_parts, sort_keys=True).encode()).hexdigest()[:24]


def _run_reference(plan: Plan, setup: Setup) -> ReferenceCurve:
    """Who was in which model, and accuracy after 0, 1, 2, .. commits; between those that were tried it is interpolated."""
    result = dict[int, float]()

    def watch(events: Sequence[Event]) -> None:
        result.update({e.version: e.correct / e.total for e in events if isinstance(e, Evaluated) and e.total})

    with open_executor(setup) as execute:
        simulate(plan, setup.world, execute, watch=watch)
    if len(result) < 2:
        raise BadInput("predict: the reference run made no model, or there is no test set to evaluate it on")
    versions = sorted(result)
    curve = np.interp(np.arange(versions[-1] + 1), versions, [result[v] for v in versions])
    return ReferenceCurve(dry_run(replace(plan, stop=replace(plan.stop, commits=versions[-1])), setup.world), curve)


def _load(place: Path) -> Reference | None:
    try:
        table = parse_json(place.read_text(encoding="utf-8"))
        curve = {name: np.array(table[name], np.float64) for name in ("accuracy", "diversity", "small", "same")}
        numbers = float(table["noise"]), int(table["cohort"]), float(table["exponent"])
        ideal = Ideal(curve["accuracy"], curve["diversity"], *numbers)
        others = float(table["luck"]), bool(table["flat"]), float(table["seconds"])
        return Reference(ideal, curve["small"], curve["same"], *others, cached=True)
    except (OSError, ValueError, KeyError, TypeError):  # what cannot be read is made again
        return None


def _save(place: Path, reference: Reference, spec: Spec) -> None:
    ideal = reference.ideal
    text = json.dumps({
        "accuracy": ideal.accuracy.tolist(), "diversity": ideal.diversity.tolist(), "noise": ideal.noise, "cohort": ideal.cohort,
        "exponent": ideal.exponent, "small": reference.small.tolist(), "same": reference.same.tolist(),
        "luck": reference.luck, "flat": reference.flat, "seconds": reference.seconds, "spec": spec.table(),
    })  # fmt: skip
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(place)
    except OSError as error:
        raise BadInput(
            f"predict: cannot keep reference runs in {place.parent}: {error.strerror}; name another folder with --cache"
        ) from None
