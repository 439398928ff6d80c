"""The relay: bytes come out as they went in, at the rate and after the delay of the link, by a clock that the test owns."""

import asyncio
import heapq
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.network.pool.link import CREDIT_SECONDS, Link
from fedfleet.network.pool.relay import ClientRelay, forward


class VirtualClock:
    """Time that passes only when everybody sleeps."""

    def __init__(self):
        self.now, self._sleepers, self._order = 0.0, [], itertools.count()

    def time(self):
        return self.now

    async def sleep_until(self, moment):
        if moment <= self.now:
            return
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (moment, next(self._order), waiter))
        await waiter

    async def run(self, work):
        task = asyncio.ensure_future(work)
        while not task.done():
            for _ in range(10):
                await asyncio.sleep(0)
            if not task.done() and self._sleepers:
                moment, _, waiter = heapq.heappop(self._sleepers)
                self.now = max(self.now, moment)
                if not waiter.done():
                    waiter.set_result(None)
        return task.result()


def passed_through(link, data, pause=0.0):
    """What comes out of a link and when, if the data are there from the beginning, or after a pause before each piece."""
    clock, out, rest = VirtualClock(), [], [data]

    async def read(limit):
        if pause:
            await clock.sleep_until(clock.time() + pause)
        piece, rest[0] = rest[0][:limit], rest[0][limit:]
        return piece

    async def write(piece):
        out.append((clock.time(), piece))

    counted = []
    asyncio.run(clock.run(forward(read, write, link, clock, counted.append)))
    assert sum(counted) == len(data)
    return out


@settings(max_examples=25, deadline=None)
@given(st.floats(1e4, 1e7), st.floats(0.0, 0.5), st.integers(0, 40_000), st.sampled_from([0.0, 0.003]))
def test_bytes_come_out_whole_in_order_at_the_rate_after_the_delay(rate, delay, nbytes, pause):
    data = random.Random(nbytes).randbytes(nbytes)
    out = passed_through(Link(rate, delay), data, pause)
    assert b"".join(piece for _, piece in out) == data
    assert out[-1][1] == b""  # the end travels too
    total = 0
    for time, piece in out:
        total += len(piece)
        assert total <= (rate * (time - delay) + rate * CREDIT_SECONDS) * (1 + 1e-9) + 1e-6
    if not pause:
        ideal = max(0.0, nbytes / rate - CREDIT_SECONDS) + delay
        assert out[-1][0] == pytest.approx(ideal, abs=1e-6)


@pytest.mark.parametrize(("mbps", "seconds"), [(5, 2.1296), (25, 0.42592), (100, 0.10648)])
def test_a_model_takes_its_theoretical_time(mbps, seconds):
    """1.331 MB at the bandwidths at which FS-REAL was measured."""
    link = Link(mbps * 1e6 / 8, 0.05)
    out = passed_through(link, bytes(1_331_000))
    assert out[-1][0] == pytest.approx(seconds + 0.05 - CREDIT_SECONDS, rel=1e-6)


async def echo_server():
    async def echo(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()


def test_real_sockets_pass_bytes_both_ways_and_are_counted():
    async def talk():
        server, address = await echo_server()
        relay = ClientRelay(address, Link(4e6, 0.001), Link(4e6, 0.001))
        await relay.listen()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        data = random.Random(1).randbytes(300_000)
        writer.write(data)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(-1), 60) == data
        assert (relay.bytes_up, relay.bytes_down) == (len(data), len(data))
        writer.close()
        server.close()

    asyncio.run(talk())


async def is_cut(reader):
    """Whether a connection ends, by an error or without one."""
    try:
        return await asyncio.wait_for(reader.read(1), 60) == b""
    except ConnectionError:
        return True


def test_a_cut_link_loses_its_connections_and_takes_none_until_it_is_mended():
    async def talk():
        server, address = await echo_server()
        relay = ClientRelay(address, Link(), Link())
        await relay.listen()

        async def answered():
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"x")
            try:
                return await asyncio.wait_for(reader.read(1), 60) == b"x", reader, writer
            except ConnectionError:
                return False, reader, writer

        good, reader, writer = await answered()
        assert good
        relay.set_online(False)
        assert await is_cut(reader)
        assert not (await answered())[0]
        relay.set_online(True)
        assert (await answered())[0]
        writer.close()
        server.close()

    asyncio.run(talk())


def test_a_server_that_is_not_there_ends_the_connection():
    async def talk():
        server, address = await echo_server()
        server.close()
        await server.wait_closed()
        relay = ClientRelay(address, Link(), Link())
        await relay.listen()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        assert await is_cut(reader)
        writer.close()

    asyncio.run(talk())
