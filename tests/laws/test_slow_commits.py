"""On a real server making and evaluating a model take time, in which reports come: no commit has more than its policy says."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.commands import Account, Evaluate, FindCandidates, Finish, Forget, Gather, Send, WakeAt
from fedfleet.core.cost import tasks_spent
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import CandidatesSeen, Evaluated, NewModel, ReportsGathered, TaskArrived, TaskLost, TimerFired
from fedfleet.core.parts import Plan
from fedfleet.core.records import Roster, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.room import most_reports
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import Phase
from fedfleet.pace.asynchronous import buffered
from tests.portions import examples
from tests.worlds import Pace, paces, toy_plan

CLIENTS = 9


def commits_of(plan: Plan, *, gather_seconds: float, evaluate_seconds: float, rng: np.random.Generator, facts: int) -> list[int]:
    """How many reports each commit has, on a server that takes so long for a model; some tasks are lost, some come late."""
    state, _, commands = begin(plan)
    queue: list[tuple[float, int, Any]] = []
    numbers, wake, busy, sizes = count(), [np.inf], np.zeros(plan.clients, np.bool_), list[int]()
    now = 0.0

    def push(time: float, fact: Any) -> None:
        heapq.heappush(queue, (time, next(numbers), fact))

    def carry(command: Any) -> None:
        match command:
            case FindCandidates():
                push(now, "candidates")
            case Send(wave):
                for at, client in enumerate(wave.assignments.clients.tolist()):
                    busy[client] = True
                    seconds = float(rng.choice([0.5, 2.0, 7.0, 30.0]))
                    lost = rng.random() < 0.1
                    push(now + seconds, (TaskLost if lost else TaskArrived, wave.first + at, client, seconds))
            case WakeAt(time):
                wake[0] = time
            case Gather():
                sizes.append(len(command.tasks))
                push(now + gather_seconds, command)
            case Forget():
                busy[command.clients] = False
            case Account():
                push(now, command)
            case Evaluate():
                push(now + evaluate_seconds, command)
            case Finish():
                pass
            case _:
                raise AssertionError(command)

    for command in commands:
        carry(command)
    for _ in range(facts):
        if state.phase is Phase.DONE or (not queue and wake[0] == np.inf):
            break
        if not queue or wake[0] < queue[0][0]:
            now, what = max(now, wake[0]), "wake"
            wake[0] = np.inf
        else:
            now, _, what = heapq.heappop(queue)
        match what:
            case "wake":
                fact: Any = TimerFired(now)
            case "candidates":
                idle = np.flatnonzero(~busy)
                if len(idle) < state.at_least or not len(idle):
                    push(now + 1.0, "candidates")
                    continue
                fact = CandidatesSeen(now, Roster(idle, client_keys(plan.clients)[idle], np.full(len(idle), 10)))
            case (kind, task, client, seconds):
                if task not in state.running:
                    continue
                busy[client] = False
                fact = kind(now, task, client, seconds, 8.0) if kind is TaskArrived else kind(now, task, client, seconds, "lost")
            case Gather():
                made = NewModel(what.server, f"model {len(sizes)}")
                fact = ReportsGathered(now, None, np.array(what.tasks, np.int64), {}, (), made)
            case Account():
                fact = tasks_spent(what, [None] * len(what.tasks), now)
            case Evaluate():
                fact = Evaluated(now, what.version, 1, 2, 0.5)
            case _:
                raise AssertionError(what)
        state, _, commands = step(plan, state, fact)
        for command in commands:
            carry(command)
    return sizes


SERVERS = {"gather_seconds": st.sampled_from([0.0, 1.0, 5.0, 40.0]), "evaluate_seconds": st.sampled_from([0.0, 3.0, 40.0])}


@examples(60, soak=300)
@given(pace=paces("readiness", "deadline", "timeout", "buffered", "semi_async", "first_of"), seed=st.integers(0, 99), **SERVERS)
def test_no_commit_has_more_reports_than_its_policy_says(
    pace: Pace, seed: int, gather_seconds: float, evaluate_seconds: float
) -> None:
    plan = toy_plan(pace.policy(), CLIENTS, stop=Stop(rounds=25, virtual_seconds=5000.0))
    try:
        sizes = commits_of(
            plan, gather_seconds=gather_seconds, evaluate_seconds=evaluate_seconds, rng=np.random.default_rng(seed), facts=1500
        )
    except RunFailed:  # a policy that waits for ever says so
        return
    assert max(sizes, default=0) <= most_reports(plan.pace, CLIENTS)


def test_a_buffer_does_hold_more_than_it_waits_for_where_commits_take_long() -> None:
    """What the bound of `buffered` is for: with room for `k` reports alone, the law would fail."""
    plan = toy_plan(buffered(k=2, concurrency=8), CLIENTS, stop=Stop(rounds=40))
    sizes = commits_of(plan, gather_seconds=40.0, evaluate_seconds=0.0, rng=np.random.default_rng(1), facts=2000)
    assert 2 < max(sizes) <= most_reports(plan.pace, CLIENTS) == 9
