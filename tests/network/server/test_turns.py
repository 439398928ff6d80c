"""Turns come when there is work, one for all that was scheduled; what fails in them or in the background fails the run.

What the coordinator decides is in the journal in the order of time, and is flushed once a turn at most.
"""

import asyncio

import pytest

from fedfleet.core.events import Evaluated
from fedfleet.engine.coordinator import begin
from fedfleet.engine.state import Phase
from fedfleet.network.server.turns import JournaledRun, Turns
from tests.network.toys import Toy, plan_of


def play(script):
    """Run a script of the test with the turns of a loop, and what each turn did."""

    async def main():
        done_in_turns = []
        turns = Turns(lambda: (turns.do_scheduled(), done_in_turns.append(len(done_in_turns))), at=100.0)
        turns.done = asyncio.get_running_loop().create_future()
        try:
            return await script(turns, done_in_turns)
        finally:
            turns.close()

    return asyncio.run(main())


def test_one_turn_does_all_that_was_scheduled_in_order():
    async def script(turns, done_in_turns):
        order = []
        for name in "abc":
            turns.schedule(lambda name=name: order.append(name))
        await asyncio.sleep(0.01)
        return order, done_in_turns

    assert play(script) == (["a", "b", "c"], [0])


def test_the_clock_goes_on_where_the_run_was():
    async def script(turns, done_in_turns):
        return turns.elapsed()

    assert 100.0 <= play(script) < 101.0


def test_a_later_time_replaces_an_earlier_one():
    async def script(turns, done_in_turns):
        turns.schedule_in(0.0)
        turns.schedule_in(30.0)
        await asyncio.sleep(0.02)
        return done_in_turns

    assert play(script) == []


@pytest.mark.parametrize("where", ["turn", "background"])
def test_a_failure_fails_the_run_and_ends_its_turns(where):
    async def fails():
        raise ValueError("the disk is full")

    async def script(turns, done_in_turns):
        if where == "turn":
            turns.schedule(lambda: 1 / 0)
        else:
            turns.run_in_background(fails())
        with pytest.raises((ValueError, ZeroDivisionError)):
            await turns.done
        before = len(done_in_turns)
        turns.schedule()
        await asyncio.sleep(0.01)
        return len(done_in_turns) - before

    assert play(script) == 0


class Pages:
    """A journal that remembers what was written, and how often it was made durable."""

    def __init__(self):
        self.rows, self.remarks, self.flushes = [], [], 0

    def append(self, events):
        self.rows += events

    def remark(self, text):
        self.remarks.append(text)

    def flush(self):
        self.flushes += 1


@pytest.fixture
def run():
    plan, pages = plan_of(Toy()), Pages()
    run = JournaledRun(plan, pages, begin(plan).state, [])
    run.pages = pages
    return run


def first_score(time=0.0):
    return Evaluated(time, 0, 1, 2, 0.5)


def test_facts_are_journalled_with_their_outcomes_and_passed_on(run):
    heard = []
    run.listeners.append(heard.extend)
    outcomes, commands = run.react(first_score())
    assert run.pages.rows == [first_score(), *outcomes] == heard
    assert commands and run.state.phase is Phase.OPEN


def test_time_never_falls(run):
    run.state = run.state._replace(book=run.state.book._replace(now=5.0))
    run.react(first_score(3.0))
    assert run.pages.rows[0].time == 5.0


def test_facts_wait_for_their_turn_and_none_comes_after_the_end(run):
    run.react_later(first_score())
    run.react_later(first_score(1.0))
    assert run.next_fact() == first_score()
    run.state = run.state._replace(phase=Phase.DONE)
    assert run.next_fact() is None


def test_a_wake_up_is_taken_once_when_it_is_due(run):
    run.wake_at = 10.0
    assert run.take_wake(9.0) is None
    assert (run.take_wake(11.0), run.take_wake(12.0)) == (10.0, None)


def test_only_what_is_new_is_flushed(run):
    run.flush()
    run.note("patience ended")
    run.flush()
    run.flush()
    assert (run.pages.flushes, run.pages.remarks) == (1, ["patience ended"])
