"""Decodes and validates a report, before the server is asked whether it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedfleet.core.codec import Codec
from fedfleet.core.errors import Refused
from fedfleet.core.registry import builder
from fedfleet.core.stages import STAGES
from fedfleet.core.tensor_format import view_tree_and_array
from fedfleet.core.trees import Array, Tree, tree_nbytes
from fedfleet.network.frontend.partial_sums import FoldLayout, layout_from_json, refusal
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.security.sanitiser import clean_stats, printable
from fedfleet.network.server.options import FrontendConfig


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
        stats = clean_stats(head.stats, self._config.stats).kept
        stage_seconds = clean_stats(head.spent, STAGES).kept
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
    return DecodedReport(tree, nbytes, refusal(layout, tree, weight, flat_update) or "", flat_update)
