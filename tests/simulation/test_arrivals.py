"""Arrivals leave the queue in the order of time, as many at once as nothing else comes between."""

import heapq
import math

from fedfleet.simulation.arrivals import TASK_ENDS, Arrivals, take_arrivals

TIMER = 4


def queue_of(*entries):
    """A queue of waves, each given as (first task, times, whether all of its reports come), and of timers."""
    queue = []
    for entry in entries:
        if isinstance(entry, float):
            heapq.heappush(queue, (entry, TIMER, 0, None))
            continue
        first, times, plain = entry
        tasks = list(range(first, first + len(times)))
        item = Arrivals(times, tasks, [task + 100 for task in tasks], [1.0] * len(times), [2.0] * len(times), plain)
        heapq.heappush(queue, (times[0], TASK_ENDS, first, item))
    return queue


def taken(queue, running=range(100), count=100, limit=math.inf):
    arrivals = take_arrivals(queue, running, count, limit)
    return None if arrivals is None else list(zip(arrivals.times, arrivals.tasks, strict=True))


def test_waves_are_merged_by_time_and_then_by_their_first_task():
    queue = queue_of((5, [1.0, 3.0, 4.0], True), (0, [2.0, 3.0, 6.0], True))
    expected = [(1.0, 5), (2.0, 0), (3.0, 1), (3.0, 6), (4.0, 7), (6.0, 2)]
    assert taken(queue) == expected
    assert not queue


def test_nothing_is_taken_beyond_the_count_the_limit_or_another_entry():
    assert taken(queue_of((0, [1.0, 2.0, 3.0], True)), count=2) == [(1.0, 0), (2.0, 1)]
    assert taken(queue_of((0, [1.0, 2.0, 3.0], True)), limit=2.0) == [(1.0, 0)]
    queue = queue_of((0, [1.0, 2.0, 3.0], True), 2.5)
    assert taken(queue) == [(1.0, 0), (2.0, 1)]
    assert [entry[:2] for entry in sorted(queue, key=lambda e: e[:3])] == [(2.5, TIMER), (3.0, TASK_ENDS)]
    assert taken(queue) is None


def test_at_one_instant_a_task_ends_before_the_timer_fires():
    assert taken(queue_of((0, [1.0, 2.0], True), 2.0)) == [(1.0, 0), (2.0, 1)]


def test_tasks_that_do_not_run_any_more_are_passed_over():
    assert taken(queue_of((0, [1.0, 2.0, 3.0], True)), running={0, 2}) == [(1.0, 0), (3.0, 2)]
    assert taken(queue_of((0, [1.0, 2.0], True), 5.0), running={}) is None


def test_a_wave_in_which_something_goes_wrong_is_left_to_single_steps():
    queue = queue_of((0, [1.0, 4.0], True), (7, [2.0, 3.0], False))
    assert taken(queue) == [(1.0, 0)]
    assert queue[0][2] == 7
