"""Malformed calls through the port of a real server: by strangers, and by an enrolled client that has work in hand.

Every call is answered with a status that says whose fault it was; never with that of a server whose own code has failed.
"""

from __future__ import annotations

import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import grpc
import numpy as np

from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.protocol import fleet_pb2 as fleet
from fedfleet.network.protocol.frames import PROTOCOL, crc32c, encode_frame, method_path
from tests.network.mutating import mutated
from tests.network.puppet import Errand, Puppet

OURS = {
    "OK",
    "INVALID_ARGUMENT",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "FAILED_PRECONDITION",
    "NOT_FOUND",
    "RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED",
}
WAITED = {"DEADLINE_EXCEEDED", "CANCELLED"}  # of a call that waits for work until this side gives up
METHODS = ("Enrol", "Check", "Fetch", "Hand", "HandStream", "Held", "Leave", "Status")
_TOGETHER = 32  # calls under way at once
_WAIT, _HELD = 20.0, 0.3  # seconds for an answer; for that of a call that may be held
Calling = tuple[str, Any]


def valid(puppet: Puppet, errand: Errand, width: int) -> dict[str, bytes]:
    """A sound message for every method, from a client that has work."""
    payload = pack_tree({"w": np.zeros(width, np.float32)})
    caller, report = puppet.caller, puppet.report(errand.work, payload, stats={"loss": 0.5})
    held = {"task": report.task, "nonce": report.nonce, "nbytes": report.nbytes, "crc32c": report.crc32c}
    said = {
        "Enrol": fleet.EnrolRequest(protocol=PROTOCOL, client=puppet.client, secret=puppet.secret, data="photos"),
        "Check": fleet.CheckIn(caller=caller, busy=report.task),
        "Fetch": fleet.FetchRequest(caller=caller, name=errand.work.model.name),
        "Held": fleet.HeldRequest(caller=caller, **held),
        "Leave": fleet.LeaveRequest(caller=caller),
        "Status": fleet.StatusRequest(token="somebody"),
    }
    frames = {"Hand": encode_frame(report, payload), "HandStream": encode_frame(report)}
    return {name: message.SerializeToString() for name, message in said.items()} | frames


