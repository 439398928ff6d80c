"""What can never happen in a run is told before it, from a plan and a world of arrays."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.assemble import assemble, feasibility_warnings
from fedfleet.app.assemble.feasibility import (
    hopeless_trips,
    memory_warnings,
    never_together,
    waits_for_ever,
)
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.records import Stop
from fedfleet.pace.asynchronous import buffered, semi_async
from fedfleet.pace.combinators import first_of, overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.pace.timeout import timeout
from tests.worlds import Fleet, even_fleet, toy_plan, world_of


def shifts(*spans, period=100.0):
    n = len(spans)
    return world_of(Fleet(even_fleet(n).keys, (8.0,) * n, (period,) * n, tuple((span,) for span in spans)))


# ---- trips --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "fine"), [(1.0, False), (11.9, False), (12.0, True), (1e9, True)])
def test_a_deadline_below_the_fastest_trip_is_told_with_its_seconds(seconds, fine):
    world = world_of(even_fleet(4, [50.0, 12.0, math.inf, 70.0]))
    for policy in (deadline(3, seconds=seconds), overcommit(deadline(3, seconds=seconds))):
        said = hopeless_trips(toy_plan(policy, 4), world)
        assert any("no client can report" in sentence for sentence in said) != fine
    if not fine:
        assert f"can report within {seconds:.4g} s" in said[0]
        assert re.search(r"the fastest takes 12 s, .*; raise pace.policy.seconds \d", said[0])


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (readiness(3, lease=11.0), r"within 11 s: .* raise pace.lease [\d.]+ times"),
        (timeout(3, seconds=5.0, ceiling=5.5, most=1), r"within 11 s: .* raise pace.ceiling [\d.]+ times"),
        (semi_async(4.0, 1, concurrency=3), r"within 10 s: .* raise pace.lease [\d.]+ times"),
        (buffered(k=1, concurrency=3, lease=8.0), r"within 10 s: .* raise pace.lease [\d.]+ times"),
        (first_of(readiness(3), deadline(3, seconds=11.0)), r"within 11 s: .* raise pace.second.seconds [\d.]+ times"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_wait_that_nobody_can_keep_is_told_with_the_setting_that_bounds_it(policy, says):
    (said,) = hopeless_trips(toy_plan(policy, 4), world_of(even_fleet(4, 12.0)))
    assert re.search(says, said)
    assert hopeless_trips(toy_plan(policy, 4), world_of(even_fleet(4, 9.0))) == []


def test_whoever_waits_for_ever_needs_one_device_that_can():
    assert hopeless_trips(toy_plan(readiness(3), 4), world_of(even_fleet(4, [math.inf] * 3 + [1e6]))) == []
    (said,) = hopeless_trips(toy_plan(readiness(3), 4), world_of(even_fleet(4, math.inf)))
    assert "no device can do this work at all" in said


def test_a_fleet_of_many_is_looked_at_in_parts_and_until_one_is_fast_enough(monkeypatch):
    monkeypatch.setattr("fedfleet.app.assemble.trip_times._CLIENTS_AT_ONCE", 10)
    asked = []
    world = world_of(even_fleet(100, [50.0] * 77 + [2.0] * 23))

    def noting(clients, cost, start, tasks):
        asked.extend(clients.tolist())
        return world.devices.seconds(clients, cost, start, tasks)

    noted = replace(world, devices=replace(world.devices, seconds=noting))
    assert hopeless_trips(toy_plan(overcommit(deadline(3, seconds=5.0)), 100), noted) == []
    assert len(set(asked)) == 10
    asked.clear()
    assert hopeless_trips(toy_plan(deadline(3, seconds=1.0), 100), noted) != []
    assert set(asked) == set(range(100))
    monkeypatch.setattr("fedfleet.app.assemble.trip_times._MOST_TRIED", 20)
    assert "each of 20 devices" in hopeless_trips(toy_plan(deadline(3, seconds=1.0), 100), noted)[0]


def test_times_that_values_decide_are_not_foreseen():
    plan = toy_plan(deadline(3, seconds=1.0), 4)
    priced = replace(plan, algorithm=replace(plan.algorithm, priced_by_value=True))
    assert hopeless_trips(priced, world_of(even_fleet(4, 50.0))) == []


# ---- together -----------------------------------------------------------------------------------------------------


def test_a_cohort_that_is_never_online_together_is_told_with_how_many_are():
    world = shifts((0.0, 10.0), (5.0, 10.0), (8.0, 20.0), (50.0, 60.0))
    assert never_together(toy_plan(readiness(3), 4), world) == []
    (said,) = never_together(toy_plan(readiness(4), 4), world)
    assert said.startswith("rounds will be smaller than pace.cohort = 4: in the first 30.0 days of virtual time at most 3")
    (said,) = never_together(toy_plan(readiness(4, min_clients=4), 4, stop=Stop(virtual_seconds=43200.0)), world)
    assert said.startswith("no round can succeed: in the first 12.0 h of virtual time at most 3 clients are reachable")
    assert "it needs 4; lower pace.min_clients" in said


def test_whom_a_selector_never_asks_does_not_count_as_reachable():
    named = {"world": {"clients": 20}, "choose": {"use": "explore", "selector": {"use": "only", "ids": [3, 4, 5]}}}
    (few,) = doubted(**named, pace={"cohort": 5})
    assert "rounds will be smaller than pace.cohort = 5" in few and "3 clients that [choose] allows" in few
    (none,) = doubted(**named, pace={"cohort": 5, "min_clients": 4})
    assert none.startswith("no round can succeed") and none.endswith("clients that [choose] names")
    assert doubted(**named, pace={"cohort": 3}) == []


def test_states_that_do_not_say_when_are_not_judged():
    world = shifts((0.0, 10.0), (50.0, 60.0))
    silent = replace(world, states=replace(world.states, earliest=None))
    assert never_together(toy_plan(readiness(2), 2), silent) == []


# ---- memory -------------------------------------------------------------------------------------------------------


def with_memory(*megabytes):
    world, kinds = world_of(even_fleet(len(megabytes))), [f"kind{i}" for i in range(len(megabytes))]
    return replace(world, devices=replace(world.devices, kinds=kinds, memory_mb=lambda clients: np.array(megabytes)[clients]))


def test_a_model_that_fits_no_device_is_refused():
    plan = replace(toy_plan(readiness(2), 3), byte_scale=2.0**20 * 600 / 16)  # the toy has 16 bytes
    with pytest.raises(BadInput, match=r"the model takes 600 MB, .* 512 MB"):
        memory_warnings(plan, with_memory(256.0, 512.0, 256.0))
    assert memory_warnings(plan, with_memory(256.0, np.nan, 256.0)) != [], "unknown memory may be enough"
    assert memory_warnings(plan, with_memory(600.0, 700.0, 800.0)) == []


def test_a_model_that_fits_some_devices_is_told_with_those_that_remain():
    plan = replace(toy_plan(readiness(2), 6), byte_scale=2.0**20 * 600 / 16)
    (said,) = memory_warnings(plan, with_memory(256.0, 700.0, 256.0, 1000.0, np.nan, 900.0))
    assert "memory of 2 of 6 devices" in said
    assert "it fits 4 (kind1, kind3, kind4 and others): choose among those" in said


def test_devices_of_unknown_memory_are_not_judged():
    assert memory_warnings(replace(toy_plan(readiness(2), 3), byte_scale=1e12), world_of(even_fleet(3))) == []


# ---- specs --------------------------------------------------------------------------------------------------------

SPEC = {"task": "digits_logreg", "world": {"clients": 20}, "pace": {"cohort": 5}}


def doubted(**tables):
    return feasibility_warnings(assemble(resolve({**SPEC, **tables})))


def test_a_sound_spec_raises_no_doubts():
    assert doubted() == []
    assert doubted(algorithm={"use": "centralized"}) == []
    assert doubted(world={"clients": 20, "users": "households"}, edge="hierfl", pace={"cohort": 3}) == []


def test_doubts_of_a_spec_name_its_keys():
    (late,) = doubted(pace={"use": "deadline", "cohort": 5, "seconds": 0.001})
    assert "raise pace.seconds" in late
    (share,) = doubted(pace={"cohort": 20, "ready_share": 0.05})
    assert "pace.min_share = 0.1" in share
    (few,) = doubted(world={"clients": 20, "states": {"use": "daily", "ready": 0.1}}, pace={"cohort": 20})
    assert "rounds will be smaller than pace.cohort = 20" in few
    (few,) = doubted(world={"clients": 20, "states": {"use": "daily", "ready": 0.1}}, pace={"use": "buffered"})
    assert "lower pace.concurrency, or change world.states" in few


def test_a_model_larger_than_every_device_is_refused_and_than_some_is_doubted():
    pool = {"use": "pool72", "reallocate": False, "distribution": "uniform"}
    memory = assemble(resolve({**SPEC, "world": {"clients": 20, "devices": pool}})).world.devices.memory_mb(np.arange(20))
    between = float(memory.min() + memory.max()) / 2 * 2**20
    (some,) = doubted(world={"clients": 20, "devices": pool, "model_bytes": between}, pace={"cohort": 5})
    assert "more than the memory of" in some
    with pytest.raises(BadInput, match="the largest memory of any device is"):
        doubted(world={"clients": 20, "devices": pool, "model_bytes": 1e15})


def test_slices_of_a_model_that_is_too_large_are_not_doubted():
    pool = {"use": "pool72", "reallocate": False, "distribution": "uniform"}
    world = {"clients": 20, "devices": pool, "model_bytes": 1e9}
    (some,) = doubted(task="digits_mlp", world=world, pace={"cohort": 5})
    assert 'algorithm.use = "heterofl"' in some
    slices = {"use": "heterofl", "widths": [1.0, 0.25, 0.01], "assign": "memory"}
    assert doubted(task="digits_mlp", world=world, pace={"cohort": 5}, algorithm=slices) == []
    too_wide = {**slices, "widths": [1.0, 0.9]}
    (some,) = doubted(task="digits_mlp", world=world, pace={"cohort": 5}, algorithm=too_wide)
    assert "more than the memory of" in some


def test_more_models_than_rounds_are_refused():
    with pytest.raises(BadInput, match=r"stop.commits: 9 models .* stop.rounds = 8 rounds; raise stop.rounds"):
        assemble(resolve({**SPEC, "stop": {"rounds": 8, "commits": 9}}))
    assert assemble(resolve({**SPEC, "stop": {"rounds": 9, "commits": 9}})).plan.stop.commits == 9


# ---- silence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "ever"),
    [
        (readiness(3), True), (readiness(3, ready_share=0.5, max_staleness=2), True), (overcommit(readiness(3)), True),
        (deadline(3, seconds=math.inf), True), (buffered(), True), (deadline(3), False), (deadline(3, max_staleness=4), False),
        (overcommit(deadline(3)), False), (buffered(lease=100.0), False), (deadline(3, if_few="wait"), False),
        # Those who are silent are busy, until nobody is left; then they are given up, unless a round waits for all in any case.
        (deadline(3, max_staleness=4, if_few="wait"), False),
    ],
)  # fmt: skip
def test_whoever_goes_on_waiting_for_silence_is_known_by_its_decisions(policy, ever):
    assert waits_for_ever(policy, 30) == ever


def test_a_fleet_of_a_million_is_not_used_up_by_silence():
    assert not waits_for_ever(deadline(1000, max_staleness=4, if_few="wait"), 1_000_000)
    assert waits_for_ever(readiness(1000), 1_000_000)


@pytest.mark.parametrize("faults", ["lossy", "crashes", "outages", ["slowed", "crashes"]])
def test_waiting_for_ever_where_tasks_are_lost_without_a_word_is_refused(faults):
    said = r"pace: 'readiness' .*world.faults.*pace.lease.*world.faults.noticed = true"
    world = {"clients": 30, "faults": faults}
    with pytest.raises(BadInput, match=said):
        assemble(resolve({"world": world}))
    assemble(resolve({"world": world, "pace": "deadline"}))


@pytest.mark.parametrize(
    "faults", [{"use": "lossy", "noticed": True}, "delayed", "repeated", "slowed", {"use": "crashes", "rate": 0.0}]
)
def test_whoever_hears_of_what_is_lost_may_wait(faults):
    assemble(resolve({"world": {"clients": 30, "faults": faults}}))


def test_a_fleet_that_is_always_down_is_told():
    down = {"use": "crashes", "rate": 1.0, "seconds": 3600.0, "period": 3600.0}
    said = feasibility_warnings(
        assemble(resolve({"world": {"clients": 30, "faults": down}, "pace": {"use": "deadline", "cohort": 5}}))
    )
    assert any("0 clients are reachable" in s for s in said)
