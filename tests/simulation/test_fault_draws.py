"""Trips by hand: when tasks end if something befalls them, and what they cost until then."""

import math

import numpy as np
import pytest

from fedfleet.core.commands import Account, Forget
from fedfleet.core.events import ReportUnwanted, TaskArrived, TaskLost, TasksDropped, TasksSpent, TaskStruck
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Cost, Decision, Stop, Wave, whole_work
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import FaultSource, StateSource, World
from fedfleet.core.stages import COMPUTE, DOWNLOAD, UPLOAD, fraction_done, source_from_stages
from fedfleet.engine.book import facts_allowed
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.simulation.task_costs import task_costs
from fedfleet.simulation.trips import late_reports, ready_seconds, trip_of
from fedfleet.testing.toys import consensus, no_data, opaque_executor
from fedfleet.world.faults import no_faults, no_slowdown
from fedfleet.world.states import always_on, interval_states
from tests.worlds import events_of, only, toy_plan, traces_of

SENT, N = 100.0, 4
KEYS = client_keys(N)
BYTES = 1000.0


def world_with(slow=1.0, states=None, **columns):
    """Four clients that download for 4 s, compute for 8 and upload for 4, with these mishaps for clients 0 to 3."""

    def stages(clients, cost, start, tasks):
        return {
            "download": np.full(len(clients), 4.0),
            "compute": np.full(len(clients), 8.0),
            "upload": np.full(len(clients), 4.0),
        }

    def befall(clients, start, ends, tasks):
        return no_faults(len(clients), **{n: np.array(v)[clients] for n, v in columns.items()})

    faults = FaultSource(lambda c, s, t: slow * no_slowdown(c, s, t), befall, silences=True)
    return World(KEYS, source_from_stages(stages, ["toy"] * N), states or always_on()(KEYS, 0), no_data(N), faults=faults)


def wave(plan=None):
    size = np.full(N, BYTES)
    asked = whole_work(np.arange(N))
    return Wave(10, 0, 0, SENT, asked, KEYS, Cost(size, size, size), plan.algorithm.init(plan.params))


PLAN = toy_plan(readiness(4), N, algorithm=consensus(model_bytes=BYTES))
NEVER = math.inf


def trip(**columns):
    world = world_with(**columns)
    return trip_of(PLAN, world, wave(PLAN), {}), world


def paid(result, world, seconds):
    told = task_costs(world, Account(tuple(range(10, 14)), (wave(PLAN),) * 4, tuple(seconds)), 500.0, {10: result})
    none = np.zeros(4)
    return {n: told.spent.get(n, none).tolist() for n in ("download", "compute", "upload", "delivery", "bytes_down", "bytes_up")}


def test_losses_happen_when_so_much_of_their_stage_is_done():
    result, world = trip(stage=[DOWNLOAD, COMPUTE, UPLOAD, -1], part=[0.5, 0.25, 0.75, 0.0], noticed=[True, False, True, False])
    assert result.stops.tolist() == [102.0, 106.0, 115.0, 116.0]
    assert result.lost.tolist() == [True, True, True, False] and result.noticed.tolist() == [True, False, True, False]
    assert result.comes.tolist() == [NEVER, NEVER, NEVER, 116.0]
    assert [result.reason(i) for i in range(3)] == ["lost in download", "lost in compute", "lost in upload"]
    told = paid(result, world, [2.0, 300.0, 15.0, 16.0])  # the second was waited for in vain
    assert told == {
        "download": [2.0, 4.0, 4.0, 4.0], "compute": [0.0, 2.0, 8.0, 8.0], "upload": [0.0, 0.0, 3.0, 4.0],
        "delivery": [0.0] * 4, "bytes_down": [500.0, 1000.0, 1000.0, 1000.0], "bytes_up": [0.0, 0.0, 750.0, 1000.0],
    }  # fmt: skip


def test_who_is_given_up_before_it_is_struck_pays_until_then():
    result, world = trip(stage=[UPLOAD] * 4, part=[0.5] * 4)
    told = paid(result, world, [3.0, 4.0, 13.0, 14.0])
    assert told["bytes_down"] == [750.0, 1000.0, 1000.0, 1000.0] and told["bytes_up"] == [0.0, 0.0, 250.0, 500.0]
    assert told["compute"] == [0.0, 0.0, 8.0, 8.0]


def test_a_crash_strikes_first_if_it_is_earlier_and_nobody_hears_of_it():
    result, world = trip(stage=[COMPUTE, COMPUTE, -1, -1], part=[0.5] * 4, noticed=[True] * 4, crash=[103.0, 110.0, 116.0, 100.0])
    assert result.stops.tolist() == [103.0, 108.0, 116.0, 100.0]
    assert result.lost.tolist() == [True, True, False, True], "what is done when its device goes down is done"
    assert result.noticed.tolist() == [False, True, False, False]
    assert (result.reason(0), result.reason(1)) == ("the device went down", "lost in compute")
    assert paid(result, world, [50.0, 8.0, 16.0, 50.0])["bytes_down"] == [750.0, 1000.0, 1000.0, 0.0]


def test_slow_devices_take_longer_in_everything():
    result, world = trip(slow=2.0, stage=[-1, -1, UPLOAD, -1], part=[0.0, 0.0, 0.5, 0.0])
    assert result.done.tolist() == [132.0] * 4 and result.stops.tolist() == [132.0, 132.0, 128.0, 132.0]
    assert paid(result, world, [32.0] * 4)["compute"] == [16.0] * 4


