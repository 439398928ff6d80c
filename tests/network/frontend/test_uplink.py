"""A frontend's messages to the server loop: one for what a moment brings, and each question gets its own answer."""

import asyncio
from types import SimpleNamespace

from fedfleet.network.frontend.uplink import Uplink
from fedfleet.network.protocol import inside_pb2 as inside


def play(script):
    """Run a script with an uplink, and the messages that it sent."""

    async def main():
        uplink, sent = Uplink(), []
        uplink.link = SimpleNamespace(send=sent.append)
        result = await script(uplink)
        await asyncio.sleep(0.03)
        return result, sent

    return asyncio.run(main())


def test_what_a_moment_brings_goes_in_one_message():
    async def script(uplink):
        uplink.record_call(3, 0.0)
        uplink.record_call(5, 60.0)
        uplink.record_departure(7)
        uplink.record_departure(7)

    _, sent = play(script)
    assert [(list(m.heard), list(m.heard_back), list(m.gone)) for m in sent] == [([3, 5], [0.0, 60.0], [7])]


def test_a_device_that_hangs_up_and_calls_again_is_not_reported_as_gone():
    async def script(uplink):
        uplink.record_departure(3)
        uplink.record_call(3, 0.0)

    _, (message,) = play(script)
    assert list(message.gone) == [] and list(message.heard) == [3]


def test_answers_reach_their_questions_in_any_order():
    async def script(uplink):
        def ask(out, number):
            out.asking.append(inside.Asking(number=number))

        first, second = (asyncio.create_task(uplink.ask_server(ask)) for _ in range(2))
        await asyncio.sleep(0)
        uplink.on_answers([inside.Told(number=2, json="b"), inside.Told(number=1, json="a"), inside.Told(number=9)])
        return [(await task).json for task in (first, second)]

    result, (message,) = play(script)
    assert result == ["a", "b"] and [a.number for a in message.asking] == [1, 2]


def test_a_claim_waits_for_its_grant():
    async def script(uplink):
        claim = asyncio.create_task(uplink.claim(inside.Claim(task=4), None, b""))
        await asyncio.sleep(0)
        (number,) = uplink.claims
        uplink.claims.pop(number).answer.set_result(inside.Grant(number=number, granted=True))
        return await claim

    grant, (message,) = play(script)
    assert grant.granted and [c.task for c in message.claims] == [4]
