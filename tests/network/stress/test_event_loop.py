"""Wake-ups are taken at once, and none is lost."""

import asyncio
import socket

import grpc

from fedfleet.network.stress.channels import Target, channel_to
from fedfleet.network.stress.event_loop import WakeOnceLoop, run
from tests.network.stress.echo import Echo


class PollerCompletionQueue:
    """What grpc.aio has under this name: it takes one byte a turn."""

    def __init__(self):
        self.mine, self.writer = socket.socketpair()
        self.turns = 0

    def handle(self):
        assert self.mine.recv(1)
        self.turns += 1


class Other(PollerCompletionQueue):
    """Something else that reads."""


async def turns_for(queue, count):
    loop = asyncio.get_running_loop()
    assert isinstance(loop, WakeOnceLoop)
    loop.add_reader(queue.mine, queue.handle)
    queue.writer.send(b"1" * count)
    await asyncio.sleep(0.02)
    turns = queue.turns
    queue.writer.send(b"1")
    await asyncio.sleep(0.02)
    loop.remove_reader(queue.mine)
    assert queue.turns == turns + 1  # the next is not lost
    queue.mine.close()
    queue.writer.close()
    return turns


def test_many_wake_ups_are_one_turn():
    assert run(turns_for(PollerCompletionQueue(), 50)) == 1
    assert run(turns_for(PollerCompletionQueue(), 1)) == 1
    assert run(turns_for(Other(), 5)) == 5


def test_grpc_has_the_queue_that_is_meant_and_all_calls_are_answered():
    from grpc._cython import cygrpc

    assert hasattr(cygrpc, "PollerCompletionQueue")

    async def calls():
        server, address = await Echo(10, 1, 4000).serve()
        async with channel_to(Target(address)) as channel:
            unknown = channel.unary_unary("/nobody/Nothing")

            async def ask():
                try:
                    await unknown(b"")
                except grpc.aio.AioRpcError as error:
                    return error.code()

            codes = await asyncio.gather(*(ask() for _ in range(200)))
        await server.stop(0)
        return set(codes)

    assert run(calls()) == {grpc.StatusCode.UNIMPLEMENTED}
