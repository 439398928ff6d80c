"""What a selector sees of clients before it picks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.edges import UserSource
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import CandidatesSeen, ModelCommitted, Probed, RoundFailed, RunEnded, TasksDropped, TasksSent
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.passes import BatchPlan, LocalPass, Optimiser
from fedfleet.core.records import NOTHING, Decision, Stop, whole_work
from fedfleet.core.stages import source_from_stages
from fedfleet.engine.coordinator import begin
from fedfleet.measure.tasks import RUNNING, task_table
from fedfleet.network.server.served_plan import check_servable
from fedfleet.pace.combinators import overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.simulation.rosters import earliest_moment, roster_of
from fedfleet.testing.toys import consensus
from fedfleet.world.devices import homogeneous
from fedfleet.world.energy import none, phones
from tests.worlds import (
    Fleet,
    buffered,
    even_fleet,
    events_of,
    fleets,
    kinds_of,
    only,
    paces,
    plain,
    toy_plan,
    world_of,
)

pytestmark = pytest.mark.slow

law = settings(deadline=None, derandomize=True, max_examples=120)


def shifted(*ready, period=100.0, seconds=8.0):
    """A fleet of clients that are there in these spans of each period."""
    n = len(ready)
    return Fleet(even_fleet(n).keys, (seconds,) * n, (period,) * n, tuple((span,) for span in ready))


def seen(events):
    return [(e.time, e.roster.clients.tolist()) for e in only(CandidatesSeen, events)]


def test_a_round_begins_when_enough_are_there_and_none_is_burnt():
    fleet = shifted((50.0, 90.0), (60.0, 90.0), (80.0, 90.0))
    plan = toy_plan(readiness(3, t_break=2.0, if_few="wait"), 3, stop=Stop(rounds=2))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    assert seen(events)[0] == (60.0, [0, 1])
    assert not only(RoundFailed, events)
    burning, _ = events_of(
        toy_plan(readiness(3, t_break=2.0, if_few="fail"), 3, stop=Stop(rounds=20)), world_of(fleet, steady=True)
    )
    assert len(only(RoundFailed, burning)) == 20


@law
@given(fleets(), paces("readiness", "deadline"))
def test_no_round_fails_for_want_of_clients_and_each_begins_as_soon_as_it_can(fleet, pace):
    pace = replace(pace, if_few="wait")
    policy, world = pace.policy(), world_of(fleet)
    events, _ = events_of(toy_plan(policy, len(fleet), stop=Stop(rounds=5, virtual_seconds=1000.0)), world)
    assert not [e for e in only(RoundFailed, events) if "could be selected" in e.reason]
    asked = pace.t_break
    # Until when the clients of earlier rounds are busy: with staleness, a late one goes on while the next round begins.
    busy_until = np.zeros(len(fleet))
    tasks = task_table(events)
    for event in events:
        if isinstance(event, TasksSent):
            sent = slice(event.first, event.first + len(event.clients))
            busy_until[event.clients] = np.where(tasks.fate[sent] == RUNNING, math.inf, tasks.ended[sent])
        elif isinstance(event, CandidatesSeen):
            # Times are whole seconds.
            moments = range(math.ceil(asked), math.ceil(event.time))
            counts = {t: int((world.states.online(float(t)) & (busy_until <= t)).sum()) for t in moments}
            assert len(event.roster.clients) >= policy.least
            assert not [t for t, count in counts.items() if count >= policy.least]
        elif isinstance(event, ModelCommitted | RoundFailed):
            asked = event.time + pace.t_break


@law
@given(fleets(), paces(), st.integers(20, 400).map(float))
def test_asking_for_at_least_nobody_changes_nothing(fleet, pace, horizon):
    def with_least(least):
        policy = replace(pace, if_few="fail").policy()

        def decide(book):
            decision = policy.decide(book)
            return decision._replace(at_least=least) if decision.ask else decision

        stop = Stop(rounds=4, virtual_seconds=horizon)
        return [plain(e) for e in events_of(toy_plan(replace(policy, decide=decide), len(fleet), stop=stop), world_of(fleet))[0]]

    assert with_least(0) == [
        plain(e)
        for e in events_of(
            toy_plan(replace(pace, if_few="fail").policy(), len(fleet), stop=Stop(rounds=4, virtual_seconds=horizon)),
            world_of(fleet),
        )[0]
    ]


def test_if_it_never_happens_the_run_ends_at_its_horizon():
    fleet = shifted((0.0, 10.0), (20.0, 30.0))
    events, _ = events_of(toy_plan(readiness(2, if_few="wait"), 2, stop=Stop(rounds=5, virtual_seconds=5000.0)), world_of(fleet))
    assert (events[-1].reason, events[-1].time) == ("virtual_seconds", 5000.0)
    assert kinds_of(events) == ["RunBegan", "Evaluated", "TimerFired", "TimerFired", "Evaluated", "RunEnded"]


def test_a_moment_at_the_horizon_is_too_late():
    fleet = shifted((50.0, 60.0), (50.0, 60.0))
    for horizon, rosters in ((50.0, 0), (51.0, 1)):
        stop = Stop(virtual_seconds=horizon)
        events, _ = events_of(toy_plan(readiness(2, if_few="wait"), 2, stop=stop), world_of(fleet))
        assert len(seen(events)) == rosters


def test_tasks_that_end_bring_the_moment_forward():
    # Client 0 works until 24; without it two are there only at 70.
    fleet = shifted((0.0, 100.0), (10.0, 60.0), (70.0, 100.0), seconds=24.0)
    asked = []

    def decide(book):
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            return Decision(ask=1) if book.now >= 1 else Decision(wake_at=1.0)
        if book.asks == 1 and not book.answered:
            asked.append(book.now)
            return Decision(ask=2, at_least=2)
        if book.asks == 2:
            return Decision(commit=True, drop=0) if book.arrived else NOTHING
        return Decision(wake_at=5.0) if book.now < 5.0 else NOTHING

    events, _ = events_of(toy_plan(Policy("two", decide, 1), 3, stop=Stop(rounds=1)), world_of(fleet, steady=True))
    assert asked == [5.0]
    assert seen(events) == [(1.0, [0]), (25.0, [0, 1])]


def test_tasks_that_are_given_up_bring_it_forward_too():
    fleet = shifted((0.0, 100.0), (0.0, 60.0), seconds=500.0)

    def decide(book):
        if book.wanted == 0:
            return Decision(ask=1) if book.now >= 1 else Decision(wake_at=1.0)
        if book.asks == 1 and not book.asking:
            return Decision(wake_at=5.0) if book.now < 5.0 else Decision(ask=2, at_least=2, wake_at=9.0)
        if book.asking and book.running:
            return Decision(drop=0) if book.now >= 9.0 else Decision(wake_at=9.0)
        return NOTHING

    stop = Stop(rounds=1, virtual_seconds=50.0)
    events, _ = events_of(toy_plan(Policy("gives_up", decide, 1), 2, stop=stop), world_of(fleet, steady=True))
    assert [e.time for e in only(TasksDropped, events)] == [9.0, 50.0]
    assert [time for time, _ in seen(events)] == [1.0, 9.0]


def grows(first, then, **more):
    """Ask for one, at least `first`; at 10 for one more, at least `then`."""

    def decide(book):
        if book.wanted == 0:
            return Decision(ask=1, at_least=first, wake_at=10.0)
        if book.asking and book.wanted == 1:
            return Decision(ask=1, at_least=then, **more) if book.now >= 10.0 else Decision(wake_at=10.0)
        return NOTHING if book.running or book.asking else Decision(commit=True)

    return Policy("grows", decide, 1)


@pytest.mark.parametrize(("first", "then", "moment"), [(2, 0, 60.0), (2, 3, 80.0), (3, 2, 80.0), (2, 2, 60.0)])
def test_an_ask_that_grows_waits_for_the_most_that_was_wanted(first, then, moment):
    fleet = shifted((50.0, 90.0), (60.0, 90.0), (80.0, 90.0))
    events, _ = events_of(toy_plan(grows(first, then), 3, stop=Stop(rounds=1)), world_of(fleet, steady=True))
    assert seen(events)[0][0] == moment
    assert len(only(TasksSent, events)[0].clients) == 2


def test_whoever_is_left_out_is_not_waited_for():
    # Both early ones were asked in this round already, so that two others are there only at 80.
    fleet = shifted((0.0, 90.0), (0.0, 90.0), (40.0, 90.0), (80.0, 90.0), seconds=3.0)

    def decide(book):
        if book.wanted == 0:
            return Decision(ask=2)
        if book.asks == 1 and not book.asking and not book.running:
            return Decision(ask=2, at_least=2, others=True)
        return Decision(commit=True) if book.asks == 2 and not book.running else NOTHING

    events, _ = events_of(toy_plan(Policy("others", decide, 2), 4, stop=Stop(rounds=1)), world_of(fleet, steady=True))
    assert seen(events) == [(0.0, [0, 1]), (80.0, [0, 1, 2, 3])]
    assert [e.clients.tolist() for e in only(TasksSent, events)][1] in ([2, 3], [3, 2])


def test_a_selector_sees_the_moment_at_which_it_picks():
    times = []

    def pick(state, roster, n, draw):
        times.append(roster.stats["compute_seconds"].tolist())
        return whole_work(roster.clients[:n])

    world = world_of(shifted((50.0, 90.0), (60.0, 90.0)))
    by_time = replace(world.devices, seconds=lambda clients, cost, start, tasks: np.full(len(clients), start))
    plan = toy_plan(readiness(2, if_few="wait"), 2, choose=Selector("seeing", pick, sees=("compute_seconds",)), stop=Stop(rounds=1))
    events_of(plan, replace(world, devices=by_time))
    assert times[0] == [60.0, 60.0]


def test_overcommitment_waits_for_what_is_needed_and_takes_more_if_they_are_there():
    fleet = shifted((50.0, 90.0), (60.0, 90.0), (60.0, 90.0), (95.0, 99.0))
    plan = toy_plan(overcommit(readiness(2, if_few="wait"), factor=2.0), 4, stop=Stop(rounds=1))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    assert seen(events) == [(60.0, [0, 1, 2])]
    assert len(only(TasksSent, events)[0].clients) == 3


def test_an_asynchronous_policy_waits_while_others_run():
    fleet = shifted((0.0, 100.0), (0.0, 100.0), (30.0, 100.0), seconds=40.0)
    plan = toy_plan(buffered(1, 3, at_least=1), 3, stop=Stop(rounds=4))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    assert [time for time, _ in seen(events)][:3] == [0.0, 30.0, 40.0]
    assert only(RunEnded, events)[0].reason == "rounds"


def test_states_that_do_not_say_when_are_looked_at_every_twenty_seconds():
    world = world_of(shifted((50.0, 90.0), (60.0, 90.0)))
    silent = replace(world, states=replace(world.states, earliest=None))
    for break_seconds, first in ((2.0, 60.0), (61.0, 80.0)):
        events, _ = events_of(toy_plan(deadline(2, t_break=break_seconds), 2, stop=Stop(rounds=1)), silent)
        assert [time for time, _ in seen(events)] == [first]


def test_an_error_of_the_world_names_it():
    world = world_of(shifted((50.0, 90.0), (60.0, 90.0)))
    broken = replace(world, states=replace(world.states, earliest=lambda among, n, start, until: [][n]))
    with pytest.raises(RunFailed, match=r"the world, asked at time 20.0 when 2 clients can be reached, failed: IndexError"):
        events_of(toy_plan(readiness(2, if_few="wait"), 2), broken)


def test_the_moment_is_a_function_of_state_and_world():
    world = world_of(shifted((50.0, 90.0), (60.0, 90.0)))
    plan = toy_plan(readiness(2, if_few="wait"), 2)
    _, end = events_of(plan, world)
    state = end.state._replace(at_least=2, book=end.state.book._replace(now=3.0))
    assert earliest_moment(plan, world, state, np.zeros(2, np.bool_)) == 60.0
    assert earliest_moment(plan, world, state, np.array([True, False])) == math.inf


def first(state, roster, n, draw):
    return whole_work(roster.clients[:n])


def plan_seeing(*names, algorithm=None):
    choose = Selector("seeing", first, sees=names)
    return toy_plan(readiness(2), 4, choose=choose, algorithm=algorithm, stop=Stop(rounds=1))


def test_compute_and_transfer_seconds_are_foreseen_apart():
    # 10 samples at 0.25 s, three passes each: 7.5 s. A model of 125 kB at 4 Mbit/s: a quarter second each way.
    plan = plan_seeing("compute_seconds", "transfer_seconds", algorithm=consensus(model_bytes=125_000.0))
    world = world_of(even_fleet(4))
    world = replace(world, devices=homogeneous(mbps=4.0, seconds_per_sample=0.25)(world.keys, 0))
    roster = roster_of(plan, world, begin(plan).state, np.array([1, 3]))
    assert roster.stats["compute_seconds"].tolist() == [7.5, 7.5]
    assert roster.stats["transfer_seconds"].tolist() == [0.5, 0.5]
    doubled = roster_of(replace(plan, byte_scale=2.0), world, begin(plan).state, np.array([1, 3]))
    assert doubled.stats["transfer_seconds"].tolist() == [1.0, 1.0]


def test_the_upload_and_a_trip_of_nothing_are_foreseen_too():
    plan = plan_seeing("upload_seconds", "latency_seconds", algorithm=consensus(model_bytes=125_000.0))
    world = world_of(even_fleet(4))
    world = replace(world, devices=homogeneous(mbps=4.0, up_mbps=2.0, seconds_per_sample=0.25)(world.keys, 0))
    stats = roster_of(plan, world, begin(plan).state, np.array([1, 3])).stats
    assert (stats["upload_seconds"].tolist(), stats["latency_seconds"].tolist()) == ([0.5, 0.5], [0.0, 0.0])


def test_joules_are_those_of_the_whole_work_unknown_without_a_source_and_infinite_where_it_cannot_be_done():
    plan = plan_seeing("joules", algorithm=consensus(model_bytes=125_000.0))
    world = world_of(even_fleet(4))
    world = replace(world, devices=homogeneous(mbps=4.0, seconds_per_sample=0.25)(world.keys, 0))

    def seen(world):
        return roster_of(plan, world, begin(plan).state, np.array([1, 3])).stats["joules"]

    watts = phones(compute=2.0, receive=4.0, transmit=8.0, tail=0.0)(world.devices, world.keys, 0)
    assert seen(replace(world, energy=watts)).tolist() == [2.0 * 7.5 + 4.0 * 0.25 + 8.0 * 0.25] * 2
    assert np.isnan(seen(world)).all()
    assert np.isnan(seen(replace(world, energy=none()(world.devices, world.keys, 0)))).all()
    unable = world_of(even_fleet(4, [8.0, 8.0, 8.0, np.inf]))
    result = seen(replace(unable, energy=watts))
    assert np.isfinite(result[0]) and result[1] == np.inf


def test_steps_follow_from_the_batch_plan_and_are_unknown_of_an_opaque_pass():
    nothing = Optimiser(lambda params: None, lambda params, grads, state: (dict(params), state))
    passes = [BatchPlan(4, epochs=3), BatchPlan(4, steps=7), BatchPlan(16, epochs=1)]
    toy = consensus()

    def local(client, settings):
        return toy.local(client, settings) if client == 3 else LocalPass(nothing, passes[client])

    plan = plan_seeing("steps", algorithm=replace(toy, local=local))
    roster = roster_of(plan, world_of(even_fleet(4)), begin(plan).state, np.arange(4))
    assert roster.stats["steps"].tolist()[:3] == [9.0, 7.0, 1.0]
    assert np.isnan(roster.stats["steps"][3])


def test_one_more_step_is_foreseen_as_a_full_batch_and_what_it_takes_without_samples_apart():
    nothing = Optimiser(lambda params: None, lambda params, grads, state: (dict(params), state))
    toy, passes = consensus(), [BatchPlan(4, epochs=3), BatchPlan(16, epochs=2)]
    algorithm = replace(toy, cost=None, local=lambda client, settings: LocalPass(nothing, passes[client]))
    plan = plan_seeing("step_seconds", "batch_seconds", algorithm=algorithm)
    world = world_of(even_fleet(4))
    world = replace(world, devices=homogeneous(seconds_per_sample=0.25, seconds_per_batch=0.5)(world.keys, 0))
    stats = roster_of(plan, world, begin(plan).state, np.array([0, 1])).stats
    # A full batch of 4, and the whole shard of 10 where that is less than a batch: three passes each, and the batch's own time.
    assert stats["step_seconds"].tolist() == [4 * 0.75 + 0.5, 10 * 0.75 + 0.5]
    assert stats["batch_seconds"].tolist() == [0.5, 0.5]


def test_users_reach_selectors():
    plan, world = plan_seeing("user"), world_of(even_fleet(4))
    assert roster_of(plan, world, begin(plan).state, np.arange(4)).stats["user"].tolist() == [-1.0] * 4
    owned = replace(world, users=UserSource(np.array([0, 1, 0, 1])))
    assert roster_of(plan, owned, begin(plan).state, np.array([1, 2])).stats["user"].tolist() == [1.0, 0.0]


def test_an_unknown_column_is_one_sentence():
    with pytest.raises(BadInput, match="selector 'seeing' asks for an unknown column 'users' of clients; did you mean 'user'"):
        events_of(plan_seeing("users"), world_of(even_fleet(4)))


def test_what_nobody_can_foresee_is_refused_on_the_wire():
    with pytest.raises(BadInput, match=r"choose: the selector needs the joules .* no device reports"):
        check_servable(plan_seeing("joules"), 2)
    check_servable(plan_seeing("user", "steps", "compute_seconds"), 2)


def test_an_error_inside_the_world_names_it():
    world = world_of(even_fleet(4))

    def broken(*_):
        raise ZeroDivisionError("no speed")

    plan = plan_seeing()
    with pytest.raises(RunFailed, match="the world, asked how long tasks 0 to 1 take, failed: ZeroDivisionError"):
        events_of(plan, replace(world, devices=replace(world.devices, seconds=broken)))
    with pytest.raises(RunFailed, match=r"the world, asked at time 20.0 who could be asked, failed"):
        events_of(plan, replace(world, states=replace(world.states, online=broken)))


def test_tasks_of_a_user_that_are_out_and_tasks_that_ended_untold_are_counted():
    seen = []

    def noting(state, roster, n, draw):
        seen.append(
            {name: roster.stats[name].tolist() for name in ("user_tasks", "untold", "time")} | {"n": roster.clients.tolist()}
        )
        return whole_work(roster.clients[:n])

    # Two at work, a model of every fifth report: what came back waits untold, and each user's tasks are counted.
    choose = Selector("noting", noting, sees=("user_tasks", "untold", "time"))
    plan = toy_plan(buffered(5, 2), 4, choose=choose, stop=Stop(rounds=2))
    world = replace(world_of(even_fleet(4, [1.0, 2.0, 64.0, 64.0]), steady=True), users=UserSource(np.array([0, 0, 1, 1])))
    events_of(plan, world)
    assert seen[0] == {"user_tasks": [0] * 4, "untold": [0] * 4, "time": [0] * 4, "n": [0, 1, 2, 3]}
    assert seen[1] == {"user_tasks": [1, 0, 0], "untold": [1, 0, 0], "time": [1] * 3, "n": [0, 2, 3]}
    assert any(max(s["untold"]) == 2 for s in seen)


def test_without_users_nobody_has_tasks_out():
    plan = plan_seeing("user_tasks")
    assert roster_of(plan, world_of(even_fleet(4)), begin(plan).state, np.arange(4)).stats["user_tasks"].tolist() == [0] * 4


def probing(within=np.inf):
    def pick(state, roster, n, draw):
        order = np.argsort(np.nan_to_num(roster.stats["seconds"], nan=np.inf), kind="stable")
        return whole_work(roster.clients[order[:n]])

    return Selector("probing", pick, probe=lambda s, roster, n, d: (roster.clients, "seconds"), probe_seconds=within)


def told(within=np.inf, **world):
    def stages(clients, cost, start, tasks):
        return {
            "download": cost.bytes_down / 16.0 * (1.0 + clients),
            "compute": cost.samples,
            "upload": cost.bytes_up / 8.0,
        }

    made = replace(world_of(even_fleet(4)), devices=source_from_stages(stages, ["toy"] * 4), **world)
    return events_of(toy_plan(readiness(2), 4, choose=probing(within), stop=Stop(rounds=1)), made)[0]


def test_a_probe_ends_with_the_slowest_answer():
    log = told()
    (probed,), (sent,) = only(Probed, log), only(TasksSent, log)
    took = sum(probed.spent[name] for name in ("download", "compute", "upload"))
    assert probed.time == 20.0 + took.max()
    assert sent.time == probed.time
    assert probed.spent["bytes_up"].tolist() == [8.0] * 4
    assert (probed.spent["bytes_down"] == 16.0).all()


def test_who_does_not_answer_in_time_is_not_waited_for():
    whole = told()
    (first,) = only(Probed, whole)
    took = sum(first.spent[name] for name in ("download", "compute", "upload"))
    limit = float(np.sort(took)[1])
    (probed,) = only(Probed, told(limit))
    assert probed.time == 20.0 + limit
    assert np.isnan(probed.values).tolist() == (took > limit).tolist()


def test_looking_can_be_free():
    log = told(free_probes=True)
    (probed,) = only(Probed, log)
    assert (probed.time, dict(probed.spent)) == (20.0, {})
    assert not np.isnan(probed.values).any()
