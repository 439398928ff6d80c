"""What a selector sees of clients before it picks."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.edges import UserSource
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Selector
from fedfleet.core.passes import BatchPlan, LocalPass, Optimiser
from fedfleet.core.records import Stop, whole_work
from fedfleet.engine.coordinator import begin
from fedfleet.network.server.served_plan import check_servable
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.rosters import roster_of
from fedfleet.testing.toys import consensus
from fedfleet.world.devices import homogeneous
from fedfleet.world.energy import none, phones
from tests.worlds import buffered, even_fleet, events_of, toy_plan, world_of


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
    with pytest.raises(BadInput, match="selector 'seeing' wants to see 'users' of clients; did you mean 'user'"):
        events_of(plan_seeing("users"), world_of(even_fleet(4)))


def test_what_nobody_can_foresee_is_refused_on_the_wire():
    with pytest.raises(BadInput, match="compute_seconds of clients, which nobody can foresee on a real network"):
        check_servable(plan_seeing("compute_seconds"), 2)
    check_servable(plan_seeing("user", "steps"), 2)


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
            {name: roster.stats[name].tolist() for name in ("user_tasks", "untold", "time")}
            | {"n": roster.clients.tolist()}
        )
        return whole_work(roster.clients[:n])

    # Two at work, a model of every fifth report: what came back waits untold, and each user's tasks are counted.
    choose = Selector("noting", noting, sees=("user_tasks", "untold", "time"))
    plan = toy_plan(buffered(5, 2), 4, choose=choose, stop=Stop(rounds=2))
    world = replace(
        world_of(even_fleet(4, [1.0, 2.0, 64.0, 64.0]), steady=True), users=UserSource(np.array([0, 0, 1, 1]))
    )
    events_of(plan, world)
    assert seen[0] == {"user_tasks": [0] * 4, "untold": [0] * 4, "time": [0] * 4, "n": [0, 1, 2, 3]}
    assert seen[1] == {"user_tasks": [1, 0, 0], "untold": [1, 0, 0], "time": [1] * 3, "n": [0, 2, 3]}
    assert any(max(s["untold"]) == 2 for s in seen)


def test_without_users_nobody_has_tasks_out():
    plan = plan_seeing("user_tasks")
    assert (
        roster_of(plan, world_of(even_fleet(4)), begin(plan).state, np.arange(4)).stats["user_tasks"].tolist()
        == [0] * 4
    )
