"""The server's components by lists of events, without a loop, a socket or a process: what goes in, and which effects come out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedfleet.core.commands import Gather
from fedfleet.core.events import CandidatesSeen, Evaluated, ReportsGathered, TaskArrived, TaskLost, TimerFired
from fedfleet.core.records import Context
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import RunState
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.pace_steering import Pace, PaceSteering
from fedfleet.network.security.enrolment import Registry, Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.server.admission import Admission
from fedfleet.network.server.candidates import Candidates
from fedfleet.network.server.commit import Commits
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.sample_limits import SampleLimits
from fedfleet.network.server.turns import CommitJob, Effects, Note, React, Tell
from tests.network.toys import Toy, plan_of, world_for

TOY = Toy(clients=3, rounds=2)
PLAN, WORLD = plan_of(TOY), world_for(TOY)


def told(effects: Effects, name: str) -> list[Any]:
    """What goes to frontends in one field of their messages."""
    return [value for e in effects if isinstance(e, Tell) for value in getattr(e.message, name)]


def facts(effects: Effects) -> list[Any]:
    return [e.fact for e in effects if isinstance(e, React)]


def asking() -> RunState:
    """The state in which an ask for candidates is out."""
    state = begin(PLAN).state
    state = step(PLAN, state, Evaluated(0.0, 0, 1, 2, 0.5))[0]
    state = state if state.book.asking or state.wake is None else step(PLAN, state, TimerFired(state.wake))[0]
    assert state.book.asking
    return state


def sent(admission: Admission) -> RunState:
    """The state in which the tasks of three clients are out."""
    candidates = Candidates(PLAN, WORLD, ServeOptions(devices=3))
    candidates.on_calls(np.arange(3), np.zeros(3), 1.0)
    candidates.on_ask(1.0)
    state = asking()
    (fact,) = facts(candidates.try_answer(state, 1.0))
    state, _, commands = step(PLAN, state, fact)
    (wave,) = [command.wave for command in commands if hasattr(command, "wave")]
    admission.on_send(wave)
    return state


def admission_in(folder: Path) -> Admission:
    folder.mkdir(exist_ok=True)
    registry = Registry(folder / "devices.db", run_key(folder / "run.key"), Terms(PLAN.clients, open=True))
    return Admission(PLAN, folder, SampleLimits(PLAN, WORLD, registry), streams=True, lease=30.0)


def claim(task: int, **fields: Any) -> inside.Claim:
    return inside.Claim(**{"number": task + 1, "client": task, "task": task, "weight": 1.0, "crc32c": task, **fields})


def test_candidates_wait_for_the_declared_fleet_and_then_for_patience() -> None:
    candidates, state = Candidates(PLAN, WORLD, ServeOptions(devices=3, patience=60.0)), asking()
    candidates.on_ask(0.0)
    assert candidates.try_answer(state, 5.0) == []
    candidates.on_calls(np.array([0, 1]), np.zeros(2), 5.0)
    assert candidates.try_answer(state, 6.0) == [] and candidates.deadline(6.0) == 65.0
    candidates.on_calls(np.array([0, 1]), np.zeros(2), 64.0)
    note, react = candidates.try_answer(state, 66.0)
    assert isinstance(note, Note) and "2 of the 3 declared" in note.text
    assert isinstance(react, React) and isinstance(react.fact, CandidatesSeen)
    assert candidates.deadline(66.0) is None
    candidates.on_sent(np.array([0]))
    assert candidates.idle(66.0).tolist() == [1]
    candidates.on_task_end(0)
    candidates.on_departures(np.array([1]))
    assert candidates.idle(66.0).tolist() == [0]


def test_admission_grants_once_and_again_only_what_a_frontend_lost(tmp_path: Path) -> None:
    admission = admission_in(tmp_path)
    state = sent(admission)
    effects = admission.on_claim(0, claim(1), state, None, 2.0)
    (grant,), (arrival,) = told(effects, "grants"), facts(effects)
    assert grant.granted and isinstance(arrival, TaskArrived) and (arrival.task, arrival.time) == (1, 2.0)
    state = step(PLAN, state, arrival)[0]
    (busy,) = told(admission.on_claim(1, claim(1), state, None, 3.0), "grants")
    assert busy.status == pb.Receipt.BUSY
    assert facts(admission.on_frontend_start(0, inside.Ready(), state, 4.0)) == []
    again = admission.on_claim(1, claim(1), state, None, 5.0)
    assert told(again, "grants")[0].granted and facts(again) == []
    assert told(admission.on_safe(1, [1]), "withdrawn") == [1]
    assert sum(admission.weights.values()) == 2**60, "it weighs once"


def test_leases_that_end_are_losses_and_faulty_reports_count_as_arrived(tmp_path: Path) -> None:
    admission = admission_in(tmp_path)
    state = sent(admission)
    (retry,) = told(admission.on_claim(0, claim(2, fault="not finite"), state, None, 2.0), "grants")
    assert retry.status == pb.Receipt.RETRY
    assert admission.on_time(state, 30.9) == []
    effects = admission.on_time(state, 31.0)
    assert [(type(fact), fact.task) for fact in facts(effects)] == [(TaskLost, 0), (TaskLost, 1), (TaskArrived, 2)]
    assert sorted(told(effects, "withdrawn")) == [0, 1, 2]
    assert "not finite" in admission.rejections.reasons[2]
    admission.on_forget([2])
    assert admission.rejections.reasons == {}


def test_a_bucket_is_closed_once_and_again_when_what_was_handed_in_is_too_old(tmp_path: Path) -> None:
    admission = admission_in(tmp_path)
    state = sent(admission)
    for task in range(3):
        (arrival,) = facts(admission.on_claim(task % 2, claim(task), state, None, 2.0))
        state = step(PLAN, state, arrival)[0]
    served: Any = SimpleNamespace(plan=PLAN, folder=tmp_path, noising=None)
    commits = Commits(served, streams=True, durable=True, gatherings=0)
    contexts = tuple(Context(0, 1.0, client, task=client) for client in range(3))
    commits.on_gather(Gather((0, 1, 2), (), contexts, state.server))
    folders = ["t0", "t1"]
    assert told(commits.try_close(admission, 0), "close") == [0]
    assert commits.try_close(admission, 0) == []
    assert commits.on_closed(0, inside.Closed(bucket=0, count=2, path="a"), admission, 0, folders) == []
    # Granted, and not on a disk yet: what the frontends handed in does not hold it for sure.
    again = commits.on_closed(1, inside.Closed(bucket=0, count=1, path="b"), admission, 0, folders)
    assert told(again, "close") == [0]
    for index, tasks in ((0, [0, 2]), (1, [1])):
        admission.on_safe(index, tasks)
    commits.on_closed(0, inside.Closed(bucket=0, count=2, path="a"), admission, 0, folders)
    (start,) = commits.on_closed(1, inside.Closed(bucket=0, count=1, path="b"), admission, 0, folders)
    assert isinstance(start, CommitJob)
    assert (start.sums, start.count, sorted(start.metas)) == (["a", "b"], 3, [0, 1, 2])
    assert commits.committing and commits.on_frontend_start(0, 0) == []
    fact = ReportsGathered(3.0, None, np.arange(3), {})
    commits.on_commit_end()
    admission.on_commit_end(start.command, fact)
    assert commits.gatherings == 1 and commits.gathering is None and admission.metas == {}
    commits.close()


def test_pace_steering_tells_news_alone() -> None:
    steering = PaceSteering(0.0)
    quiet = {"working": False, "missing": 10, "round_end": 100.0}
    assert steering.on_turn(1.0, asking=True, **quiet) == Pace(0.0)
    assert steering.on_turn(2.0, asking=True, **quiet) is None
    assert steering.on_turn(3.0, asking=False, **quiet) == Pace(97.0)
    for _ in range(20):
        steering.on_arrival()
    pace = steering.on_turn(4.0, asking=False, **quiet)
    assert pace is not None and 0 < pace.seconds < 10 and steering.announced == pace
