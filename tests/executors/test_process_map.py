"""Work in processes: the same results as here, and failures that are not lost."""

import os
import signal
import time

import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors.process_map import map_in_processes


def squared(n):
    return n * n, os.getpid()


def refused(n):
    raise BadInput(f"{n} is refused")


def vanished(n):
    os._exit(n)


def slept(seconds):
    time.sleep(seconds)
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_one_worker_works_here_and_in_order():
    assert list(map_in_processes(squared, [3, 1, 2], 1)) == [(n, (n * n, os.getpid())) for n in (3, 1, 2)]
    assert list(map_in_processes(squared, [], 4)) == []


def test_several_work_elsewhere():
    result = dict(map_in_processes(squared, [1, 2, 3], 2))
    assert {n: square for n, (square, _) in result.items()} == {1: 1, 2: 4, 3: 9}
    assert os.getpid() not in {process for _, process in result.values()}


def test_a_refusal_arrives_as_it_was_said():
    with pytest.raises(BadInput, match="is refused"):
        list(map_in_processes(refused, [1, 2], 2))


def test_a_worker_that_dies_is_told():
    with pytest.raises(RunFailed, match="fewer --workers"):
        list(map_in_processes(vanished, [3, 4], 2))


def test_an_interrupt_is_for_the_one_who_asked_and_waits_for_nobody():
    began, results = time.monotonic(), map_in_processes(slept, [0, 60], 2)
    assert next(results) == (0, True)  # deaf to Ctrl-C, which a terminal sends to all
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert time.monotonic() - began < 30
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