class Fuzzer:
    """Calls by one puppet with work in hand; a class, since it holds the calls that are under way."""

    def __init__(self, puppet: Puppet, errand: Errand, width: int) -> None:
        self.puppet, self.errand, self.width = puppet, errand, width
        self.valid = valid(puppet, errand, width)
        self.pool = list(self.valid.values())
        self.codes = Counter[str]()
        self.odd = list[str]()
        self._under_way = deque[Calling]()

    def run(self, seed: int, count: int) -> None:
        """So many malformed calls."""
        ways: Sequence[Callable[[Random], Calling]] = (
            self._message,
            self._message,
            self._payload,
            self._stream,
            self._head,
            self._noise,
        )
        for i in range(count):
            rng = Random(seed << 32 | i)
            if len(self._under_way) >= _TOGETHER:
                self._settle()
            self._under_way.append(rng.choice(ways)(rng))
        while self._under_way:
            self._settle()

    def _settle(self) -> None:
        name, call = self._under_way.popleft()
        try:
            deque(call, maxlen=0) if name == "Fetch" else call.result()
            code, said = "OK", ""
        except grpc.RpcError as error:
            code, said = error.code().name, str(error.details())  # type: ignore[attr-defined]
        self.codes[code] += 1
        if code not in OURS and not (code in WAITED and name == "Check") and len(self.odd) < 20:
            self.odd.append(f"{name}: {code}: {said[:300]}")
        if not said.isprintable() or len(said) > 500:
            self.odd.append(f"{name}: a reply that is not fit to be shown: {said[:100]!r}")

    def _call(self, name: str, data: bytes) -> Calling:
        channel: Any = self.puppet.channel
        if name == "Fetch":
            return name, channel.unary_stream(method_path(name))(data, timeout=_WAIT)
        if name == "HandStream":
            return name, channel.stream_unary(method_path(name)).future(iter([data]), timeout=_WAIT)
        return name, channel.unary_unary(method_path(name)).future(data, timeout=_HELD if name == "Check" else _WAIT)

    def _message(self, rng: Random) -> Calling:
        """A sound message of any method, malformed."""
        name = rng.choice(METHODS)
        return self._call(name, mutated(rng, self.valid[name], self.pool))

    def _payload(self, rng: Random) -> Calling:
        """Malformed tensors under a sound head that knows them: a whole report that cannot be folded, or hardly."""
        payload = mutated(rng, pack_tree({"w": np.zeros(self.width, np.float32)}), self.pool)[: 1 << 20]
        weight = rng.choice((1.0, 0.0, -1.0, float("nan"), float("inf"), 1e300, 5e-324))
        return self._call("Hand", encode_frame(self._report(payload, weight=weight), payload))

    def _head(self, rng: Random) -> Calling:
        """A head whose fields were never meant to stand together."""
        payload, number = self.pool[3], rng.choice((0, 1, 2**31, 2**40, 2**53, 2**63, 2**64 - 1))
        odd: dict[str, Any] = rng.choice(
            (
                {"task": number}, {"nonce": rng.randbytes(rng.choice((0, 1, 16, 900)))}, {"nbytes": number}, {"offset": number},
                {"crc32c": number % 2**32}, {"kind": rng.choice((1, 2, 3, 99, -1))}, {"correct": number, "total": 3, "kind": 1},
                {"loss": float("nan"), "kind": 2}, {"caller": fleet.Caller(client=number % 2**32, secret=rng.randbytes(32))},
                {"declined": "\x1b[2J\n" * 2000}, {"stats": {f"s{n}": float("inf") for n in range(500)}},
                {"spent": {"\x00": 1.0, "": 2.0, "x" * 5000: 3.0}},
            )
        )  # fmt: skip
        return self._call(rng.choice(("Hand", "HandStream")), encode_frame(self._report(payload, **odd), payload))

    def _stream(self, rng: Random) -> Calling:
        """A report in chunks of which some are missing, doubled, too many or too long."""
        payload = bytes(rng.choice((0, 1, 1000, 300_000)))
        head = encode_frame(self._report(payload, offset=rng.choice((0, 0, 0, 1, 2**40))))
        chunks = [payload[a : a + 5000] for a in range(0, len(payload), 5000)]
        rng.shuffle(chunks)
        chunks = rng.choice((chunks, chunks[1:], chunks * 2, [b""] * 50, [rng.randbytes(1_200_000)], []))
        first = rng.choice(([head], [], [mutated(rng, head, self.pool)]))
        channel: Any = self.puppet.channel
        return "HandStream", channel.stream_unary(method_path("HandStream")).future(iter([*first, *chunks]), timeout=_WAIT)

    def _noise(self, rng: Random) -> Calling:
        """Bytes of nobody at a method that may not be there."""
        name = rng.choice((*METHODS, "Nothing", "", "Enrol/../Status", "é"))
        data = rng.randbytes(rng.choice((0, 1, 100, 70_000, 1_300_000)))
        channel: Any = self.puppet.channel
        if name in METHODS:
            return self._call(name, data)
        return "Status", channel.unary_unary(f"/fedfleet.wire.Fleet/{name.encode().hex() if name == 'é' else name}").future(
            data, timeout=_WAIT
        )

    def _report(self, payload: bytes, **said: Any) -> fleet.Report:
        return self.puppet.report(self.errand.work, payload, **{"crc32c": crc32c(payload), **said})


def knock(address: str, rng: Random, count: int) -> None:
    """Connections that do not speak the language of the port at all, or hang up in the midst of it."""
    host, port = address.split(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for _ in range(count):
        with socket.create_connection((host, int(port)), timeout=60) as line:
            frame = rng.randbytes(9) + rng.randbytes(rng.randrange(200))
            said = rng.choice(
                (
                    rng.randbytes(500),
                    b"GET / HTTP/1.1\r\n\r\n",
                    preface,
                    preface + frame,
                    b"\x16\x03\x01" + rng.randbytes(90),
                )
            )
            line.sendall(said)
            if rng.random() < 0.5:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # hang up with a reset
