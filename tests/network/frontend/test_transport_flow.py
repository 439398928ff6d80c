"""The pace of one transport."""

import asyncio

import pytest

from fedfleet.network.frontend.transport_flow import TransportFlow


class Transport:
    """What a flow asks of a transport, written down."""

    def __init__(self):
        self.calls, self.closing = [], False

    def set_write_buffer_limits(self, high, low):
        self.calls.append((high, low))

    def is_closing(self):
        return self.closing

    def pause_reading(self):
        self.calls.append("pause")

    def resume_reading(self):
        self.calls.append("resume")


def flow():
    transport, result = Transport(), TransportFlow()
    result.start(transport)
    assert transport.calls.pop() == (1, 0)  # every byte that has not left counts
    return transport, result


def test_reading_is_paused_once_and_resumed_once():
    transport, one = flow()
    one.resume_reading()
    one.pause_reading()
    one.pause_reading()
    one.resume_reading()
    one.resume_reading()
    assert transport.calls == ["pause", "resume"]


def test_a_transport_that_closes_is_told_nothing_more():
    transport, one = flow()
    one.pause_reading()
    transport.closing = True
    one.resume_reading()
    one.pause_reading()
    assert transport.calls == ["pause"]


@pytest.mark.parametrize("lost", [False, True])
def test_who_flushes_waits_until_all_has_left_or_never_will(lost):
    async def act():
        _, one = flow()
        one.pause_writing()
        assert one.write_paused
        waiting = asyncio.create_task(one.flush())
        await asyncio.sleep(0)
        assert not waiting.done()
        if lost:
            one.stop()
            with pytest.raises(ConnectionResetError, match="hung up"):
                await asyncio.wait_for(waiting, 60)
        else:
            one.resume_writing()
            assert not one.write_paused
            await asyncio.wait_for(waiting, 60)
        one.resume_writing()  # nobody waits any more
        one.stop()

    asyncio.run(act())
