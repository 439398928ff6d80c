"""Edges at work: what reaches the server is what a flat fleet would have sent, and one bad device harms nobody else."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedfleet.choose.uniform import uniform
from fedfleet.core import aggregation
from fedfleet.core.edges import Abilities, EdgeFleet, EdgeRule, NestedPass, Sync, Turn, UserSource
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import ModelCommitted, ReportsGathered
from fedfleet.core.part_facts import TaskFacts
from fedfleet.core.parts import Job, Offer, Plan, Task
from fedfleet.core.records import Context, Report, ServerState, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DataSource, DeviceSource, World
from fedfleet.core.trees import content_hash
from fedfleet.edges.hierfl import hierfl
from fedfleet.edges.shufflefl.rule import shufflefl
from fedfleet.engine.hierarchy import MAX_SYNCS, SLOTS
from fedfleet.engine.hierarchy import nest_algorithm as one_layer_up
from fedfleet.executors.edge_turns import nested_executor
from fedfleet.executors.gather import fold_reports
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.fedavg import fedavg
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.store.client_memory import ClientMemory
from fedfleet.tasks.digits import digits, digits_logreg
from fedfleet.tasks.task import first_parameters
from fedfleet.testing.toys import consensus, consensus_start, opaque_executor
from fedfleet.world.states import always_on

TASK = digits_logreg()(0)
LITERAL = inline(TASK)


def fleet_of(owners, first_slots):
    """Devices that are all alike, behind edges as `owners` says."""
    keys = client_keys(len(owners))

    def able(devices, time, task):
        one = np.ones(len(devices))
        return Abilities(0.01 * one, 1e6 * one, 2e6 * one)

    return EdgeFleet(UserSource(np.array(owners)), keys, first_slots, able, lambda edge, found: (1e6, 1e6, 0.0))


def edges_of(sizes, rule, algorithm, *, offered=None, task=TASK, first=40):
    """Jobs of edges whose devices hold so many rows each: sizes[edge][device]; and the flat jobs of the same devices."""
    owners = np.repeat(np.arange(len(sizes)), [len(own) for own in sizes])
    slots = [np.repeat(np.arange(len(own)), own) for own in sizes]
    shards = np.split(np.random.default_rng(7).permutation(1000), np.cumsum([sum(own) for own in sizes]))
    fleet = fleet_of(owners, lambda edge: slots[edge])
    inside, params = NestedPass(algorithm, rule, fleet), offered or task.init(0)
    above = [Job(first + u, u, 77, 3, Offer(params), inside, shards[u]) for u in range(len(sizes))]

    def below(sync=0, *, model=params, steps=0):
        made = []
        for d, u in enumerate(owners.tolist()):
            mine = shards[u][slots[u] == d - int(np.argmax(owners == u))]
            if len(mine):
                number = (first + u) * MAX_SYNCS + sync
                made.append(Job(number, d, int(fleet.keys[d]), 3, Offer(model), algorithm.local(d, {}), mine, steps))
        return made

    return above, below


def plan_of(algorithm, rule, fleet, params, clients, **more):
    """A plan over edges."""
    above = one_layer_up(algorithm, rule, fleet)
    return Plan(3, above, uniform(), readiness(clients, min_clients=1), Stop(rounds=3), params, clients, **more)


def at_the_server(reports, algorithm, params):
    """The sum that the server gets from reports of edges, and what it could not use."""
    plan = plan_of(algorithm, hierfl(), fleet_of([0], None), params, 1)
    contexts = [Context(0, 0.0, r.client) for r in reports]
    got = fold_reports(plan, ClientMemory(), ServerState(params), contexts, reports, 0.0)
    return got.aggregate, got.rejected


def flat_sum(reports, algorithm, params):
    acc = aggregation.zero(algorithm.fold, ServerState(params))
    for report in reports:
        assert aggregation.refusal(algorithm.fold, acc, report, Context(0, 0.0, report.client)) is None
        acc = aggregation.add(algorithm.fold, acc, report, Context(0, 0.0, report.client))
    return acc


def same_sum(a, b):
    (mine,), (theirs,) = a.sums.values(), b.sums.values()
    leaves = [np.array_equal(mine.sums[n], theirs.sums[n]) for n in mine.sums]
    return (mine.weight, mine.count, mine.sums.keys()) == (theirs.weight, theirs.count, theirs.sums.keys()) and all(leaves)


users = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4).filter(any), min_size=1, max_size=4)


@settings(deadline=None, derandomize=True, max_examples=15)
@given(users, st.integers(1, 4), st.sampled_from(["samples", "one"]))
def test_one_average_at_the_edges_is_flat_averaging_bit_for_bit(sizes, kappa1, weigh):
    algorithm = fedavg(lr=0.1, batch=4, weigh=weigh)
    above, below = edges_of(sizes, hierfl(kappa1=kappa1, kappa2=1), algorithm)
    got, rejected = at_the_server(list(nested_executor(LITERAL).train(above)), algorithm, TASK.init(0))
    flat = flat_sum(LITERAL.train(below(steps=kappa1)), algorithm, TASK.init(0))
    assert rejected == ()
    assert same_sum(got, flat)
    assert content_hash(aggregation.finish(algorithm.fold, got).mean) == content_hash(aggregation.finish(algorithm.fold, flat).mean)


@pytest.mark.parametrize("kappa2", [2, 5])
def test_one_edge_with_several_averages_is_as_many_flat_rounds(kappa2):
    algorithm = fedavg(lr=0.1, batch=4)
    above, below = edges_of([[9, 14, 0, 3]], hierfl(kappa1=3, kappa2=kappa2), algorithm)
    report = next(nested_executor(LITERAL).train(above))
    model = TASK.init(0)
    for k in range(kappa2):
        change = aggregation.finish(
            algorithm.fold, flat_sum(LITERAL.train(below(k, model=model, steps=3)), algorithm, TASK.init(0))
        ).mean
        model = {n: v + change[n] for n, v in model.items()}
    for name, value in TASK.init(0).items():
        np.testing.assert_allclose(value + report.update[name], model[name], rtol=0, atol=1e-6)
    assert report.weight == 26.0 and report.forwarded is None


def test_one_step_on_everything_is_one_step_on_the_union():
    algorithm = fedavg(lr=0.5, batch=1000)
    above, _ = edges_of([[5, 11], [2], [8, 1, 4]], hierfl(kappa1=1, kappa2=1), algorithm)
    got, _ = at_the_server(list(nested_executor(LITERAL).train(above)), algorithm, TASK.init(0))
    everything = np.concatenate([job.rows for job in above])
    union = next(LITERAL.train([Job(0, 0, 0, 3, Offer(TASK.init(0)), algorithm.local(0, {}), everything, 1)]))
    for name, change in aggregation.finish(algorithm.fold, got).mean.items():
        np.testing.assert_allclose(change, union.update[name], rtol=1e-4, atol=1e-6)


def facts():
    labels = digits().y
    return TaskFacts(lambda rows: labels[rows], 10, 8.0 * 256, 2.0, lambda: np.eye(10))


@pytest.mark.parametrize("rule", [hierfl(kappa1=2, kappa2=1), shufflefl(facts=facts)], ids=["hierfl", "shufflefl"])
def test_edges_with_one_device_each_are_no_layer_at_all(rule):
    algorithm = fedavg(lr=0.1, batch=4)
    above, below = edges_of([[6], [13], [1]], rule, algorithm)
    reports = list(nested_executor(LITERAL).train(above))
    flat = list(LITERAL.train(below(steps=2 if rule.name == "hierfl" else 0)))
    for edge, device in zip(reports, flat, strict=True):
        assert edge.stats["moved"] == edge.stats["planning_seconds"] == 0.0
        assert edge.weight == device.weight
        assert edge.stats["loss"] == pytest.approx(device.stats["loss"])
        assert not edge.memory["edge"][SLOTS].any()
    got, _ = at_the_server(reports, algorithm, TASK.init(0))
    assert same_sum(got, flat_sum(flat, algorithm, TASK.init(0)))


def test_models_with_counters_travel_through_edges():
    def build():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Linear(6, 10))

    task = Task("counting", TASK.dataset, TASK.holdout, build, lambda seed: first_parameters(build, seed))
    assert any(np.issubdtype(v.dtype, np.integer) for v in task.init(0).values())
    algorithm = fedavg(lr=0.1, batch=4)
    for kappa2 in (1, 2):
        above, below = edges_of([[8, 4], [12]], hierfl(kappa1=2, kappa2=kappa2), algorithm, task=task)
        got, rejected = at_the_server(list(nested_executor(inline(task)).train(above)), algorithm, task.init(0))
        assert rejected == () and got.sums[""].weight > 0
        if kappa2 == 1:
            assert same_sum(got, flat_sum(inline(task).train(below(steps=2)), algorithm, task.init(0)))


@pytest.mark.parametrize("form", ["merged", "loop"])
def test_stacked_devices_train_as_literal_ones_do(form):
    algorithm = fedavg(lr=0.1, batch=4)
    above, _ = edges_of([[9, 14, 3], [7], [5, 5]], hierfl(kappa1=3, kappa2=3), algorithm)
    inner = stacked_executor(TASK, form=form)
    pairs = zip(nested_executor(LITERAL).train(above), nested_executor(inner).train(above), strict=True)
    for job, (a, b) in zip(above, pairs, strict=True):
        assert (a.task, a.client, a.weight, a.seconds) == (b.task, b.client, b.weight, b.seconds) and a.task == job.task
        assert b.stats["loss"] == pytest.approx(a.stats["loss"], rel=1e-3)
        for name, change in a.update.items():
            np.testing.assert_allclose(b.update[name], change, atol=1e-4 * float(np.abs(change).max()))


def test_edges_of_a_wave_may_make_different_numbers_of_averages_and_do_not_notice():
    def plan(visits):
        return [Turn(v.rows, (Sync(np.arange(len(v.rows)), v.rows, 2),) * (v.edge + 1)) for v in visits]

    algorithm = fedavg(lr=0.1, batch=4)
    above, _ = edges_of([[4, 6], [5], [3, 3]], EdgeRule("unlike", plan), algorithm)
    together = list(nested_executor(LITERAL).train(above))
    for job, one in zip(above, together, strict=True):
        alone = next(nested_executor(LITERAL).train([job]))
        assert content_hash(alone.update) == content_hash(one.update)
    assert [r.task for r in together] == [job.task for job in above]
    assert list(nested_executor(LITERAL).train([])) == []


def test_a_rule_may_say_what_its_edges_weigh():
    def plan(visits):
        return [Turn(v.rows, (Sync(np.arange(len(v.rows)), v.rows),), weight=2.5) for v in visits]

    algorithm = fedavg(lr=0.1, batch=4)
    above, _ = edges_of([[4, 6], [5]], EdgeRule("weighed", plan), algorithm)
    reports = list(nested_executor(LITERAL).train(above))
    assert [r.weight for r in reports] == [2.5, 2.5] and all(r.forwarded is None for r in reports)
    got, _ = at_the_server(reports, algorithm, TASK.init(0))
    for name, change in aggregation.finish(algorithm.fold, got).mean.items():
        middle = (reports[0].update[name] + reports[1].update[name]) / 2
        np.testing.assert_allclose(change, middle, atol=1e-7)


def test_an_executor_without_edges_says_that_it_has_none():
    above, _ = edges_of([[4]], hierfl(), fedavg())
    with pytest.raises(RunFailed, match=r"client 0, task 40: .* needs the nested executor"):
        list(LITERAL.train(above))


# ---- devices that spoil what they send: without torch -------------------------------------------------------------


def spoiling(bad):
    """`consensus`, in which the jobs that `bad` names answer with what is no number."""
    plain = consensus()

    def local(job, dataset):
        report = plain.local(job.client, {})(job, dataset)
        return replace(report, update={"w": np.full(4, np.nan, np.float32)}) if bad(job) else report

    return replace(plain, local=lambda client, settings: local)


def toy_reports(bad, *, kappa2=1, sizes=((2, 3, 4), (5, 6))):
    algorithm = spoiling(bad)
    above, below = edges_of([list(own) for own in sizes], hierfl(kappa2=kappa2), algorithm, offered=consensus_start())
    return list(nested_executor(opaque_executor()).train(above)), below, algorithm


def test_a_spoilt_report_is_refused_at_the_edge_and_the_others_count():
    reports, below, algorithm = toy_reports(lambda job: job.client == 1)
    assert [r.stats["refused"] for r in reports] == [1.0, 0.0]
    assert [r.weight for r in reports] == [2.0, 2.0]
    others = [r for r in opaque_executor().train(below()) if r.client != 1]
    got, rejected = at_the_server(reports, algorithm, consensus_start())
    assert rejected == () and same_sum(got, flat_sum(others, algorithm, consensus_start()))


def test_an_edge_without_one_good_report_is_refused_by_name():
    reports, below, algorithm = toy_reports(lambda job: job.client < 3)
    assert [r.stats["refused"] for r in reports] == [3.0, 0.0]
    got, rejected = at_the_server(reports, algorithm, consensus_start())
    assert [(r.task, r.client) for r in rejected] == [(40, 0)] and "not finite" in rejected[0].reason
    others = [r for r in opaque_executor().train(below()) if r.client >= 3]
    assert same_sum(got, flat_sum(others, algorithm, consensus_start()))


def test_a_spoilt_average_leaves_the_edges_model_where_it_was():
    clean, _, _ = toy_reports(lambda job: False, kappa2=1)
    first, _, _ = toy_reports(lambda job: job.task % MAX_SYNCS == 0, kappa2=2)
    for a, b in zip(clean, first, strict=True):
        np.testing.assert_allclose(a.update["w"], b.update["w"], atol=1e-7)
    assert [r.stats["refused"] for r in first] == [3.0, 2.0]


def toy_world(sizes):
    """Users without torch: user u holds sum(sizes[u]) rows."""
    rows = np.split(np.arange(100), np.cumsum([sum(own) for own in sizes]))
    data = DataSource(
        lambda user, split, round: rows[user] if split == "train" else rows[user][:0],
        lambda round: np.array([len(r) for r in rows[: len(sizes)]]), np.zeros(0, np.int64), np.zeros(0, np.int64),
    )  # fmt: skip
    keys = client_keys(len(sizes))
    devices = DeviceSource(lambda clients, cost, start, tasks: np.ones(len(clients)), ["toy"] * len(sizes))
    return World(keys, devices, always_on()(keys, 0), data)


def test_a_run_goes_on_without_the_user_whose_devices_all_spoil_and_its_memory_stays():
    sizes = [[2, 3, 4], [5, 6], [7]]
    owners = np.repeat(np.arange(3), [3, 2, 1])
    fleet = fleet_of(owners, lambda edge: np.repeat(np.arange(len(sizes[edge])), sizes[edge]))
    plan = plan_of(spoiling(lambda job: job.client < 3), hierfl(kappa2=2), fleet, consensus_start(), 3)
    events = []
    done = simulate(plan, toy_world(sizes), nested_executor(opaque_executor()), watch=events.extend)
    gathered = [e for e in events if isinstance(e, ReportsGathered)]
    assert len([e for e in events if isinstance(e, ModelCommitted)]) == len(gathered) == 3
    for event in gathered:
        assert [r.client for r in event.rejected] == [0]
        assert event.rejected[0].reason.startswith("client 0: leaf 'w' is not finite")
        assert len(event.tasks) == 2
    assert sorted(done.memory.current) == [1, 2], "what a refused user did has not happened"
    assert np.isfinite(done.state.server.params["w"]).all()


def test_how_long_a_user_took_is_what_its_turn_says():
    sizes = [[2, 30], [5, 6]]
    owners = np.repeat(np.arange(2), 2)
    fleet = fleet_of(owners, lambda edge: np.repeat(np.arange(2), sizes[edge]))
    plan = plan_of(consensus(model_bytes=1e6), hierfl(kappa2=3), fleet, consensus_start(), 2)
    events = []
    simulate(plan, toy_world(sizes), nested_executor(opaque_executor()), watch=events.extend)
    arrived = {(e.client): e.seconds for e in events if type(e).__name__ == "TaskArrived"}
    # Three averages: the model down in 4 s, 3 x 0.01 s for each row, the model up in 8 s; 8 s both ways to the server.
    assert arrived == pytest.approx({0: 16 + 3 * (12 + 0.9), 1: 16 + 3 * (12 + 0.18)})


def test_reports_are_records_that_other_runtimes_can_take():
    reports, _, algorithm = toy_reports(lambda job: False)
    for report in reports:
        assert isinstance(report, Report)
        kept = aggregation.load(algorithm.fold, ServerState(report.forwarded.like), aggregation.save(report.forwarded))
        assert same_sum(kept, report.forwarded)
        assert content_hash(aggregation.finish(algorithm.fold, kept).mean) == content_hash(report.update)
