"""A report becomes a claim: it is decoded and validated here, and the server decides whether it is wanted.

The uplink is a frontend's end of the link to the server: what is to be said gathers in one message, and questions wait for their
answers. Of statistics, those that were declared, are finite and have a plain name are kept, sixteen at most; the others are
dropped: a report is worth more than a stray number in it.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedfleet.core.codec import Codec
from fedfleet.core.errors import Refused, printable
from fedfleet.core.registry import builder
from fedfleet.core.stages import STAGES
from fedfleet.core.tensor_format import view_tree_and_array
from fedfleet.core.trees import Array, Tree, tree_nbytes
from fedfleet.network.frontend.partial_sums import FoldLayout, layout_from_json, refusal
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import MOST_STATS
from fedfleet.network.protocol.process_link import Link
from fedfleet.network.server.options import FrontendConfig


def clean_stats(stats: Mapping[str, float], declared: Collection[str] | None = None) -> dict[str, float]:
    """What is kept of a report's statistics: `declared` names (None: any), finite, sixteen at most, the first by name.

    >>> clean_stats({"loss": 0.5, "Loss!": 1.0, "norm": float("inf")})
    {'loss': 0.5}
    """
    names = sorted(
        name
        for name, value in stats.items()
        if (declared is None or name in declared) and math.isfinite(value) and _STAT_NAME.fullmatch(name)
    )[:MOST_STATS]
    return {name: stats[name] for name in names}


class DecodedReport(NamedTuple):
    """A report's update, and how many bytes that is; or why it cannot be folded.

    `flat_update` is the update as one array, leaf after leaf by name, where it came so.
    """

    tree: Tree
    nbytes: int
    fault: str = ""
    flat_update: Array | None = None


EMPTY_REPORT = DecodedReport({}, 0)


def codec_recipe(codec: Codec) -> list[dict[str, Any]]:
    """A codec as names and settings, from which another process makes it again."""
    return [{"use": part.name, **dict(part.settings)} for part in (codec.parts or (codec,))]


def codec_from(recipe: Sequence[dict[str, Any]]) -> Codec:
    """The inverse of `codec_recipe`."""
    from fedfleet.learn.codecs.chain import chain

    parts = [builder("codecs", part["use"])(**{n: v for n, v in part.items() if n != "use"}) for part in recipe]
    codec = chain(parts)
    assert codec is not None
    return codec


class ReportDecoder:
    """Knows what reports must look like, and in which code each client sends them."""

    def __init__(self, config: FrontendConfig) -> None:
        self._config = config
        self.layout = layout_from_json(config.sheet)
        self._codecs: list[Codec | None] = [None, *map(codec_from, config.codecs)]
        self._codec_of = {client: codec_index for client, codec_index in config.codec_of}  # noqa: C416 - lists, as JSON has them

    def decode(self, client: int, head: pb.Report, payload: memoryview) -> tuple[inside.Claim, DecodedReport]:
        """What a report claims to be, and what is in it.

        Also of a task that is not queued here: it may have been granted, lost with its frontend, and be welcome again.
        """
        stats = clean_stats(head.stats, self._config.stats)
        stage_seconds = clean_stats(head.spent, STAGES)
        claim = inside.Claim(
            client=client, task=head.task, nonce=head.nonce, nbytes=head.nbytes, crc32c=head.crc32c, weight=head.weight,
            names=[*stats, *stage_seconds], values=[*stats.values(), *stage_seconds.values()], stats=len(stats),
            declined=printable(head.declined), kind=head.kind, correct=head.correct, total=head.total, loss=head.loss,
        )  # fmt: skip
        if head.kind != pb.TRAIN or head.declined:
            return claim, EMPTY_REPORT
        codec = self._codecs[self._codec_of.get(client, 0)]
        report = decode_report(self.layout, codec, payload, head.weight, check=self._config.stream)
        claim.fault, claim.decoded_nbytes = printable(report.fault), report.nbytes
        return claim, report


def decode_report(
    layout: FoldLayout, codec: Codec | None, payload: memoryview, weight: float, *, check: bool = True
) -> DecodedReport:
    """Decode a report and check it as a fold would; without `check` that is left to the fold, which decodes by itself."""
    if not check:
        return DecodedReport({}, len(payload))
    try:
        if codec is None:
            tree, flat_update = view_tree_and_array(payload) if len(payload) else ({}, None)
        else:
            from fedfleet.learn.codecs.messages import decode_bytes

            tree, flat_update = decode_bytes(codec, bytes(payload), layout.like), None
    except Refused as error:
        return DecodedReport({}, len(payload), str(error))
    nbytes = tree_nbytes(tree) if codec is None else len(payload)
    # What a report counts at most is the server's affair, which may let it count less than it claims.
    claimed = min(weight, layout.total_weight) if weight < math.inf else weight
    return DecodedReport(tree, nbytes, refusal(layout, tree, claimed, flat_update) or "", flat_update)


_STAT_NAME = re.compile(r"[a-z][a-z0-9_./]{0,31}")
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
