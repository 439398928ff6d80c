"""A frontend's side of the link to the server: what is to be said gathers in one message, and questions wait for their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fedfleet.network.frontend.report_decoder import DecodedReport
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.process_link import Link

# Between two messages to the server: each costs both a turn, and the journal a sync, whatever it holds. Longer where reports come
# so fast that a message holds several.
_GATHER_SECONDS, _BUSY_SECONDS = 0.004, 0.01


@dataclass(slots=True)
class PendingClaim:
    """A report that waits for the server's decision."""

    claim: inside.Claim
    report: DecodedReport
    payload: memoryview | bytes
    answer: asyncio.Future[inside.Grant]


class Uplink:
    """Messages to the server: one a turn of the loop, and under load one for what a few milliseconds bring."""

    def __init__(self) -> None:
        self.link: Link[inside.ToTransmitter] | None = None
        self.claims: dict[int, PendingClaim] = {}
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._last_number = 0
        self._outbox = inside.ToProcessor()
        self._departed: set[int] = set()  # clients that are gone, in the message that goes out next
        self._scheduled, self._send_interval = False, _GATHER_SECONDS
        self.sent_at = 0.0

    def outbox(self) -> inside.ToProcessor:
        """The message that goes out next."""
        if not self._scheduled:
            self._scheduled = True
            loop = asyncio.get_running_loop()
            wait = self.sent_at + self._send_interval - loop.time()
            if wait <= 0:
                loop.call_soon(self._send)
            else:
                loop.call_later(wait, self._send)
        return self._outbox

    def _send(self) -> None:
        self._scheduled = False
        self.sent_at = asyncio.get_running_loop().time()
        out, self._outbox = self._outbox, inside.ToProcessor()
        self._send_interval = _BUSY_SECONDS if len(out.claims) > 1 else _GATHER_SECONDS
        self._departed.clear()
        if self.link is not None:
            self.link.send(out)

    def record_call(self, client: int, return_seconds: float) -> None:
        """A device called; `return_seconds` is when it was told to come back, 0 while its call is held."""
        out = self.outbox()
        if client in self._departed:  # it hung up, and is here again
            self._departed.discard(client)
            out.gone.remove(client)
        out.heard.append(client)
        out.heard_back.append(return_seconds)

    def record_departure(self, client: int) -> None:
        """A device hung up or left."""
        if client not in self._departed:
            self._departed.add(client)
            self.outbox().gone.append(client)

    async def claim(self, claim: inside.Claim, report: DecodedReport, payload: memoryview | bytes) -> inside.Grant:
        """The server's decision on a report; if it was granted, the report is safe when this returns."""
        self._last_number += 1
        claim.number = self._last_number
        pending = PendingClaim(claim, report, payload, asyncio.get_running_loop().create_future())
        self.claims[claim.number] = pending
        self.outbox().claims.append(claim)
        return await pending.answer

    async def ask_server(self, fill: Callable[[inside.ToProcessor, int], None]) -> Any:
        """The server's answer to a question that only it can answer; `fill` adds the question with its number."""
        self._last_number += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[self._last_number] = answer
        fill(self.outbox(), self._last_number)
        return await answer

    def on_answers(self, answers: Iterable[inside.Enrolled | inside.Told]) -> None:
        """The server answered questions."""
        for answer in answers:
            question = self._questions.pop(answer.number, None)
            if question is not None and not question.done():
                question.set_result(answer)
