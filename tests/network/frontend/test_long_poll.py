import asyncio

import pytest

from fedfleet.network.frontend.long_poll import hold_call, wake


def held(play):
    """What a play on a line leaves: who waits still, and who was said to be gone."""

    async def run():
        waiters, gone = {}, []
        await asyncio.wait_for(play(waiters, gone), 5)
        return waiters, gone

    return asyncio.run(run())


def test_who_is_woken_goes_on():
    async def play(waiters, gone):
        call = asyncio.create_task(hold_call(waiters, 7, 60.0, gone.append))
        await asyncio.sleep(0)
        assert list(waiters) == [7]
        wake(waiters, 8)
        await asyncio.sleep(0)
        assert not call.done()
        wake(waiters, 7)
        await call

    assert held(play) == ({}, [])


def test_time_ends_the_wait():
    async def play(waiters, gone):
        await hold_call(waiters, 7, 0.01, gone.append)

    assert held(play) == ({}, [])


def test_who_hangs_up_is_gone():
    async def play(waiters, gone):
        call = asyncio.create_task(hold_call(waiters, 7, 60.0, gone.append))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert held(play) == ({}, [7])


def test_a_second_call_of_a_client_takes_the_line_over():
    async def play(waiters, gone):
        first = asyncio.create_task(hold_call(waiters, 7, 60.0, gone.append))
        await asyncio.sleep(0)
        second = asyncio.create_task(hold_call(waiters, 7, 60.0, gone.append))
        await asyncio.sleep(0)
        first.cancel()  # its end says nothing about the device, which is on the other
        await asyncio.gather(first, return_exceptions=True)
        assert (list(waiters), gone) == ([7], [])
        wake(waiters, 7)
        await second

    assert held(play) == ({}, [])
