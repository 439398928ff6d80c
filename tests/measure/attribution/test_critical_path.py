"""Where the time went: nothing is lost in any world, and in small worlds every second is where a person would put it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    ModelCommitted,
    Probed,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    RunEnded,
    TaskArrived,
    TasksSent,
    TasksSpent,
    TimerFired,
)
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import Decision, Roster, Stop, whole_work
from fedfleet.core.rng import client_keys
from fedfleet.core.stages import STAGES
from fedfleet.measure.attribution.causes import CAUSES
from fedfleet.measure.attribution.critical_path import attribution, rounds_of, slowest
from fedfleet.pace.asynchronous import buffered
from fedfleet.pace.rounds import deadline, readiness
from tests.measure.attribution.runs import prober, progress_in, stages_world, told
from tests.measure.journals import LOG, gathered, sent
from tests.worlds import (
    Fleet,
    Pace,
    doubled,
    even_fleet,
    events_of,
    fleets,
    only,
    paces,
    renamed,
    roster_of,
    toy_plan,
    world_of,
)

pytestmark = pytest.mark.slow

law = settings(deadline=None, derandomize=True, max_examples=40)
horizons = st.one_of(st.just(2000.0), st.integers(5, 400).map(float))
choosers = st.sampled_from([None, prober(), prober(9.0)])


def small(policy, fleet, *, rounds=3, **more):
    world = stages_world(fleet)
    choose = more.pop("choose", None)
    events, _ = events_of(toy_plan(policy, len(fleet), stop=Stop(rounds=rounds, **more), choose=choose), world)
    return attribution(events, progress_in(world)), events


def taken(result):
    """The causes that took time."""
    return {cause: seconds for cause, seconds in result.items() if seconds}


# ---- laws ---------------------------------------------------------------------------------------------------------


@law
@given(fleets(), paces(), horizons, st.booleans(), choosers, st.booleans())
def test_nothing_is_lost_and_nothing_is_counted_twice(fleet, pace, horizon, faults, choose, knows):
    events, world = told(fleet, pace, horizon=horizon, faults=faults, choose=choose)
    result = attribution(events, progress_in(world) if knows else None)
    assert result.virtual_seconds == events[-1].time
    assert abs(math.fsum(result.causes.values()) - result.virtual_seconds) < 1e-6
    assert tuple(result.causes) == CAUSES and min(result.causes.values()) >= 0
    time = 0.0
    for r in result.rounds:
        assert r.start == time and min(r.causes.values(), default=1.0) > 0
        assert abs(math.fsum(r.causes.values()) - r.seconds) < 1e-6
        time = r.end
    assert time == events[-1].time
    for cause, who in result.who.items():
        assert math.fsum(who.values()) <= result.causes[cause] + 1e-6
    assert result.causes["unknown"] == result.causes["server"] == 0, "a simulation knows everything"


@law
@given(fleets(), paces(), st.sampled_from([3.0, 16.0, 77.7]))
def test_looks_at_the_model_take_nobodys_time(fleet, pace, seconds):
    world = world_of(fleet)
    plain, looked = (
        attribution(events_of(toy_plan(pace.policy(), len(fleet), stop=stop), world)[0])
        for stop in (
            Stop(rounds=4, virtual_seconds=400.0),
            Stop(rounds=4, virtual_seconds=400.0, evaluate_seconds=seconds),
        )
    )
    assert plain == looked


@law
@given(fleets(), paces(), st.booleans(), choosers, st.integers(0, 10**6))
def test_a_run_that_goes_on_is_explained_as_far_as_it_is(fleet, pace, faults, choose, cut):
    events, _ = told(fleet, pace, faults=faults, choose=choose)
    part = events[: 1 + cut % len(events)]
    result = attribution(part)
    assert abs(math.fsum(result.causes.values()) - part[-1].time) < 1e-6
    assert result.ended == (len(part) == len(events))
    closed = [r for r in result.rounds if r.closed]
    assert closed == list(attribution(events).rounds[: len(closed)]), "what is over does not change any more"


@law
@given(fleets(), paces(), st.booleans(), choosers)
def test_twice_as_long_takes_twice_as_long(fleet, pace, faults, choose):
    slower = choose if choose is None else replace(choose, probe_seconds=2 * choose.probe_seconds)
    runs = [told(fleet, pace, faults=faults, choose=choose), None]
    runs[1] = told(doubled(fleet), pace, faults=faults, choose=slower, scale=2.0)
    once, twice = (attribution(events, progress_in(world)) for events, world in runs)
    assert once.cutting == twice.cutting
    for cause in CAUSES:
        assert twice.causes[cause] == pytest.approx(2 * once.causes[cause], abs=1e-9), cause


@law
@given(fleets(), paces(), st.randoms(use_true_random=False))
def test_other_names_are_blamed_by_their_names(fleet, pace, random):
    fleet = replace(fleet, seconds=tuple(float(2 + i) for i in range(len(fleet))))  # whoever ties may change places
    order = random.sample(range(len(fleet)), len(fleet))
    plain, other = even_runs(fleet, pace), even_runs(renamed(fleet, order), pace)
    assert other.causes == plain.causes
    back = {c: {order[k]: s for k, s in who.items()} for c, who in other.who.items()}
    assert {c: dict(sorted(w.items())) for c, w in back.items()} == {c: dict(sorted(w.items())) for c, w in plain.who.items()}


def even_runs(fleet, pace):
    """Explained without `planning`, which goes by the number of a client."""
    events, _ = events_of(toy_plan(pace.policy(), len(fleet), stop=Stop(rounds=4, virtual_seconds=2000.0)), world_of(fleet))
    return attribution(events)


@law
@given(fleets(), paces(), st.booleans(), choosers)
def test_years_of_odd_durations_add_up_to_the_microsecond(fleet, pace, faults, choose):
    odd = 54321.987654321
    stretched = replace(
        fleet,
        seconds=tuple(odd * s for s in fleet.seconds),
        periods=tuple(odd * p for p in fleet.periods),
        ready=tuple(tuple((odd * a, odd * b) for a, b in spans) for spans in fleet.ready),
    )
    events, world = told(stretched, pace, faults=faults, choose=choose, scale=odd)
    result = attribution(events, progress_in(world))
    assert abs(math.fsum(result.causes.values()) - events[-1].time) < 1e-6
    assert all(abs(math.fsum(r.causes.values()) - r.seconds) < 1e-6 for r in result.rounds)
    assert all(s > 0 for r in result.rounds for s in r.causes.values())


@law
@example(
    Fleet(client_keys(3), (1.0, 1.0, 1.0), (4.0, 4.0, 4.0), (((0.0, 4.0),),) * 3),
    Pace("readiness", cohort=3, seconds=3.0, t_break=1.0, ready_share=0.25, min_clients=2, factor=1.0),
)
@given(fleets(), paces("readiness", "deadline"))
def test_a_pause_is_a_pause_whoever_reports_meanwhile(fleet, pace):
    events, world = told(fleet, replace(pace, max_staleness=2, if_few="wait"), rounds=8)
    result = attribution(events, progress_in(world))
    for r, inside in zip(result.rounds, rounds_of(events), strict=False):
        if isinstance(inside[-1], ModelCommitted):
            own = {t for e in only(TasksSent, inside) for t in range(e.first, e.first + len(e.clients))}
            folded = set(only(ReportsGathered, inside)[-1].tasks.tolist())
            last = [e.task for e in inside if isinstance(e, TaskArrived) and e.task in folded][-1]
            paused = last in own and not _sent_on_an_arrival(inside, last)
            assert r.causes.get("pause", 0.0) == pytest.approx(pace.t_break if paused else 0.0)


def _sent_on_an_arrival(inside, task):
    """Whether too few clients were free after the pause, so that the report of an earlier task led to the broadcast."""
    sent = next(e for e in only(TasksSent, inside) if e.first <= task < e.first + len(e.clients))
    before = inside[: inside.index(sent)]
    woken = next(i for i, e in enumerate(before) if isinstance(e, TimerFired))
    return any(isinstance(e, TaskArrived) and e.time == sent.time for e in before[woken:])


@law
@given(fleets(), paces("readiness", "deadline"), choosers)
def test_a_committed_round_holds_the_stages_of_the_task_that_closed_it(fleet, pace, choose):
    """Without stale reports the critical task lies inside its round, and its stages are those that the journal says."""
    pace = replace(pace, max_staleness=0)
    events, _ = told(fleet, pace, choose=choose)
    result = attribution(events)
    for r, inside in zip(result.rounds, rounds_of(events), strict=False):
        if not isinstance(inside[-1], ModelCommitted):
            continue
        arrived = [e for e in inside if isinstance(e, TaskArrived)][-1]
        (spent,) = only(TasksSpent, inside)[-1:]
        at = spent.tasks.tolist().index(arrived.task)
        stages = {n: float(spent.spent[n][at]) for n in STAGES if n in spent.spent and spent.spent[n][at]}
        assert {n: s for n, s in r.causes.items() if n in STAGES} == pytest.approx(stages)
        sent = only(TasksSent, inside)[0].time
        assert r.client == arrived.client
        before = math.fsum(r.causes.get(c, 0.0) for c in ("pause", "probes"))
        inside_task = arrived.seconds - sum(stages.values())
        assert before + r.causes.get("reachability", 0.0) == pytest.approx(sent - r.start + inside_task)
        assert r.causes.get("pause", 0.0) == pytest.approx(pace.t_break)
        late = r.end - arrived.time
        assert r.causes.get("stragglers", 0.0) + r.causes.get("slack", 0.0) == pytest.approx(late)


# ---- by hand ------------------------------------------------------------------------------------------------------


def test_a_round_that_waits_for_everyone_waits_for_the_slowest():
    # Task 2 of client 2 computes 3 x 8 s: latency 1, download 8, compute 24, upload 16.
    result, _ = small(readiness(3, t_break=20.0), even_fleet(3, [2.0, 4.0, 8.0]), rounds=1)
    slow = next(iter(result.who["upload"]))
    (r,) = result.rounds
    assert r.client == slow and r.causes["pause"] == 20.0 and r.causes["latency"] == 1.0
    assert set(r.causes) <= {"pause", "latency", "download", "compute", "upload", "planning"}
    assert result.cutting == "none" and result.ended


def test_a_deadline_is_waited_for_because_of_stragglers_or_for_nothing():
    # Everyone but the slowest has arrived long before the deadline: it is at work till then, and dropped.
    result, events = small(deadline(3, seconds=500.0, t_break=5.0), even_fleet(3, [2.0, 2.0, 400.0]), rounds=1)
    (r,) = result.rounds
    last = max(e.time for e in only(TaskArrived, events))
    assert r.causes["stragglers"] == 505.0 - last and "slack" not in r.causes
    assert result.who["stragglers"] == {2: pytest.approx(505.0 - last)}


def test_a_policy_that_sleeps_while_nobody_works_is_slack():
    def decide(book):
        if book.asking:
            return Decision()
        if not book.wanted:
            return Decision(ask=2)
        return Decision(commit=True) if book.now >= 200.0 else Decision(wake_at=200.0)

    result, events = small(Policy("sleeper", decide, 2), even_fleet(2, [2.0, 4.0]), rounds=1)
    (r,) = result.rounds
    assert r.causes["slack"] == 200.0 - max(e.time for e in only(TaskArrived, events))
    assert "stragglers" not in r.causes and "pause" not in r.causes


def test_waiting_until_enough_can_be_reached_is_reachability_and_not_pause():
    night = ((50.0, 100.0),)
    fleet = Fleet(client_keys(3), (2.0, 2.0, 2.0), (100.0,) * 3, (night, night, ((0.0, 100.0),)))
    result, _ = small(readiness(2, t_break=10.0, if_few="wait"), fleet, rounds=1)
    (r,) = result.rounds
    assert r.causes["pause"] == 10.0 and r.causes["reachability"] == 40.0 and "reachability" not in result.who


def test_out_of_reach_inside_a_task_is_reachability_of_its_client():
    # It is there when it is asked, and for four seconds; its task goes on when it is back, 66 seconds later.
    away = Fleet(client_keys(2), (2.0, 2.0), (100.0, 100.0), (((20.0, 24.0), (90.0, 100.0)), ((0.0, 100.0),)))
    result, _ = small(readiness(2, t_break=20.0), away, rounds=1)
    (r,) = result.rounds
    assert r.client == 0 and r.causes["reachability"] == 66.0 and result.who["reachability"] == {0: 66.0}


def in_order():
    """A selector that picks the first candidates."""
    return Selector("in_order", lambda state, roster, n, draw: whole_work(roster.clients[:n]))


def test_who_is_asked_later_is_asked_because_the_first_kept_everybody_waiting():
    def decide(book):
        if book.asking:
            return Decision()
        if book.arrived:
            return Decision(commit=True, drop=0)
        if not book.wanted:
            return Decision(ask=1)
        again = book.first_sent_at + 30.0
        return Decision(wake_at=again) if book.now < again else Decision(ask=0 if book.asks > 1 else 1, others=True)

    result, _ = small(Policy("twice", decide, 2), even_fleet(2, [100.0, 2.0]), rounds=1, choose=in_order())
    (r,) = result.rounds
    # Task 1 of client 1: latency 1, download 2, planning 2, compute 2 x 2, upload 4.
    assert r.causes == {"latency": 1, "download": 2, "planning": 2, "compute": 4, "upload": 4, "stragglers": 30}
    assert r.client == 1 and result.who["stragglers"] == {0: 30.0}


def test_who_can_be_asked_only_when_another_is_done_is_waited_for_through_both():
    result, events = small(buffered(k=2, concurrency=1), even_fleet(2, 3.0), rounds=2, choose=in_order())
    spent = {t: s for e in only(TasksSpent, events) for t, s in zip(e.tasks.tolist(), e.spent["upload"], strict=True)}
    assert [r.causes["upload"] for r in result.rounds] == [spent[0] + spent[1], spent[2] + spent[3]] == [12.0, 12.0]
    assert [r.causes.get("pause", 0.0) for r in result.rounds] == [1.0, 0.0]
    assert taken(result.causes).keys() == {"pause", "latency", "download", "compute", "upload"}


def test_a_failed_round_is_one_cause_with_its_reason():
    result, events = small(deadline(3, seconds=4.0, t_break=5.0), even_fleet(3, 100.0), rounds=2)
    reason = only(RoundFailed, events)[0].reason
    assert taken(result.causes) == {"failed": 18.0} and result.failures == {reason: 18.0}
    assert [r.reason for r in result.rounds] == [reason, reason] and all(r.client == -1 for r in result.rounds)


def test_probes_take_their_own_time_and_the_slowest_is_named():
    result, events = small(readiness(2, t_break=20.0), even_fleet(2, [2.0, 4.0]), rounds=1, choose=prober())
    (probe,) = only(Probed, events)
    (r,) = result.rounds
    assert r.causes["probes"] == probe.time - 20.0 > 0 and r.causes["pause"] == 20.0
    assert list(result.who["probes"]) == [1]
    free = replace(probe, spent={})
    assert slowest(free) == [] and slowest(replace(probe, values=np.array([1.0, np.nan]))) == [1]


def test_a_task_of_an_earlier_round_counts_only_as_far_as_it_lies_in_this_one():
    # Two at a time, a model for each report: the second report's task began when the first's did.
    ready = (((0.0, 100.0),), ((0.0, 30.0), (90.0, 100.0)))
    fleet = Fleet(client_keys(2), (1.0, 10.0), (100.0, 100.0), ready)
    result, events = small(buffered(k=1, concurrency=2), fleet, rounds=20)
    first = next(i for i, r in enumerate(result.rounds) if r.client == 1)
    r = result.rounds[first]
    assert r.start > 0 and result.cutting == "world"
    assert sum(r.causes.values()) == pytest.approx(r.seconds)
    guessed = attribution(events)
    assert guessed.cutting == "evenly" and guessed.rounds[first].causes != r.causes
    assert guessed.causes["pause"] == result.causes["pause"]


def seen(time, *clients):
    return CandidatesSeen(time, roster_of(*clients))


def closing(time, decided, number, *tasks, spent=None):
    """A round is decided to close, its reports are folded, and its model is there."""
    clients, n = np.zeros(len(tasks), np.int64), len(tasks)
    cost = TasksSpent(decided, np.array(tasks), clients, spent or {"compute": np.full(n, 1.0)})
    return [cost, gathered(time, *tasks), ModelCommitted(time, number, number + 1, "", n)]


def test_who_reports_while_an_ask_waits_does_not_make_the_wait_a_pause():
    # The pause ends at 21 and the ask goes out; a report comes at 25; at 40 enough can be reached.
    log = [
        RunBegan(0.0, 1, 3, "", ""),
        seen(0.0, 0, 1),
        sent(0.0, 0, 0, 0, 0, 1),
        TaskArrived(1.0, 0, 0, 1.0, 1.0),
        *closing(1.0, 1.0, 0, 0),
        TimerFired(21.0),
        TaskArrived(25.0, 1, 1, 25.0, 1.0),
        seen(40.0, 2),
        sent(40.0, 1, 1, 2, 2),
        TaskArrived(41.0, 2, 2, 1.0, 1.0),
        *closing(41.0, 41.0, 1, 1, 2),
    ]
    assert attribution(log).rounds[1].causes == {"pause": 20.0, "reachability": 19.0, "compute": 1.0}


def test_who_looks_again_because_nobody_was_there_waits_for_reachability():
    log = [
        RunBegan(0.0, 1, 3, "", ""),
        TimerFired(10.0),
        CandidatesSeen(10.0, Roster(np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64))),
        TimerFired(70.0),
        seen(70.0, 2),
        sent(70.0, 0, 0, 0, 2),
        TaskArrived(71.0, 0, 2, 1.0, 1.0),
        *closing(71.0, 71.0, 0, 0),
    ]
    assert taken(attribution(log).causes) == {"pause": 10.0, "reachability": 60.0, "compute": 1.0}


def test_the_server_takes_its_time_for_trying_and_folding():
    # The first model is tried for 2 s of a pause of 5; reports are folded from 20 to 23, the last model tried to 30.
    log = [
        RunBegan(0.0, 1, 3, "", ""),
        Evaluated(2.0, 0, 1, 10, 1.0),
        TimerFired(5.0),
        seen(5.0, 2),
        sent(5.0, 0, 0, 0, 2),
        TaskArrived(20.0, 0, 2, 15.0, 1.0),
        *closing(23.0, 20.0, 0, 0, spent={"compute": np.array([4.0]), "upload": np.array([np.nan])}),
        Evaluated(30.0, 1, 1, 10, 1.0),
        RunEnded(30.0, "rounds"),
    ]
    result = attribution(log)
    assert result.rounds[0].causes == {"server": 5.0, "pause": 3.0, "compute": 4.0, "unknown": 11.0}
    assert result.rounds[1].causes == {"server": 7.0} and result.ended


def test_the_time_after_the_last_closing_is_unfinished():
    result, _ = small(readiness(2, t_break=20.0), even_fleet(2, 100.0), virtual_seconds=50.0)
    assert taken(result.causes) == {"unfinished": 50.0}
    assert not result.rounds[0].closed


def test_a_journal_without_costs_says_that_nobody_knows():
    result = attribution(LOG)
    assert result.virtual_seconds == 150.0 and sum(result.causes.values()) == 150.0
    # 0..20 and 50..70 nobody says why; tasks 1, 7 and 6 brought the last reports, and 3 was waited for from 45 to 50.
    assert result.causes["unknown"] == 20.0 + 10.0 + 30.0 and result.causes["failed"] == 40.0
    assert result.causes["stragglers"] == 10.0
    assert attribution([]).virtual_seconds == 0.0
