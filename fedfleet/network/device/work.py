"""One piece of work on a device: from what the server asks for to the report that goes up, and what that took of the device.

Torch is loaded here, and not before.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from fedfleet.core.edges import DRAW_TASK, GIVE_SAMPLES
from fedfleet.core.errors import FedFleetError, Refused, printable
from fedfleet.core.passes import remembers
from fedfleet.core.records import Score
from fedfleet.core.tensor_format import unpack_tree
from fedfleet.core.trees import Tree
from fedfleet.network.device.call_errors import NotFound
from fedfleet.network.device.caps import Caps, steps_of, too_large, too_little_noise, too_long
from fedfleet.network.device.client_runtime import (
    Assignment,
    ClientRuntime,
    evaluate_model,
    fresh_noise_key,
    probe_model,
    rows_of,
    train_task,
)
from fedfleet.network.device.device_store import DamagedMemory, DeviceStore
from fedfleet.network.device.retries import RetryPolicy, no_remark
from fedfleet.network.device.server_line import ServerLine
from fedfleet.network.device.shared_samples import give_samples, receive_samples, with_samples_of
from fedfleet.network.device.transfers import TooLate, fetch_blob, fetch_shard
from fedfleet.network.device.work_observer import NO_OBSERVER, WorkObserver
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import MOST_STATS, crc32c

OUT_OF_MEMORY = "out of memory"  # begins the reason of a task that is declined because this device has too little
_UNIT = 1 if sys.platform == "darwin" else 1024  # of the peak that the system tells


@dataclass(frozen=True, slots=True)
class UsageMark:
    """A moment of a device's work: clocks and counters as they stood then."""

    wall: float
    cpu: float
    down: int
    up: int


def mark(connection: ServerLine) -> UsageMark:
    """Now."""
    return UsageMark(time.monotonic(), time.process_time(), connection.bytes_down, connection.bytes_up)


def peak_bytes(status: Path = Path("/proc/self/status")) -> int:
    """The most memory that this process ever held. The figure of `getrusage` is also that of the process that started it, so it is
    asked only where the system has no `status`."""
    try:
        lines = status.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def usage_since(start: UsageMark, connection: ServerLine, samples: int, nbytes: int, downloaded: int) -> pb.Resources:
    """What was used since a mark; `nbytes` of a report that is still to go up are counted with it, `downloaded` came before."""
    now = mark(connection)
    return pb.Resources(
        wall_seconds=now.wall - start.wall,
        cpu_seconds=max(now.cpu - start.cpu, 0.0),
        peak_memory_bytes=peak_bytes(),
        bytes_down=now.down - start.down + downloaded,
        bytes_up=now.up - start.up + nbytes,
        samples=samples,
    )


# Frozen weights by their content hash, or this client's samples of a rehearsal by the name SHARD.
Fetch = Callable[[str], Tree]
SHARD = "|shard"


class TaskRefusal(Exception):
    """This device will not or cannot do a task; the text says why, and the server is told. It is one line of bounded length."""

    def __init__(self, why: str) -> None:
        super().__init__(printable(why))


class NoModel(TaskRefusal):
    """The model of a task did not arrive: the line or the server failed, not this device."""


@dataclass(frozen=True, slots=True)
class WorkContext:
    """What work needs: the line and who calls on it, the store, the caps, how to wait, whom to tell of the line, who observes, and
    whether samples may go to other devices of the same person."""

    connection: ServerLine
    caller: pb.Caller
    store: DeviceStore
    caps: Caps
    wait: RetryPolicy
    remark: Callable[[str], None] = no_remark
    observer: WorkObserver = NO_OBSERVER
    shares_samples: bool = False


class EdgeWorker(Protocol):
    """An edge, which lets devices of its own do a task."""

    def carry_out(self, context: WorkContext, work: pb.Work, model: bytes) -> tuple[pb.Report, bytes]:
        """The report on this work, when the devices have done it."""
        ...


