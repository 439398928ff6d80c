"""Where runs meet: all wait for all who are still there, nobody waits for who has left, and nobody hangs."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Dataset
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.executors import joint_runs as module
from fedfleet.executors.joint_runs import JointRunStop, JointTraining, joint_executor, same_work
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.optimisers import sgd
from fedfleet.tasks.digits import digits_cnn, digits_logreg, digits_mlp
from tests.executors.cohorts import jobs_with

LOCAL = LocalPass(sgd(), BatchPlan(5, epochs=1), rate=0.1)
PATIENCE = 20.0


def meet(*runs):
    """Let these functions of (meeting, seat) meet; what each returned or raised, and the meeting."""
    meeting = JointTraining()
    seats, result = [meeting.add_run() for _ in runs], [None] * len(runs)

    def one(i):
        try:
            result[i] = runs[i](meeting, seats[i])
        except BaseException as error:
            result[i] = error
        finally:
            meeting.leave(seats[i])

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(len(runs))]
    for thread in threads:
        thread.start()
    server = threading.Thread(target=meeting.serve, daemon=True)
    server.start()
    for thread in (*threads, server):
        thread.join(PATIENCE)
        assert not thread.is_alive(), "somebody hangs"
    return result, meeting


def trains(task, seed, times, fails=None):
    """A run that trains so often; fails in between where it is told to."""

    def run(meeting, seat):
        execute, ends = joint_executor(task, meeting, seat), []
        for turn in range(times):
            if turn == fails:
                raise RunFailed("its world ended")
            jobs = [replace(job, seed=seed + turn) for job in jobs_with(task, LOCAL, (7, 12, 5))]
            ends += execute.train(jobs)
        return ends

    return run


def alone(task, seed, times):
    execute = stacked_executor(task, form="merged")
    jobs = [[replace(job, seed=seed + t) for job in jobs_with(task, LOCAL, (7, 12, 5))] for t in range(times)]
    return [report for own in jobs for report in execute.train(own)]


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x.update[n], y.update[n]) for x, y in zip(a, b, strict=True) for n in x.update)


def test_runs_of_unlike_length_and_one_that_fails_end_as_alone():
    task = digits_logreg()
    result, meeting = meet(trains(task(0), 10, 4), trains(task(1), 20, 2), trains(task(2), 30, 3, fails=1), trains(task(3), 40, 0))
    assert same(result[0], alone(task(0), 10, 4)) and same(result[1], alone(task(1), 20, 2))
    assert isinstance(result[2], RunFailed) and result[3] == []
    assert (meeting.turns, meeting.trained) == (4, 7), "they met whenever all who were left waited"


def test_who_has_another_task_trains_alone_and_nobody_waits_for_it():
    one, other = digits_logreg()(0), digits_mlp()(0)
    result, meeting = meet(trains(one, 10, 2), trains(one, 20, 2), trains(digits_cnn()(0), 30, 1))
    assert same(result[0], alone(one, 10, 2)) and same(result[1], alone(one, 20, 2))
    assert same(result[2], alone(digits_cnn()(0), 30, 1))
    assert meeting.trained == 4
    assert not same_work(one, other) and not same_work(digits_mlp(32)(0), other)
    assert same_work(one, digits_logreg()(5)), "what is held out may differ"
    wrong = Dataset(one.dataset.x, (one.dataset.y + 1) % 10, 10)
    assert not same_work(one, replace(one, dataset=wrong)), "labels that somebody changed"


def test_what_goes_wrong_in_one_runs_training_is_raised_there_alone(monkeypatch):
    task, train = digits_logreg()(0), module.train_parts

    def picky(where, parts, known):
        ended = train(where, parts, known)
        bad = [part.group[0].job.seed >= 20 for part in parts]
        return [RunFailed("client 3 cannot") if b else end for b, end in zip(bad, ended, strict=True)]

    monkeypatch.setattr(module, "train_parts", picky)
    result, _ = meet(trains(task, 10, 2), trains(task, 20, 2))
    assert same(result[0], alone(task, 10, 2))
    assert isinstance(result[1], RunFailed) and "client 3" in str(result[1])


def test_a_meeting_that_is_closed_sends_everybody_home():
    task = digits_logreg()(0)

    def closes(meeting, seat):
        del seat
        meeting.close()
        with pytest.raises(JointRunStop):
            meeting.check_open()

    result, _ = meet(trains(task, 10, 3), trains(task, 20, 3), closes)
    assert isinstance(result[0], JointRunStop) and isinstance(result[1], JointRunStop) and result[2] is None
