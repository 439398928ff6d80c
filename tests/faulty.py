"""Random worlds in which things go wrong, and what must hold of every run in them, whatever its policy.

A case is a number: fleet, faults and the numbers of the policy all follow from it. Times are dyadic, so that doubling is exact.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.events import (
    Event,
    ReportUnwanted,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TasksSpent,
    TaskStruck,
)
from fedfleet.core.parts import Plan, Policy
from fedfleet.core.records import DROPPED, LOST, Cost, Ints, Stop
from fedfleet.core.registry import builder, parameters
from fedfleet.core.rng import client_keys, stream
from fedfleet.core.sources import FaultSource, World
from fedfleet.core.stages import STAGES, StageSeconds, source_from_stages
from fedfleet.measure.costs import traffic, wasted_work
from fedfleet.measure.run_record import read_record
from fedfleet.measure.tasks import RUNNING, task_table
from fedfleet.pace.rounds import deadline
from fedfleet.simulation.audit import audit_by_rerun, audit_decisions
from fedfleet.simulation.checkpoints import Checkpoints, restore
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals
from fedfleet.store.journal_rows import encode
from fedfleet.testing.toys import consensus, no_data, opaque_executor
from fedfleet.world.faults import FaultRecipe, all_of, crashes, delayed, lossy, outages, reachable_states, repeated, slowed
from fedfleet.world.states import always_on, interval_states
from tests.worlds import Fleet, toy_plan, traces_of

HORIZON = 1e7
MODEL_BYTES = 64.0


# ---- worlds -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wrong:
    """What goes wrong, as numbers from which the faults can be made at any scale of time; 0: not at all."""

    download: float = 0.0
    compute: float = 0.0
    upload: float = 0.0
    noticed: bool = False
    late: float = 0.0
    again: float = 0.0
    slow: float = 0.0
    crash: float = 0.0
    outage: float = 0.0
    seconds: float = 16.0
    period: float = 64.0

    def recipe(self, scale: float = 1.0) -> FaultRecipe:
        """The faults with all times multiplied by `scale`."""
        seconds, period = self.seconds * scale, self.period * scale
        lost = {"download": self.download, "compute": self.compute, "upload": self.upload}
        made = (
            (max(lost.values()), lossy(**lost, noticed=self.noticed)),
            (self.late, delayed(share=self.late, seconds=seconds)),
            (self.again, repeated(share=self.again, seconds=seconds)),
            (self.slow, slowed(share=self.slow, factor=4.0)),
            (self.crash, crashes(rate=self.crash, seconds=seconds, period=period)),
            (self.outage, outages(rate=self.outage, seconds=seconds, period=2 * period, groups=3)),
        )
        return all_of([fault for rate, fault in made if rate] or [lossy(download=0.0, compute=0.0, upload=0.0)])


def world_of(fleet: Fleet, faults: FaultRecipe | None, seed: int = 5) -> World:
    """The fleet as a world in which a task downloads for a quarter of its time, computes, and uploads for another quarter."""
    shortest = np.array(fleet.seconds)
    on = all(spans == ((0.0, period),) for spans, period in zip(fleet.ready, fleet.periods, strict=True))
    states = always_on()(fleet.keys, 0) if on else interval_states(traces_of(fleet.ready, fleet.periods))
    made: FaultSource | None = None if faults is None else faults(fleet.keys, seed)

    def stages(clients: Ints, cost: Cost, start: float, tasks: Ints) -> StageSeconds:
        del cost, start
        whole = shortest[clients] * (1.0 + tasks % 3)
        return {"download": whole / 4, "compute": whole / 2, "upload": whole / 4}

    devices = source_from_stages(stages, ["toy"] * len(fleet))
    return World(fleet.keys, devices, reachable_states(states, made), no_data(len(fleet)), faults=made)


def random_fleet(rng: np.random.Generator) -> Fleet:
    """Between 8 and 16 clients, always on or there for most of the time; now and then one that can do nothing."""
    n = int(rng.integers(8, 17))
    seconds = [float(s) for s in rng.integers(1, 40, n)]
    if rng.random() < 0.2:
        seconds[int(rng.integers(n))] = math.inf
    periods = [float(p) for p in rng.integers(40, 200, n)]
    ready = [((0.0, p),) for p in periods]
    if rng.random() < 0.5:
        ready = [((float(a), float(a) + float(int(0.6 * p))),) for p in periods for a in [rng.integers(0, int(0.4 * p))]]
    return Fleet(client_keys(n), tuple(seconds), tuple(periods), tuple(ready))


def random_wrong(rng: np.random.Generator) -> Wrong:
    """Each kind of fault is there in every second case."""
    names = ("download", "compute", "upload", "late", "again", "slow", "crash", "outage")
    rates = {name: float(rng.random() * 0.5) if rng.random() < 0.5 else 0.0 for name in names}
    seconds, period = float(rng.integers(1, 60)), float(rng.integers(60, 400))
    return Wrong(noticed=bool(rng.random() < 0.3), seconds=seconds, period=period, **rates)


# ---- policies -----------------------------------------------------------------------------------------------------


def numbers(rng: np.random.Generator, clients: int) -> dict[str, Any]:
    """What parameters of policies are given, by their names: a new policy joins with those that it has of these."""
    cohort = int(rng.integers(2, max(3, clients // 2)))
    return {
        "cohort": cohort, "concurrency": cohort, "goal": max(1, cohort - 1), "k": int(rng.integers(1, cohort + 1)),
        "seconds": float(rng.integers(5, 120)), "period": float(rng.integers(5, 120)), "t_break": float(rng.integers(1, 20)),
        "lease": float(rng.integers(40, 200)), "refill": float(rng.integers(1, 10)), "min_clients": int(rng.integers(0, 3)),
        "min_share": float(rng.choice([0.1, 0.3])), "if_few": str(rng.choice(["fail", "wait"])),
        "ready_share": float(rng.choice([0.5, 0.8, 1.0])), "ceiling": 500.0, "most": int(rng.integers(1, 4)),
        "max_staleness": int(rng.integers(0, 4)), "factor": 1.5,
    }  # fmt: skip


def policy_of(name: str, rng: np.random.Generator, clients: int) -> Policy:
    """A registered policy with random numbers; whatever policies it needs inside are deadlines."""
    given, build = numbers(rng, clients), builder("policies", name)
    wanted = parameters(build)
    inside = {
        key: deadline(given["cohort"] + i, seconds=given["seconds"] * (i + 1), min_clients=1)
        for i, key in enumerate(k for k, (hint, _) in wanted.items() if hint is Policy)
    }
    if given["if_few"] == "wait" and "lease" not in wanted:
        given["max_staleness"] = 0  # those who are silent would be busy for ever, and in the end all are
    return build(**{key: value for key, value in given.items() if key in wanted}, **inside)


# ---- runs ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class OneCheckpoint:
    """Saves a checkpoint after one step of a run, whatever is going on then."""

    inner: Checkpoints
    log: list[Event]
    at: int
    steps: int = 0
    heard: int = 0  # events until then

    def save_if_due(self, sim: Any) -> None:
        self.steps += 1
        if self.steps == self.at:
            self.inner.saved_at = sim.state.book.version - 1
            self.inner.save_if_due(sim)
            self.heard = len(self.log)


def check_case(name: str, case: int, folder: Path) -> Counter[str]:
    """Everything that must hold of a run of this policy; what became of its tasks."""
    rng = stream(17, f"faulty/{name}", case)
    fleet, wrong = random_fleet(rng), random_wrong(rng)
    policy = policy_of(name, rng, len(fleet))
    plan = toy_plan(
        policy, len(fleet), algorithm=consensus(remembers=bool(case % 2), model_bytes=MODEL_BYTES),
        stop=Stop(rounds=int(rng.integers(3, 8)), virtual_seconds=HORIZON), seed=case,
    )  # fmt: skip
    world, eager = world_of(fleet, wrong.recipe(), case), bool(case % 3 == 0)
    log: list[Event] = []
    folder.mkdir(parents=True, exist_ok=True)
    keeper = OneCheckpoint(Checkpoints(folder, journals.memory_journal(), 1), log, int(rng.integers(1, 25)))
    simulate(plan, world, opaque_executor(), keeper=keeper, eager=eager, watch=log.extend)
    result = check_fates(log)
    check_sums(log)
    end = log[-1]
    assert isinstance(end, RunEnded) and end.reason == "rounds", f"it ended by {end}"
    check_audits(plan, world, log, eager=eager)
    if keeper.heard:
        back = restore(folder, plan, world, opaque_executor(), eager=eager)
        tail: list[Event] = []
        simulate(plan, world, opaque_executor(), resume=back.sim, eager=eager, watch=tail.extend)
        assert rows_of(tail) == rows_of(log[keeper.heard :]), "resumed, it goes on otherwise"
        result["resumed"] += 1
    return result


def rows_of(log: list[Event]) -> list[Any]:
    """The events as the journal gives them back: NaN is nothing there."""
    return [tuple(None if v != v else v for v in row) for event in log for row in encode(event)[0]]


def check_fates(log: list[Event]) -> Counter[str]:
    """Each task ends exactly once; what comes beside belongs to one that ended so; measures count the same."""
    sent = [t for e in log if isinstance(e, TasksSent) for t in range(e.first, e.first + len(e.clients))]
    ends = Counter[int]()
    fates: dict[int, str] = {}
    beside_: dict[str, list[int]] = {"struck": [], "late": [], "again": []}
    times = [e.time for e in log]
    assert times == sorted(times) and times[-1] <= HORIZON
    for event in log:
        match event:
            case TaskArrived() | TaskLost():
                ends[event.task] += 1
                fates[event.task] = "arrived" if isinstance(event, TaskArrived) else "lost"
            case TasksDropped():
                ends.update(event.tasks.tolist())
                over = event.time == log[-1].time
                fates |= dict.fromkeys(event.tasks.tolist(), "running at the end" if over else "dropped")
            case TaskStruck():
                assert not ends[event.task], "it was struck after it had ended"
                beside_["struck"].append(event.task)
            case ReportUnwanted():
                assert ends[event.task] == 1, "an unwanted report of a task that was awaited"
                beside_[event.reason].append(event.task)
            case _:
                pass
    assert sorted(sent) == list(range(len(sent))) and ends == Counter(sent), "a task ended twice or never"
    assert all(len(tasks) == len(set(tasks)) for tasks in beside_.values())
    given_up = {t for t, fate in fates.items() if fate in ("dropped", "running at the end")}
    assert {*beside_["struck"], *beside_["late"]} <= given_up
    assert not set(beside_["struck"]) & set(beside_["late"]), "lost, and arrived late"
    assert set(beside_["again"]) <= {t for t, fate in fates.items() if fate == "arrived"}
    fates |= dict.fromkeys(beside_["struck"], "lost") | dict.fromkeys(beside_["late"], "late")
    counts = Counter(fates.values())
    assert counts.total() == len(sent)
    tasks = task_table(log)
    waste = wasted_work(tasks)
    assert (waste.lost, waste.late, waste.duplicates) == (counts["lost"], counts["late"], len(beside_["again"]))
    assert int((tasks.fate == LOST).sum()) == counts["lost"] and not (tasks.fate == RUNNING).any()
    assert int((tasks.fate == DROPPED).sum()) == counts["late"] + counts["dropped"] + counts["running at the end"]
    return counts + Counter({"again": len(beside_["again"])})


def check_sums(log: list[Event]) -> None:
    """Every task is paid for once; bytes and seconds are those of work that was done, and add up to the measures."""
    tasks = task_table(log)
    spent = [e for e in log if isinstance(e, TasksSpent)]
    paid = Counter(t for e in spent for t in e.tasks.tolist())
    assert paid == Counter(range(len(tasks.fate))), "a task was paid for twice or never"
    took: dict[int, float] = {e.task: e.seconds for e in log if isinstance(e, TaskArrived | TaskLost)}
    for event in log:
        if isinstance(event, TasksDropped):
            took |= dict(zip(event.tasks.tolist(), event.seconds.tolist(), strict=True))
    struck = {e.task: e.seconds for e in log if isinstance(e, TaskStruck)}
    sizes = {e.task: e.bytes_up for e in log if isinstance(e, TaskArrived)}
    for event in spent:
        none = np.zeros(len(event.tasks))
        worked = sum((event.spent[s] for s in STAGES if s in event.spent), none)
        up, down = event.spent.get("bytes_up", none), event.spent.get("bytes_down", none)
        assert (worked >= 0).all() and (up >= 0).all() and (up <= MODEL_BYTES).all() and (down <= MODEL_BYTES).all()
        for i, task in enumerate(event.tasks.tolist()):
            limit = min(took[task], struck.get(task, math.inf))
            assert math.isnan(took[task]) or worked[i] <= limit + 1e-6, "it worked on after it had ended"
            if task in sizes:
                assert up[i] == sizes[task] == MODEL_BYTES and down[i] == MODEL_BYTES
            elif task in struck:
                assert up[i] < MODEL_BYTES
    record = read_record(log)
    moved = traffic(tasks, log[-1].time, record.probes, record.duplicate_bytes)
    again = sum(e.bytes_up for e in log if isinstance(e, ReportUnwanted) and e.reason == "again")
    assert math.isclose(moved.bytes_up, sum(float(e.spent.get("bytes_up", np.zeros(1)).sum()) for e in spent) + again)
    assert math.isclose(moved.bytes_down, sum(float(e.spent.get("bytes_down", np.zeros(1)).sum()) for e in spent))
    assert moved.wasted_up <= moved.bytes_up and moved.wasted_down <= moved.bytes_down


def check_audits(plan: Plan, world: World, log: list[Event], *, eager: bool) -> None:
    """The run can be derived again, with and without training."""
    rows = list(enumerate(rows_of(log), 1))
    assert audit_by_rerun(plan, world, opaque_executor(), rows, eager=eager).events == len(log)
    audit_decisions(plan, world, rows)
