"""Virtual time: what is trained, what is not, and that values can decide the price."""

from dataclasses import replace

import numpy as np

from fedfleet.core.events import Evaluated, ModelCommitted, TaskArrived, TasksDropped
from fedfleet.core.parts import Executor
from fedfleet.core.records import Report, Stop
from fedfleet.executors.gather import fold_in_order
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.testing.toys import consensus, opaque_executor
from tests.worlds import even_fleet, events_of, only, toy_plan, world_of


def counting_executor():
    """The toy executor, and the tasks that it really trained."""
    inner, trained = opaque_executor(), []

    def train(jobs):
        trained.extend(job.task for job in jobs)
        return inner.train(jobs)

    return Executor("counting", train, inner.evaluate), trained


def test_stragglers_that_are_dropped_cost_no_training():
    fleet = even_fleet(6, [1.0, 1.0, 1.0, 1.0, 500.0, 500.0])
    execute, trained = counting_executor()
    log = []
    plan = toy_plan(deadline(6, seconds=10.0, t_break=1.0), 6)
    simulate(plan, world_of(fleet), execute, watch=log.extend)
    dropped = {int(t) for e in only(TasksDropped, log) for t in e.tasks}
    assert dropped
    assert not dropped & set(trained)
    execute, trained = counting_executor()
    simulate(plan, world_of(fleet), execute, eager=True)
    assert dropped <= set(trained), "eager trains whatever is sent"


def test_bytes_that_depend_on_values_decide_when_a_task_is_back():
    toy = consensus()

    def local(job, dataset):
        report = toy.local(0, {})(job, dataset)
        return Report(report.task, report.client, report.update, 1.0, report.stats, bytes_up=1000.0 * (1 + job.client))

    priced = replace(toy, local=lambda client, settings: local, priced_by_value=True)
    fleet = even_fleet(3)
    world = world_of(fleet)
    slow_link = replace(world.devices, seconds=lambda clients, cost, start, tasks: cost.bytes_up / 100.0)
    log, _ = events_of(toy_plan(readiness(3), 3, algorithm=priced), replace(world, devices=slow_link))
    for event in only(TaskArrived, log):
        assert event.bytes_up == 1000.0 * (1 + event.client)
        assert event.seconds == 10.0 * (1 + event.client)


def test_the_clock_of_a_run_starts_at_zero_and_every_curve_has_a_start():
    log, _ = events_of(toy_plan(readiness(3), 3), world_of(even_fleet(3)))
    first = next(e for e in log if isinstance(e, Evaluated))
    assert (first.time, first.version) == (0.0, 0)


def test_evaluations_follow_their_interval_and_the_end():
    plan = toy_plan(readiness(3), 3, stop=Stop(rounds=7, evaluate_every=3))
    log, _ = events_of(plan, world_of(even_fleet(3)))
    assert [e.version for e in only(Evaluated, log)] == [0, 3, 6, 7]
    assert len(only(ModelCommitted, log)) == 7


def test_a_declared_model_size_scales_every_byte():
    plan = toy_plan(readiness(3), 3)
    plain, _ = events_of(plan, world_of(even_fleet(3)))
    scaled, _ = events_of(replace(plan, byte_scale=8.0), world_of(even_fleet(3)))
    ratio = np.array([b.bytes_up / a.bytes_up for a, b in zip(only(TaskArrived, plain), only(TaskArrived, scaled), strict=True)])
    assert (ratio == 8.0).all()


def early_executor(log):
    """The toy executor as one that adds up in place and can begin early."""
    inner = opaque_executor()

    def fold(jobs, contexts, rule, server, decode=None, /):
        log.append(("fold", jobs))
        return fold_in_order(rule, server, inner.train(jobs), contexts)

    return replace(inner, fold=fold, begin=lambda jobs: log.append(("begin", jobs)))


def test_a_wave_after_one_that_was_folded_whole_is_begun_when_it_is_sent_and_folded_from_the_same_jobs():
    fleet, plan = even_fleet(3), toy_plan(readiness(3), 3)
    wanted, _ = events_of(plan, world_of(fleet))
    calls, log = [], []
    simulate(plan, world_of(fleet), early_executor(calls), watch=log.extend)
    assert len(calls) > 3 and [kind for kind, _ in calls] == ["fold", *["begin", "fold"] * (len(calls) // 2)]
    assert all(begun is folded for (_, begun), (_, folded) in zip(calls[1::2], calls[2::2], strict=True))
    assert [repr(e) for e in log] == [repr(e) for e in wanted]


def test_where_stragglers_are_dropped_nothing_is_begun_early():
    fleet, calls = even_fleet(6, [1.0, 1.0, 1.0, 1.0, 500.0, 500.0]), []
    simulate(toy_plan(deadline(6, seconds=10.0, t_break=1.0), 6), world_of(fleet), early_executor(calls))
    assert {kind for kind, _ in calls} == {"fold"}
