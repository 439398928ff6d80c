"""Turns come when there is work, one for all that was scheduled; what fails in them or in the background fails the run."""

import asyncio

import pytest

from fedfleet.network.server.turn_scheduler import Turns


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
