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
from fedfleet.core.container import pack_tree, unpack_tree
from fedfleet.core.parts import Executor, Plan
from fedfleet.core.records import ClientScores, Score, ServerState, Tally
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree
from fedfleet.executors.gather import evaluate
from fedfleet.store.client_memory import ClientMemory

LENGTHS = struct.Struct("<II")  # of the head and of the payload
Head = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EvalContext:
    """What a model is judged with: the plan, the world with its test samples, and an executor."""

    plan: Plan
    world: World
    execute: Executor


@dataclass(frozen=True, slots=True)
class EvalResult:
    """How one model does on the central test set, on all clients' own if that was asked, and on people held out if any are."""

    score: Score
    clients: ClientScores | None = None
    unseen: Tally | None = None


def evaluate_model(context: EvalContext, version: int, params: Tree, clients: bool) -> EvalResult:
    """Judge a model as a simulation does, to the last bit. What clients remember is theirs, and not known here."""
    command = Evaluate(version, ServerState(params), clients)
    evaluated = evaluate(context.plan, context.world, context.execute, ClientMemory(), command, 0.0)
    return EvalResult(Score(evaluated.correct, evaluated.total, evaluated.loss), evaluated.clients, evaluated.unseen)


def encode_message(head: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """A head and a payload as one piece of bytes."""
    head_data = json.dumps(head).encode()
    return b"".join((LENGTHS.pack(len(head_data), len(payload)), head_data, payload))


def decode_head(data: bytes) -> Head:
    """The head of a message from its own bytes."""
    return json.loads(data)


def encode_result(number: int, result: EvalResult) -> bytes:
    """The answer to question `number`. Floats survive JSON to the last bit, as do those that are not finite."""
    score, clients = result.score, result.clients
    head: Head = {"number": number, "correct": score.correct, "total": score.total, "loss": score.loss}
    if result.unseen is not None:
        head["unseen"] = list(result.unseen)
    if clients is None:
        return encode_message(head)
    return encode_message(
        head, pack_tree({"clients": clients.clients, "correct": clients.correct, "total": clients.total})
    )


def decode_result(head: Head, payload: bytes) -> EvalResult:
    """The inverse of `judged_message`."""
    score = Score(int(head["correct"]), int(head["total"]), float(head["loss"]))
    unseen = Tally(*map(int, head["unseen"])) if "unseen" in head else None
    if not payload:
        return EvalResult(score, None, unseen)
    columns = unpack_tree(payload)
    return EvalResult(score, ClientScores(columns["clients"], columns["correct"], columns["total"]), unseen)