def test_a_loss_waits_for_its_client_to_be_there():
    states = interval_states(traces_of([((0.0, 5.0), (50.0, 60.0))] * N, [100.0] * N))
    result, world = trip(states=states, stage=[COMPUTE] * 4, part=[0.5] * 4)
    assert result.stops.tolist() == [153.0] * 4  # five seconds at once, three of the next ten
    assert paid(result, world, [60.0] * 4)["compute"] == [4.0] * 4


def test_late_reports_are_under_way_from_their_last_byte_to_their_arrival():
    result, world = trip(late=[10.0, 10.0, 0.0, 10.0])
    assert result.comes.tolist() == [126.0, 126.0, 116.0, 126.0]
    told = paid(result, world, [26.0, 20.0, 16.0, 15.0])
    assert told["delivery"] == [10.0, 4.0, 0.0, 0.0] and told["bytes_up"] == [1000.0, 1000.0, 1000.0, 750.0]
    for now, coming in ((115.0, []), (116.0, [10, 11, 13]), (126.0, [10, 11, 13])):
        gone = Forget(np.arange(10, 14), np.arange(4))
        assert [r.task for r in late_reports({2: result, 10: result}, gone, now)] == coming
    (report, *_) = late_reports({10: result}, Forget(np.array([11]), np.array([1])), 120.0)
    assert report == ReportUnwanted(126.0, 11, 1, 1000.0, "late")


def test_what_takes_no_time_is_done_when_it_is_reached():
    stages = {"latency": np.array([2.0, 2.0, 2.0]), "compute": np.full(3, 4.0)}
    worked = np.array([1.0, 2.0, 6.0])
    assert fraction_done(stages, "download", worked).tolist() == [0.0, 1.0, 1.0]
    assert fraction_done(stages, "upload", worked).tolist() == [0.0, 0.0, 0.0]


def test_states_that_do_not_say_how_long_somebody_worked_are_searched():
    whole = interval_states(traces_of([((0.0, 5.0), (50.0, 60.0))] * N, [100.0] * N))
    dumb = StateSource(whole.online, whole.finish)
    until = np.array([102.0, 130.0, 155.0, 999.0])
    told, sought = (ready_seconds(s, np.arange(N), SENT, until) for s in (whole, dumb))
    assert sought == pytest.approx(told, abs=1e-9)


# ---- in runs ------------------------------------------------------------------------------------------------------


def ran(pace, rounds=1, horizon=1e6, **columns):
    plan = toy_plan(pace, N, algorithm=consensus(model_bytes=BYTES), stop=Stop(rounds=rounds, virtual_seconds=horizon))
    return events_of(plan, world_with(**columns))[0]


def test_silence_is_waited_for_and_struck_once():
    log = ran(deadline(4, seconds=100.0, t_break=10.0), stage=[COMPUTE, -1, -1, -1], part=[0.5] * 4)
    (struck,) = only(TaskStruck, log)
    assert (struck.time, struck.seconds, struck.reason) == (18.0, 8.0, "lost in compute")
    (gone,) = only(TasksDropped, log)
    assert gone.time == 110.0 and gone.tasks.tolist() == [struck.task]
    assert len(only(TaskArrived, log)) == 3


def test_who_is_struck_at_the_deadline_is_struck_first():
    log = ran(deadline(4, seconds=8.0, t_break=10.0, min_share=0.0), stage=[COMPUTE] * 4, part=[0.5] * 4)
    assert [type(e) for e in log if isinstance(e, TaskStruck | TasksDropped)] == [TaskStruck] * 4 + [TasksDropped]


def test_news_of_a_loss_ends_the_wait():
    log = ran(readiness(4, t_break=10.0), stage=[COMPUTE, -1, -1, -1], part=[0.5] * 4, noticed=[True] * 4)
    (lost,) = only(TaskLost, log)
    assert (lost.time, lost.seconds, lost.reason) == (18.0, 8.0, "lost in compute") and not only(TaskStruck, log)
    assert log[-1].time == 26.0


def test_a_report_that_comes_after_the_drop_is_unwanted_even_while_its_round_goes_on():
    # The lease drops it in the middle of a round, which closes long after the report came.
    def decide(book):
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            return Decision(ask=4) if book.now >= 10.0 else Decision(wake_at=10.0)
        if book.now < 50.0:
            return Decision(wake_at=50.0)
        return Decision(wake_at=500.0, drop_before=book.now) if book.now < 500.0 else Decision(commit=True)

    log = ran(Policy("sweeping", decide, 4), late=[300.0, 0.0, 0.0, 0.0])
    (late,) = only(ReportUnwanted, log)
    assert (late.time, late.client, late.reason, late.bytes_up) == (10.0 + 16.0 + 300.0, 0, "late", BYTES)
    assert [e.client for e in only(TaskArrived, log)] == [1, 2, 3]
    assert len(only(TasksSpent, log)) == 1


def test_duplicates_come_beside_and_not_after_the_end():
    log = ran(readiness(4, t_break=10.0), rounds=3, again=[5.0, NEVER, 1000.0, NEVER])
    again = only(ReportUnwanted, log)
    assert {(e.client, e.reason) for e in again} == {(0, "again")} and len(again) == 2  # the last one comes too late
    assert [e.time for e in again] == [31.0, 57.0]
    assert all(e.time <= log[-1].time for e in log)


def test_time_that_passes_until_a_strike_is_time():
    # Else whatever follows in that instant would be counted against a policy that keeps asking.
    rooms = []
    world = world_with(stage=[COMPUTE] * 4, part=[0.5] * 4)
    plan = toy_plan(deadline(4, seconds=50.0, t_break=10.0), N, stop=Stop(rounds=1))

    def hear(sim, events):
        rooms.extend(sim.state.room for e in events if isinstance(e, TaskStruck))

    simulate(plan, world, opaque_executor(), hear=hear)
    assert rooms == [facts_allowed(4)] * 4
