"""The body of a request while it comes."""

import asyncio

from fedfleet.network.frontend.http_body import RequestBody
from fedfleet.network.frontend.refusals import Malformed, TooSlow


def test_pieces_are_taken_in_their_order_and_counted_while_they_are_here():
    body = RequestBody(6)
    body.add(b"abc")
    body.add(b"def")
    assert (body.held, body.content(), body.held) == (6, b"abcdef", 6)
    assert (body.take(), body.held) == (b"abc", 3)
    assert (body.take(), body.held, body.take()) == (b"def", 0, None)
    assert body.content() == b""


def test_what_is_dropped_is_counted_once():
    body = RequestBody(3)
    body.add(b"abc")
    assert (body.clear(), body.clear(), body.held, body.take()) == (3, 0, 0, None)


def test_the_first_failure_stays():
    body, first = RequestBody(3), TooSlow("too slow")
    body.fail(first)
    body.fail(Malformed("odd"))
    assert body.failure is first and not body.is_complete


def test_who_waits_is_woken_by_a_piece_the_end_and_a_failure():
    async def wait_for(act):
        body = RequestBody(3)
        waiting = asyncio.create_task(body.change())
        await asyncio.sleep(0)
        assert not waiting.done()
        act(body)
        act(body)  # twice: nobody waits any more
        await asyncio.wait_for(waiting, 60)
        return body

    assert asyncio.run(wait_for(lambda body: body.add(b"abc"))).held == 6
    assert asyncio.run(wait_for(RequestBody.complete)).is_complete
    assert asyncio.run(wait_for(lambda body: body.fail(TooSlow("x")))).failure is not None
