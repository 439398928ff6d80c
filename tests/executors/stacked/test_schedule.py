"""Schedules lay out the very batches that the literal loop walks through, and stacks hold like amounts of work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Job, Offer
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.executors.client_half import batches, prepare_job
from fedfleet.executors.stacked.schedule import chunks, plan_stage, step_counts
from fedfleet.learn.optimisers import sgd
from fedfleet.learn.zoo import fedavg
from tests.executors.cohorts import convolutions, jobs_of, small_task

pytestmark = pytest.mark.slow


def jobs_with(sizes, plan, steps=None):
    local, first, result = LocalPass(sgd(), plan), 0, []
    for i, n in enumerate(sizes):
        result.append(Job(50 + i, i, 1000 + i, 7, Offer({}), local, np.arange(first, first + n), (steps or {}).get(i, 0)))
        first += n
    return result


cohorts = given(
    sizes=st.lists(st.integers(1, 23), min_size=1, max_size=6),
    plan=st.builds(BatchPlan, st.integers(1, 9), st.integers(1, 3), st.none() | st.integers(1, 7)),
    partial=st.dictionaries(st.integers(0, 5), st.integers(1, 9), max_size=3),
    stage=st.integers(0, 2),
)


@settings(deadline=None, derandomize=True, max_examples=150)
@cohorts
def test_a_schedule_holds_the_batches_of_the_literal_loop_in_every_stage(sizes, plan, partial, stage):
    jobs = jobs_with(sizes, plan, partial)
    result = plan_stage(jobs, plan, stage)
    assert result.stage == stage
    for place, job in enumerate(result.jobs):
        assert job is jobs[result.order[place]]
        mine = [result.rows[t, place, :n].tolist() for t, n in enumerate(result.sizes[:, place]) if n]
        assert mine == [rows.tolist() for rows in batches(plan, job, stage)]
        padding = result.rows[:, place][result.sizes[:, place] > 0]
        assert np.isin(padding, job.rows).all()  # padding repeats a client's own samples


@settings(deadline=None, derandomize=True, max_examples=150)
@cohorts
def test_those_who_train_longest_come_first_and_those_still_training_are_a_prefix(sizes, plan, partial, stage):
    jobs = jobs_with(sizes, plan, partial)
    result = plan_stage(jobs, plan, stage)
    steps = step_counts(plan, jobs)
    assert steps.tolist() == [len(list(batches(plan, job))) for job in jobs]
    assert sorted(result.order.tolist()) == list(range(len(jobs)))
    assert (np.diff(steps[result.order]) <= 0).all()
    for t, active in enumerate(result.active):
        assert (result.sizes[t, :active] > 0).all()
        assert not result.sizes[t, active:].any()
    assert result.sample_slots == sum(result.active) * result.rows.shape[2] >= result.sizes.sum()
    assert 0.0 <= result.padding < 1.0
    assert result.sorted_already == (result.order.tolist() == list(range(len(jobs))))


def test_padding_is_little_for_shards_of_like_size():
    task = small_task(convolutions())
    algorithm = fedavg(lr=0.05, batch=8, epochs=1)
    jobs = jobs_of(task, algorithm, (64, 60, 58, 57))
    assert plan_stage(jobs, jobs[0].local.batches).padding < 0.1


def test_full_batches_need_no_padding():
    assert plan_stage(jobs_with((8, 16, 24), BatchPlan(4)), BatchPlan(4)).padding == 0.0


def test_equals_keep_their_order():
    jobs = jobs_with((8, 12, 8, 8), BatchPlan(4))
    assert plan_stage(jobs, BatchPlan(4)).order.tolist() == [1, 0, 2, 3]


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    most=st.integers(1, 5),
    left_out=st.sets(st.integers(0, 11)),
)
def test_chunks_hold_everyone_once_with_like_amounts_of_work(sizes, most, left_out):
    plan = BatchPlan(4, 2)
    group = [prepare_job(job) for job in jobs_with(sizes, plan)]
    places = [i for i in range(len(sizes)) if i not in left_out] or [0]
    result = list(chunks(group, places, most))
    assert sorted(i for part in result for i in part) == places
    assert all(len(part) == most for part in result[:-1])
    assert 1 <= len(result[-1]) <= most
    work = [sizes[i] for part in result for i in part]
    assert work == sorted(work, reverse=True)


def test_chunks_depend_on_the_amounts_of_work_and_not_on_the_order_of_the_group():
    plan = BatchPlan(4)
    group = [prepare_job(job) for job in jobs_with((5, 9, 30, 17, 2), plan)]
    clients = [[group[i].job.client for i in part] for part in chunks(group, range(5), 2)]
    backwards = group[::-1]
    assert [[backwards[i].job.client for i in part] for part in chunks(backwards, range(5), 2)] == clients


@pytest.mark.parametrize("steps", [None, 3])
def test_nobody_with_an_empty_shard_takes_a_step(steps):
    assert step_counts(BatchPlan(4, 2, steps), jobs_with((0, 5), BatchPlan(4, 2, steps))).tolist() == [0, steps or 4]


def test_more_steps_than_memory_holds_are_refused_before_they_are_laid_out():
    job = Job(1, 0, 7, 3, Offer({}), LocalPass(sgd(), BatchPlan(8), rate=0.1), np.arange(8))
    with pytest.raises(BadInput, match="a stack of 1 clients with 1,000,000,000,000 steps each would take about"):
        plan_stage([job], BatchPlan(8, steps=10**12))