def do_task(
    context: WorkContext,
    runtime: ClientRuntime | EdgeWorker,
    work: pb.Work,
    inline: memoryview,
    until: float,
    receive_seconds: float,
) -> tuple[pb.Report, bytes]:
    """Do one task. `receive_seconds` is how long the work itself took to come; `TaskRefusal` if it cannot be done here."""
    start, began = mark(context.connection), time.monotonic()
    model = model_bytes(context, work, inline, until)
    download, compute_start = receive_seconds + time.monotonic() - began, time.monotonic()
    try:
        with context.observer.computing(work):
            if isinstance(runtime, ClientRuntime):
                head, payload = _HANDLERS[work.kind](context, runtime, work, model)
            else:
                head, payload = runtime.carry_out(context, work, model)
    except (Refused, FedFleetError, DamagedMemory, MemoryError, ImportError, ValueError, TypeError, KeyError) as error:
        raise TaskRefusal(_refusal_text(error)) from error
    head.spent["download"], head.spent["compute"] = max(download, 0.0), time.monotonic() - compute_start
    rows = None if not isinstance(runtime, ClientRuntime) else runtime.test if work.kind == pb.EVALUATE else runtime.train
    samples = int(head.stats.get("samples", 0 if rows is None else len(rows)))
    head.resources.CopyFrom(usage_since(start, context.connection, samples, len(payload), len(inline)))
    return head, payload


def model_bytes(context: WorkContext, work: pb.Work, inline: memoryview, until: float) -> bytes:
    """The model: what came along if it is whole, else fetched."""
    reason = too_large(context.caps, work.model.nbytes, "the model")
    if reason is not None:
        raise TaskRefusal(reason)
    data = bytes(inline) if work.inline else b""
    if work.inline and len(data) == work.model.nbytes and crc32c(data) == work.model.crc32c:
        return data
    try:
        return fetch_blob(context.connection, context.caller, work.model, context.wait, until, context.remark)
    except (Refused, TooLate, NotFound) as error:
        raise NoModel(str(error)) from error


def frozen_fetcher(context: WorkContext, work: pb.Work, until: float) -> Fetch:
    """How frozen weights come: out of the store, else from the server, once."""

    def fetch(name: str) -> Tree:
        if name == SHARD:
            return _shard(context, until)
        # Otherwise whoever asked compares what came with the name.
        blob = work.frozen
        if not blob.name:
            raise Refused("the frozen weights of this device differ from those of the run, and the server does not offer them")
        reason = too_large(context.caps, blob.nbytes, "the frozen part of the model")
        if reason is not None:
            raise Refused(reason)
        data = context.store.blob(blob.name, blob.nbytes, blob.crc32c)
        if data is None:
            try:
                data = fetch_blob(context.connection, context.caller, blob, context.wait, until, context.remark)
            except (Refused, TooLate, NotFound) as error:
                raise NoModel(f"the frozen weights did not arrive: {error}") from error
            context.store.keep_blob(blob.name, data)
        return unpack_tree(data)

    return fetch


def _refusal_text(error: Exception) -> str:
    """Why a task cannot be done; a lack of memory is named as such, also where training says it in its own words."""
    text = str(error) or type(error).__name__
    return f"{OUT_OF_MEMORY}: {text}" if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError) else text


def _shard(context: WorkContext, until: float) -> Tree:
    """The samples that a rehearsal deals to this client, from the server."""
    try:
        data = fetch_shard(context.connection, context.caller, context.caps.bytes, context.wait, until, context.remark)
    except NotFound as error:
        raise Refused(f"this device cannot make the samples of the rehearsal, and the server gives none ({error})") from error
    return unpack_tree(data)


def head_of(work: pb.Work, caller: pb.Caller, payload: bytes = b"") -> pb.Report:
    """The head of a report on this work."""
    return pb.Report(caller=caller, task=work.task, nonce=work.nonce, nbytes=len(payload), crc32c=crc32c(payload), kind=work.kind)


def _assignment(runtime: ClientRuntime, work: pb.Work) -> Assignment:
    rows = np.array(work.rows, np.int64) if work.rows else None
    settings = dict(work.settings)
    # Behind an edge, whose tasks and rounds have numbers of their own.
    draw_task = settings.pop(DRAW_TASK, None)
    task, round = (work.task, work.round) if draw_task is None else (int(draw_task), 0)
    # A run whose seed is 0 and a server that does not say it mean the same.
    return Assignment(task, round, work.version, work.steps, work.share, work.seed or runtime.seed, settings, rows)


