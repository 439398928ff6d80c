"""What judging a model gives, how it is found, and how it crosses from one process to another.

A message between the two processes is a head in JSON and a payload in safetensors form, each after its length: nothing that is
read can be code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedfleet.core.commands import Evaluate
from fedfleet.core.container import packed, unpacked
from fedfleet.core.parts import Executor, Plan
from fedfleet.core.records import ClientScores, Score, ServerState, Tally
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree
from fedfleet.executors.gather import evaluate
from fedfleet.store.client_memory import ClientMemory

LENGTHS = struct.Struct("<II")  # of the head and of the payload
Head = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Court:
    """What a model is judged with: the plan, the world with its test samples, and an executor."""

    plan: Plan
    world: World
    execute: Executor


@dataclass(frozen=True, slots=True)
class Judged:
    """How one model does on the central test set, on all clients' own if that was asked, and on people held out if any are."""

    score: Score
    clients: ClientScores | None = None
    unseen: Tally | None = None


def judged(court: Court, version: int, params: Tree, clients: bool) -> Judged:
    """Judge a model as a simulation does, to the last bit. What clients remember is theirs, and not known here."""
    command = Evaluate(version, ServerState(params), clients)
    found = evaluate(court.plan, court.world, court.execute, ClientMemory(), command, 0.0)
    return Judged(Score(found.correct, found.total, found.loss), found.clients, found.unseen)


def message(head: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """A head and a payload as one piece of bytes."""
    said = json.dumps(head).encode()
    return b"".join((LENGTHS.pack(len(said), len(payload)), said, payload))


def head_of(data: bytes) -> Head:
    """The head of a message from its own bytes."""
    return json.loads(data)


def judged_message(number: int, found: Judged) -> bytes:
    """The answer to question `number`. Floats survive JSON to the last bit, as do those that are not finite."""
    score, clients = found.score, found.clients
    head: Head = {"number": number, "correct": score.correct, "total": score.total, "loss": score.loss}
    if found.unseen is not None:
        head["unseen"] = list(found.unseen)
    if clients is None:
        return message(head)
    return message(head, packed({"clients": clients.clients, "correct": clients.correct, "total": clients.total}))


def judged_from(head: Head, payload: bytes) -> Judged:
    """The inverse of `judged_message`."""
    score = Score(int(head["correct"]), int(head["total"]), float(head["loss"]))
    unseen = Tally(*map(int, head["unseen"])) if "unseen" in head else None
    if not payload:
        return Judged(score, None, unseen)
    columns = unpacked(payload)
    return Judged(score, ClientScores(columns["clients"], columns["correct"], columns["total"]), unseen)
