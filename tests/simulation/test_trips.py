"""How tasks go: what they cost up to their end, whatever ended them."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from fedfleet.core.events import ReportUnwanted, TaskArrived, TasksDropped, TasksSpent, TaskStruck
from fedfleet.core.records import Stop
from fedfleet.core.sources import FaultDraws, FaultSource, StateSource
from fedfleet.core.stages import COMPUTE, STAGES, UPLOAD, source_from_stages, total
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.simulation.trips import ready_seconds
from fedfleet.world.states import interval_states
from tests.worlds import even_fleet, events_of, fleets, only, paces, toy_plan, traces_of, world_of


def devices():
    """Two seconds down, four of computing, two up."""

    def stages(clients, cost, start, tasks):
        n = len(clients)
        return {"download": np.full(n, 2.0), "compute": np.full(n, 4.0), "upload": np.full(n, 2.0)}

    return source_from_stages(stages, ["toy"] * 6)


def faults(**columns):
    """Every task meets these mishaps."""
    usual = {"stage": -1, "part": 0.0, "crash": np.inf, "noticed": False, "late": 0.0, "again": np.inf}

    def befall(clients, start, ends, tasks):
        made = {n: np.full(len(clients), v) for n, v in {**usual, **columns}.items()}
        return FaultDraws(made["stage"], made["part"], made["crash"], made["noticed"], made["late"], made["again"])

    return FaultSource(lambda clients, start, tasks: np.ones(len(clients)), befall)


def told(pace, rounds=1, **mishaps):
    world = replace(world_of(even_fleet(6)), devices=devices(), faults=faults(**mishaps) if mishaps else None)
    return events_of(toy_plan(pace, 6, stop=Stop(rounds=rounds)), world)[0]


@settings(deadline=None, derandomize=True, max_examples=40)
@given(fleets(), paces())
def test_every_ended_task_is_accounted_for_once_and_never_worked_longer_than_it_ran(fleet, pace):
    log, _ = events_of(toy_plan(pace.policy(), len(fleet), stop=Stop(rounds=3)), world_of(fleet))
    arrived = {e.task: e.seconds for e in only(TaskArrived, log)}
    dropped = {t: s for e in only(TasksDropped, log) for t, s in zip(e.tasks.tolist(), e.seconds.tolist(), strict=True)}
    lost = {e.task: 0.0 for e in log if type(e).__name__ == "TaskLost"}
    ran = arrived | dropped | lost
    spent = [task for e in only(TasksSpent, log) for task in e.tasks.tolist()]
    assert sorted(spent) == sorted(ran)
    for e in only(TasksSpent, log):
        worked = total({"latency": np.zeros(len(e.tasks)), **{n: v for n, v in e.spent.items() if n in STAGES}})
        assert (worked <= np.array([ran[t] for t in e.tasks.tolist()]) + 1e-9).all()


def test_whole_tasks_cost_their_stages_and_all_their_bytes():
    (spent,) = only(TasksSpent, told(readiness(3)))
    assert {n: spent.spent[n].tolist() for n in ("download", "compute", "upload")} == {
        "download": [2.0] * 3, "compute": [4.0] * 3, "upload": [2.0] * 3,
    }  # fmt: skip
    assert (spent.spent["bytes_down"] > 0).all() and (spent.spent["bytes_up"] > 0).all()


def test_a_task_that_was_given_up_cost_what_it_had_done():
    (spent,) = only(TasksSpent, told(deadline(3, seconds=5.0)))
    assert spent.spent["compute"].tolist() == [3.0] * 3
    assert "upload" not in spent.spent and "bytes_up" not in spent.spent
    (spent,) = only(TasksSpent, told(deadline(3, seconds=7.0)))
    whole = only(TasksSpent, told(readiness(3)))[0].spent["bytes_up"]
    assert np.allclose(spent.spent["bytes_up"], whole / 2)


def test_a_task_that_is_lost_silently_is_waited_for_and_cost_what_came_before():
    log = told(deadline(3, seconds=50.0), stage=UPLOAD, part=0.5)
    assert [(e.time - 20.0, e.reason) for e in only(TaskStruck, log)] == [(7.0, "lost in upload")] * 3
    (spent,) = only(TasksSpent, log)
    assert spent.spent["upload"].tolist() == [1.0] * 3
    assert only(TasksDropped, log)[0].seconds.tolist() == [50.0] * 3


def test_a_loss_that_is_noticed_frees_the_client():
    log = told(readiness(3, min_clients=1), stage=COMPUTE, part=0.25, noticed=True)
    lost = [e for e in log if type(e).__name__ == "TaskLost"]
    assert [(e.seconds, e.reason) for e in lost] == [(3.0, "lost in compute")] * 3


def test_a_device_that_goes_down_loses_what_it_was_at():
    log = told(deadline(3, seconds=50.0), crash=25.0)
    assert [(e.time, e.reason) for e in only(TaskStruck, log)] == [(25.0, "the device went down")] * 3
    assert only(TasksSpent, log)[0].spent["compute"].tolist() == [3.0] * 3


def test_late_reports_arrive_for_nothing_and_doubled_ones_count_once():
    log = told(deadline(3, seconds=10.0), rounds=2, late=5.0)
    assert [e.reason for e in only(ReportUnwanted, log)][:3] == ["late"] * 3
    assert {e.time for e in only(ReportUnwanted, log)[:3]} == {33.0}
    log = told(readiness(3), rounds=2, again=1.0)
    again = only(ReportUnwanted, log)
    assert [e.reason for e in again] == ["again"] * 3, "those of the last round would come when it is over"
    assert {e.time - t.time for e, t in zip(again, only(TaskArrived, log), strict=False)} == {1.0}


def test_the_time_that_was_worked_is_found_without_being_told():
    states = interval_states(traces_of([((0.0, 3.0), (5.0, 6.0))], [8.0]))
    mute = StateSource(states.online, states.finish)
    for stop in (0.5, 3.0, 4.0, 5.5, 8.0, 9.0, 21.0):
        at = np.array([stop])
        exact = ready_seconds(states, np.arange(1), 0.5, at)
        assert np.allclose(ready_seconds(mute, np.arange(1), 0.5, at), exact, atol=1e-9)