def _give(context: WorkContext, runtime: ClientRuntime, work: pb.Work) -> tuple[pb.Report, bytes]:
    """The samples that a task names, for other devices of the same person. Only a device whose owner agreed comes here."""
    payload = give_samples(runtime, context.store, np.array(work.rows, np.int64))
    head = head_of(work, context.caller, payload)
    head.weight = 1.0
    return head, payload


def _with_moved_samples(
    context: WorkContext, runtime: ClientRuntime, work: pb.Work, assignment: Assignment
) -> tuple[ClientRuntime, Assignment]:
    """Runtime and assignment with the samples that other devices of the same person gave to this one, now or before."""
    if work.turn.name:
        try:
            data = fetch_blob(context.connection, context.caller, work.turn, context.wait, math.inf, context.remark)
        except (Refused, NotFound) as error:
            raise NoModel(f"the samples of other devices did not arrive: {error}") from error
        receive_samples(runtime, context.store, data)
    if assignment.rows is None:
        return runtime, assignment
    holding, rows = with_samples_of(runtime, context.store, assignment.rows)
    return holding, replace(assignment, rows=rows)


def _train(context: WorkContext, runtime: ClientRuntime, work: pb.Work, model: bytes) -> tuple[pb.Report, bytes]:
    if work.settings.get(GIVE_SAMPLES) and context.shares_samples:
        return _give(context, runtime, work)
    assignment = _assignment(runtime, work)
    if context.shares_samples:
        runtime, assignment = _with_moved_samples(context, runtime, work, assignment)
    elif work.settings.get(GIVE_SAMPLES) or work.turn.name:
        raise TaskRefusal("its owner has not agreed to share samples; start it with --share-samples")
    half = runtime.local_pass(assignment.settings)
    step_reason = too_long(context.caps, steps_of(half, len(rows_of(runtime, assignment)), work.steps))
    if step_reason is not None:
        raise TaskRefusal(step_reason)
    noise_reason = too_little_noise(context.caps, runtime.algorithm.private)
    if noise_reason is not None:
        raise TaskRefusal(noise_reason)
    lasting = remembers(half)
    memory = context.store.memory(work.memory_task) if lasting else {}
    local_result = train_task(runtime, assignment, model, memory, fresh_noise_key())
    if lasting:  # on the disk before the report can be folded
        context.store.remember(work.task, {**memory, **(local_result.memory or {})})
    size_reason = too_large(context.caps, len(local_result.payload), "the report")
    if size_reason is not None:
        raise TaskRefusal(size_reason)
    head = head_of(work, context.caller, local_result.payload)
    head.weight = local_result.weight
    finite = [(name, float(value)) for name, value in local_result.stats.items() if math.isfinite(value)]
    head.stats.update(dict(finite[:MOST_STATS]))
    return head, local_result.payload


def _evaluate(context: WorkContext, runtime: ClientRuntime, work: pb.Work, model: bytes) -> tuple[pb.Report, bytes]:
    if not len(runtime.test):
        raise TaskRefusal("this client has no test samples")
    return _score_report(context, runtime, work, model, evaluate_model)


def _probe(context: WorkContext, runtime: ClientRuntime, work: pb.Work, model: bytes) -> tuple[pb.Report, bytes]:
    return _score_report(context, runtime, work, model, probe_model)


def _score_report(
    context: WorkContext, runtime: ClientRuntime, work: pb.Work, model: bytes, score_model: Callable[..., Score]
) -> tuple[pb.Report, bytes]:
    lasting = remembers(runtime.local_pass())
    score = score_model(runtime, _assignment(runtime, work), model, context.store.memory(work.memory_task) if lasting else {})
    head = head_of(work, context.caller)
    head.correct, head.total, head.loss = score.correct, score.total, score.loss
    return head, b""


_HANDLERS = {pb.TRAIN: _train, pb.EVALUATE: _evaluate, pb.PROBE: _probe}
