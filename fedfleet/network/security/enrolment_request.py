"""What a device asks for at enrolment, and what can be said of it without looking at anybody else: records and pure rules."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fedfleet.core.errors import printable
from fedfleet.network.protocol.fleet_pb2 import EnrolRequest
from fedfleet.network.protocol.frames import PROTOCOL

Evidence = Callable[[bytes, EnrolRequest], str | None]
_SHORTEST_ATTEMPT, _LONGEST_ATTEMPT = 16, 64
_MOST_MEMORY = 1 << 62  # SQLite's numbers have a sign


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a server admits: how many places, whether without tokens, how much data, with what evidence, and whether
    devices may bring data of their own."""

    clients: int
    open: bool = False
    most_samples: int = 1 << 31
    evidence: Evidence | None = None
    protocol: int = PROTOCOL
    own_data: bool = True


class Admission(NamedTuple):
    """A device holds this place; `new` with a generation above 1: another device held it before."""

    client: int
    generation: int
    new: bool


class Refusal(NamedTuple):
    """Why a device is not admitted, in one sentence for its owner."""

    sentence: str


def protocol_refusal(request: EnrolRequest, terms: Terms) -> str | None:
    """Why device and server do not understand each other; None: they do."""
    if request.protocol != terms.protocol:
        return (
            f"the device speaks protocol {request.protocol} and the server {terms.protocol}; "
            "install the same version of FedFleet on both"
        )
    return None


def unfit_reason(request: EnrolRequest, terms: Terms) -> str | None:
    """What is wrong with a request by itself; None: nothing."""
    if max(request.samples, request.test_samples) > terms.most_samples:
        return f"the device declares more than the {terms.most_samples} samples that this server allows"
    if request.data and not terms.own_data:
        return "this run goes by labels that the server must know, so its devices cannot bring data of their own"
    if request.data and not request.samples:
        return "the device brings data of its own and does not say how many samples"
    if request.attempt and not _SHORTEST_ATTEMPT <= len(request.attempt) <= _LONGEST_ATTEMPT:
        return f"an attempt is marked with {_SHORTEST_ATTEMPT} to {_LONGEST_ATTEMPT} random bytes"
    return None


def evidence_refusal(evidence: Evidence, request: EnrolRequest) -> str | None:
    """What the hook has against a device; a hook that fails admits no device."""
    try:
        why = evidence(request.evidence, request)
    except Exception as error:
        return f"the evidence of the device could not be checked ({type(error).__name__})"
    return None if why is None else f"the evidence of the device is not accepted: {printable(why)}"


def declared_values(request: EnrolRequest) -> tuple[int, int, int, str]:
    """What a device says of itself, as it is stored: samples, test samples, memory, its name for its data."""
    return request.samples, request.test_samples, min(request.memory_bytes, _MOST_MEMORY), printable(request.data)


def attempt_of(request: EnrolRequest) -> bytes | None:
    """The mark of an attempt: bound to its token, so that it is worth nothing with another."""
    if not request.attempt:
        return None
    message = b"fedfleet attempt 1\0" + bytes([len(request.attempt)]) + request.attempt
    return hashlib.sha256(message + request.token.encode()).digest()
