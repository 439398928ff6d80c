"""What a device trains with, and training: from the bytes of a model to the bytes of a report, exactly as a simulation would."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedfleet.core.codec import Codec, codes
from fedfleet.core.container import packed, unpacked
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Algorithm, Executor, Job, Offer, Pass, Task, Trial
from fedfleet.core.passes import FEEDBACK, NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints, Score, ServerState, Settings, Slots
from fedfleet.core.trees import Tree
from fedfleet.learn.codecs.messages import addresses, received, sent
from fedfleet.learn.compression import travelling
from fedfleet.network.protocol.frames import offer_from_bytes


@dataclass(frozen=True, slots=True)
class Kit:
    """One client's half of a run: the algorithm, the task with this client's samples, and which rows train and test.

    `frozen` is the content hash of the frozen weights that the run is meant with; "": there are none.
    """

    client: int
    key: int
    seed: int
    algorithm: Algorithm
    task: Task
    params: Tree
    train: Ints
    test: Ints
    execute: Executor
    frozen: str = ""

    def half(self, settings: Settings = NO_SETTINGS) -> Pass:
        """What this client trains."""
        return self.algorithm.local(self.client, settings)

    def like(self) -> Tree:
        """Names, shapes and types of what its reports hold."""
        return self.algorithm.fold.like(self.algorithm.init(self.params))


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one task asks of a client."""

    task: int
    round: int = 0
    version: int = 0
    steps: int = 0
    share: float = 1.0
    seed: int | None = None
    settings: Settings = field(default_factory=dict[str, float])
    rows: Ints | None = None


@dataclass(frozen=True, slots=True)
class Trained:
    """What came of a task: the bytes that go up, and what the client remembers if they are folded (None: nothing new)."""

    payload: bytes
    weight: float
    stats: Mapping[str, float]
    memory: Slots | None


def trained(kit: Kit, lesson: Lesson, model: bytes, memory: Slots) -> Trained:
    """Do one task's work. What the server sent is `Refused` if it does not fit."""
    half, seed = kit.half(lesson.settings), kit.seed if lesson.seed is None else lesson.seed
    up, owing = (half.up, half.feedback) if isinstance(half, LocalPass) else (None, False)
    job = Job(
        lesson.task,
        kit.client,
        kit.key,
        seed,
        offered(kit, lesson, half, model),
        # The codec is applied here, because the very bytes are needed and not only what arrives of them.
        replace(half, up=None, feedback=False) if isinstance(half, LocalPass) else half,
        rows_of(kit, lesson),
        lesson.steps,
        memory,
        lesson.settings,
        lesson.round,
    )
    report = next(iter(kit.execute.train([job])))
    if up is None:
        return Trained(packed(report.update) if report.update else b"", report.weight, report.stats, report.memory)
    owed = memory.get(FEEDBACK, {}) if owing else {}
    wanted = {n: v + owed[n] if n in owed else v for n, v in report.update.items()}
    payload = sent(up, wanted, int(addresses(seed, np.array([kit.key], np.uint64), np.array([lesson.task]))[0]))
    kept = report.memory
    if owing:
        kept = {**(kept or {}), FEEDBACK: {**owed, **_lost(up, wanted, payload)}}
    return Trained(payload, report.weight, report.stats, kept)


def _lost(codec: Codec, wanted: Tree, payload: bytes) -> Tree:
    """What the codec lost of what was wanted: the client adds it to its next update."""
    came = received(codec, payload, wanted)
    return {n: v - came[n] for n, v in wanted.items() if codes(v)}


def rows_of(kit: Kit, lesson: Lesson) -> Ints:
    """The rows that a task trains on: the first `share` of what this client holds in this round."""
    rows = kit.train if lesson.rows is None else lesson.rows
    if len(rows) and (int(rows.max()) >= len(kit.task.dataset.y) or int(rows.min()) < 0):
        raise RunFailed(f"task {lesson.task} asks for rows that are not in the data here")
    return rows if lesson.share >= 1.0 else rows[: math.ceil(lesson.share * len(rows))]


def offered(kit: Kit, lesson: Lesson, half: Pass, model: bytes) -> Offer:
    """What the server sent, decoded where the pass says that it comes in a code; what stays at home begins as in the seed."""
    if not isinstance(half, LocalPass) or half.down is None:
        return offer_from_bytes(model)
    first = kit.algorithm.offer(server_at(kit, lesson.version), kit.client, lesson.settings)
    came = offer_from_bytes(model, half.down, travelling(first, half.keep))
    return Offer({n: came.params.get(n, v) for n, v in first.params.items()}, came.extra)


def server_at(kit: Kit, version: int) -> ServerState:
    """A server that has made so many models, as far as that can be known without them: what is offered has its shapes."""
    server = kit.algorithm.init(kit.params)
    for _ in range(version if kit.algorithm.tick is not None else 0):
        assert kit.algorithm.tick is not None
        server = kit.algorithm.tick(server)
    return server


def model_of(kit: Kit, lesson: Lesson, model: bytes, memory: Slots) -> Tree:
    """The model that this client would use: what the server sent, made its own."""
    found = unpacked(model)
    if not kit.params.keys() <= found.keys():
        found = offered(kit, lesson, kit.half(lesson.settings), model).params
    params = {n: found[n] for n in kit.params}
    return params if kit.algorithm.personal is None else kit.algorithm.personal(params, memory)


def judged(kit: Kit, lesson: Lesson, model: bytes, memory: Slots) -> Score:
    """The model that this client would use, tuned where the algorithm asks for that, on its own test samples."""
    mine, tune = model_of(kit, lesson, model, memory), kit.algorithm.tune
    local = None if tune is None else tune(kit.client)
    if local is not None and len(kit.train):
        # A negative task addresses batches that no task of a round has.
        job = Job(-1 - kit.client, kit.client, kit.key, kit.seed, Offer(mine), local, kit.train)
        update = next(iter(kit.execute.train([job]))).update
        mine = {n: v + update[n] if n in update and v.dtype.kind == "f" else v for n, v in mine.items()}
    return next(iter(kit.execute.evaluate([Trial(mine, kit.test)])))


def probed(kit: Kit, lesson: Lesson, model: bytes, memory: Slots) -> Score:
    """The model that this client would use on its own training samples."""
    rows = kit.train if lesson.rows is None else lesson.rows
    return next(iter(kit.execute.evaluate([Trial(model_of(kit, lesson, model, memory), rows)])))
