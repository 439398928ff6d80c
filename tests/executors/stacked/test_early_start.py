"""Training that begins early gives what training gives; begun in vain it leaves nothing behind."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.aggregation import finish
from fedfleet.core.errors import RunFailed
from fedfleet.core.records import Context, ServerState
from fedfleet.core.trees import content_hash
from fedfleet.executors.stacked.device_fold import fold_jobs
from fedfleet.executors.stacked.early_start import begin, take_stacks
from fedfleet.executors.stacked.placement import open_place
from fedfleet.learn.zoo import fedavg
from tests.executors.cohorts import SMALL, jobs_of, small_task, smooth

ALGORITHM = fedavg(**SMALL)


def open_small():
    task = small_task(smooth())
    return task, open_place(task, device="cpu", threads=1, form="merged", tf32=False, graphs=False)


def folded_bits(task, place, jobs, stacks):
    contexts = [Context(0, 1.0, job.client) for job in jobs]
    result = fold_jobs(place, jobs, contexts, ALGORITHM.fold, ServerState(task.init(0)), None, stacks)
    aggregate = finish(ALGORITHM.fold, result.accumulator)
    assert aggregate is not None
    return content_hash(aggregate.mean), result.tasks.tolist()


def test_stacks_begun_early_are_folded_as_others_and_counted_once():
    task, place = open_small()
    jobs = jobs_of(task, ALGORITHM, (5, 3, 8))
    wanted, counted = folded_bits(task, place, jobs, None), (place.real, place.computed)
    place.real = place.computed = 0
    early = begin(place, jobs)
    assert early is not None and place.real > 0
    assert folded_bits(task, place, jobs, take_stacks(place, early, jobs)) == wanted
    assert (place.real, place.computed) == counted


def test_what_was_begun_for_others_is_dropped():
    task, place = open_small()
    first, second = jobs_of(task, ALGORITHM, (5, 3)), jobs_of(task, ALGORITHM, (4, 4, 4))
    early = begin(place, first)
    assert folded_bits(task, place, second, take_stacks(place, early, second)) == folded_bits(task, open_small()[1], second, None)
    assert place.real == 3 * 2 * 4, "two epochs of the second only"


def test_what_fails_early_fails_again_when_it_is_folded():
    task, place = open_small()
    jobs = jobs_of(task, ALGORITHM, (5, 3))
    jobs[1] = replace(jobs[1], rows=np.zeros(0, np.int64))
    assert begin(place, jobs) is None and place.real == 0
    with pytest.raises(RunFailed, match="client 1"):
        folded_bits(task, place, jobs, take_stacks(place, None, jobs))
