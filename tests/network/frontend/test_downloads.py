import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.network.frontend.downloads import DownloadGate


class Call:
    """A call that ends when it is told to."""

    def __init__(self):
        self.after = []

    def add_done_callback(self, callback):
        self.after.append(callback)

    def end(self):
        for callback in self.after:
            callback(self)


def test_what_fits_passes_at_once_and_the_rest_in_the_order_of_its_coming():
    async def run():
        gate, calls, passed = DownloadGate(100), [Call() for _ in range(4)], []

        async def one(i):
            await gate.acquire(50, calls[i])
            passed.append(i)

        tasks = [asyncio.create_task(one(i)) for i in range(4)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (passed, gate.nbytes) == ([0, 1], 100)
        for i in range(4):
            calls[i].end()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert (passed, gate.nbytes) == ([0, 1, 2, 3], 0)
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_one_that_is_larger_than_the_gate_passes_alone():
    async def run():
        gate, large, small = DownloadGate(10), Call(), Call()
        await gate.acquire(1000, large)
        waiting = asyncio.create_task(gate.acquire(1, small))
        await asyncio.sleep(0)
        assert not waiting.done()
        large.end()
        await waiting
        assert gate.nbytes == 1

    asyncio.run(run())


def test_a_call_that_ends_in_line_takes_no_room():
    async def run():
        gate, first, second = DownloadGate(10), Call(), Call()
        await gate.acquire(10, first)
        waiting = asyncio.create_task(gate.acquire(10, second))
        await asyncio.sleep(0)
        second.end()
        first.end()
        await waiting
        assert gate.nbytes == 0

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["end", "cancel", "both"])), max_size=30), st.randoms())
def test_nothing_is_lost_or_kept_whatever_becomes_of_the_calls(asked, random):
    async def run():
        gate, calls, tasks = DownloadGate(50), [], []
        for nbytes, _ in asked:
            call = Call()
            calls.append(call)
            tasks.append(asyncio.create_task(gate.acquire(nbytes, call)))
            await asyncio.sleep(0)
            assert gate.nbytes <= 50
        order = list(range(len(asked)))
        random.shuffle(order)
        for i in order:
            if asked[i][1] != "end":
                tasks[i].cancel()
            await asyncio.sleep(0)
            calls[i].end()  # gRPC tells of the end of cancelled calls too
            await asyncio.sleep(0)
            assert gate.nbytes <= 50
        await asyncio.gather(*tasks, return_exceptions=True)
        assert gate.nbytes == 0

    asyncio.run(run())
