"""One piece of work on a device: from what the server asks for to the report that goes up. Torch is loaded here, and not before."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedfleet.core.container import unpacked
from fedfleet.core.errors import FedFleetError, Refused
from fedfleet.core.records import Score
from fedfleet.core.trees import Tree
from fedfleet.network.device.caps import Caps, steps_of, too_large, too_long
from fedfleet.network.device.client_runtime import Kit, Lesson, judged, probed, rows_of, trained
from fedfleet.network.device.device_store import Damaged, Store
from fedfleet.network.device.resource_usage import mark, since
from fedfleet.network.device.server_calls import Gone, Line, Patience
from fedfleet.network.device.transfer import TooLate, fetched
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import crc32c
from fedfleet.network.security.sanitiser import MOST_STATS
from fedfleet.simulation.reachability import remembers

Fetch = Callable[[str], Tree]


class Declined(Exception):
    """This device will not or cannot do a task; the text says why, and the server is told."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What work needs: the line and who calls on it, the store, the caps, how to wait."""

    line: Line
    caller: pb.Caller
    store: Store
    caps: Caps
    wait: Patience


def done(
    bench: Bench, kit: Kit, work: pb.Work, inline: memoryview, until: float, came_in: float
) -> tuple[pb.Report, bytes]:
    """Do one task. `came_in` are the seconds in which the work itself came; `Declined` if it cannot be done here."""
    start, began = mark(bench.line), time.monotonic()
    model = model_bytes(bench, work, inline, until)
    download, computing = came_in + time.monotonic() - began, time.monotonic()
    try:
        head, payload = _DOES[work.kind](bench, kit, work, model)
    except (Refused, FedFleetError, Damaged, MemoryError, ValueError, TypeError, KeyError) as wrong:
        raise Declined(str(wrong) or type(wrong).__name__) from wrong
    head.spent["download"], head.spent["compute"] = max(download, 0.0), time.monotonic() - computing
    samples = int(head.stats.get("samples", head.total))
    head.resources.CopyFrom(since(start, bench.line, samples, len(payload), len(inline)))
    return head, payload


def model_bytes(bench: Bench, work: pb.Work, inline: memoryview, until: float) -> bytes:
    """The model: what came along if it is whole, else fetched."""
    big = too_large(bench.caps, work.model.nbytes, "the model")
    if big is not None:
        raise Declined(big)
    came = bytes(inline) if work.inline else b""
    if work.inline and len(came) == work.model.nbytes and crc32c(came) == work.model.crc32c:
        return came
    try:
        return fetched(bench.line, bench.caller, work.model, bench.wait, until)
    except (Refused, TooLate, Gone) as wrong:
        raise Declined(str(wrong)) from wrong


def frozen_from(bench: Bench, work: pb.Work, until: float) -> Fetch:
    """How frozen weights come: out of the store, else from the server, once."""

    def fetch(name: str) -> Tree:
        del name  # whoever asked compares what came with it
        blob = work.frozen
        if not blob.name:
            raise Refused("the server names no frozen weights, and those of this device are others")
        big = too_large(bench.caps, blob.nbytes, "the frozen part of the model")
        if big is not None:
            raise Refused(big)
        data = bench.store.blob(blob.name, blob.nbytes, blob.crc32c)
        if data is None:
            data = fetched(bench.line, bench.caller, blob, bench.wait, until)
            bench.store.keep_blob(blob.name, data)
        return unpacked(data)

    return fetch


def head_of(work: pb.Work, caller: pb.Caller, payload: bytes = b"") -> pb.Report:
    """The head of a report on this work."""
    return pb.Report(
        caller=caller, task=work.task, nonce=work.nonce, nbytes=len(payload), crc32c=crc32c(payload), kind=work.kind
    )


def _lesson(kit: Kit, work: pb.Work) -> Lesson:
    rows = np.array(work.rows, np.int64) if work.rows else None
    # A run whose seed is 0 and a server that does not say it mean the same.
    return Lesson(
        work.task, work.round, work.version, work.steps, work.share, work.seed or kit.seed, dict(work.settings), rows
    )


def _train(bench: Bench, kit: Kit, work: pb.Work, model: bytes) -> tuple[pb.Report, bytes]:
    lesson, half = _lesson(kit, work), kit.half(dict(work.settings))
    long = too_long(bench.caps, steps_of(half, len(rows_of(kit, lesson)), work.steps))
    if long is not None:
        raise Declined(long)
    lasting = remembers(half)
    memory = bench.store.memory(work.memory_task) if lasting else {}
    found = trained(kit, lesson, model, memory)
    if lasting:  # on the disk before the report can be folded
        bench.store.remember(work.task, {**memory, **(found.memory or {})})
    big = too_large(bench.caps, len(found.payload), "the report")
    if big is not None:
        raise Declined(big)
    head = head_of(work, bench.caller, found.payload)
    head.weight = found.weight
    for name, value in _finite(found.stats).items():
        head.stats[name] = value
    return head, found.payload


def _evaluate(bench: Bench, kit: Kit, work: pb.Work, model: bytes) -> tuple[pb.Report, bytes]:
    if not len(kit.test):
        raise Declined("this client has no test samples")
    return _scored(bench, kit, work, model, judged)


def _probe(bench: Bench, kit: Kit, work: pb.Work, model: bytes) -> tuple[pb.Report, bytes]:
    return _scored(bench, kit, work, model, probed)


def _scored(bench: Bench, kit: Kit, work: pb.Work, model: bytes, how: Callable[..., Score]) -> tuple[pb.Report, bytes]:
    lasting = remembers(kit.half())
    score = how(kit, _lesson(kit, work), model, bench.store.memory(work.memory_task) if lasting else {})
    head = head_of(work, bench.caller)
    head.correct, head.total, head.loss = score.correct, score.total, score.loss
    return head, b""


_DOES = {pb.TRAIN: _train, pb.EVALUATE: _evaluate, pb.PROBE: _probe}


def _finite(stats: Mapping[str, float]) -> dict[str, float]:
    fine = {name: float(v) for name, v in stats.items() if math.isfinite(v)}
    return dict(list(fine.items())[:MOST_STATS])
