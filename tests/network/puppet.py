"""A device spoken by hand: it knows the protocol, and says whatever a test wants it to say.

Nothing here retries or repairs: what the server answers is what the test sees, a broken call is `grpc.RpcError`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc

from fedfleet.network.protocol import fleet_pb2 as fleet
from fedfleet.network.protocol.frames import (
    CHUNK,
    INLINE_BYTES,
    PROTOCOL,
    crc32c,
    decode_frame,
    encode_frame,
    method_path,
)
from tests.network.toys import Toy, payload_of, worked

PAUSE = 0.06  # between calls of one device: a server limits how often it may call
Status = fleet.Receipt.Status


class Errand(NamedTuple):
    """Work in hand, and the bytes of the model that came with it."""

    work: fleet.Work
    model: bytes


class Puppet:
    """One client's side of a channel of its own."""

    def __init__(self, address: str, client: int, secret: bytes = b"", wait: float = 30.0) -> None:
        self.client = client
        self.secret = secret
        self.wait = wait
        self.sheet = b""
        # A pool of its own: several puppets in one process must not share one connection, or all meet one transmitter.
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1),
                   ("grpc.max_receive_message_length", -1), ("grpc.initial_reconnect_backoff_ms", 50),
                   ("grpc.min_reconnect_backoff_ms", 20_000), ("grpc.max_reconnect_backoff_ms", 200))  # fmt: skip
        self.channel = grpc.insecure_channel(address, options)

    def close(self) -> None:
        """Hang up without a word."""
        self.channel.close()

    # ---- calls

    def enrol(self, **said: Any) -> fleet.EnrolReply:
        """Become this client; fields of the request can be replaced.

        The mark of the attempt is that of the client: whoever plays it next is the same device, which forgot its secret.
        """
        asked = fleet.EnrolRequest(
            **{
                "protocol": PROTOCOL, "client": self.client, "secret": self.secret,
                "attempt": b"puppet %08d" % self.client + b"." * 8, **said,
            }
        )  # fmt: skip
        reply = fleet.EnrolReply.FromString(self.call("Enrol", asked.SerializeToString()))
        self.client, self.secret, self.sheet = reply.client, reply.secret, reply.sheet
        return reply

    def check(self, *, hold: bool = False, busy: int | None = None) -> tuple[fleet.Answer, bytes]:
        """Check in."""
        asked = fleet.CheckIn(caller=self.caller, hold=hold, busy=busy)
        answer, payload = decode_frame(self.call("Check", asked.SerializeToString()), fleet.Answer)
        return answer, bytes(payload)

    def hand(self, report: fleet.Report, payload: bytes) -> fleet.Receipt:
        """Hand a report in, in one message."""
        return self.hand_raw(encode_frame(report, payload))

    def handed(self, report: fleet.Report, payload: bytes) -> tuple[fleet.Receipt, bytes]:
        """Hand in as a device does, in one message or in chunks: the receipt, and the model that came with it."""
        if len(payload) <= INLINE_BYTES:
            said = self.call("Hand", encode_frame(report, payload))
        else:
            call = self.channel.stream_unary(method_path("HandStream"))
            said = call(_first_then(encode_frame(report), in_chunks(payload)), timeout=self.wait)
        receipt, model = decode_frame(said, fleet.Receipt)
        return receipt, bytes(model)

    def hand_raw(self, said: bytes) -> fleet.Receipt:
        """Hand in any bytes at all."""
        receipt, _ = decode_frame(self.call("Hand", said), fleet.Receipt)
        return receipt

    def hand_stream(self, report: fleet.Report, chunks: Iterable[bytes]) -> fleet.Receipt:
        """Hand a report in, in chunks; what the iterator raises breaks the call."""
        call = self.channel.stream_unary(method_path("HandStream"))
        receipt, _ = decode_frame(call(_first_then(encode_frame(report), chunks), timeout=self.wait), fleet.Receipt)
        return receipt

    def held(self, report: fleet.Report) -> int:
        """How much of a broken upload the server has."""
        asked = fleet.HeldRequest(
            caller=self.caller, task=report.task, nonce=report.nonce, nbytes=report.nbytes, crc32c=report.crc32c
        )
        return fleet.HeldReply.FromString(self.call("Held", asked.SerializeToString())).offset

    def fetch(self, name: str, offset: int = 0) -> bytes:
        """A blob from this offset on."""
        asked = fleet.FetchRequest(caller=self.caller, name=name, offset=offset)
        return b"".join(self.channel.unary_stream(method_path("Fetch"))(asked.SerializeToString(), timeout=self.wait))

    def leave(self) -> None:
        """Take leave."""
        self.call("Leave", fleet.LeaveRequest(caller=self.caller).SerializeToString())

    def status(self) -> dict[str, Any]:
        """What the server says of itself."""
        said = self.call("Status", fleet.StatusRequest().SerializeToString())
        return json.loads(fleet.StatusReply.FromString(said).json)

    def call(self, method: str, said: bytes) -> bytes:
        """Any bytes to any method."""
        return self.channel.unary_unary(method_path(method))(said, timeout=self.wait)

    # ---- what calls are made of

    @property
    def caller(self) -> fleet.Caller:
        """Who this is."""
        return fleet.Caller(client=self.client, secret=self.secret)

    def opened(self, answer: fleet.Answer, payload: bytes) -> Errand:
        """The work of an answer, with its model, wherever that is."""
        work = answer.work
        model = payload if work.inline else self.fetch(work.model.name)
        assert (len(model), crc32c(model)) == (work.model.nbytes, work.model.crc32c)
        return Errand(work, model)

    def await_work(self, seconds: float = 60.0) -> Errand:
        """Check in, as often as it takes, until there is work; never to be asked of a run that is over."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            answer, payload = self.check()
            match answer.WhichOneof("what"):
                case "work":
                    return self.opened(answer, payload)
                case "over":
                    raise AssertionError(f"the run is over: {answer.over.reason}")
                case _:
                    time.sleep(PAUSE)
        raise TimeoutError(f"client {self.client} got no work within {seconds} s")

    def report(self, work: fleet.Work, payload: bytes, **said: Any) -> fleet.Report:
        """The head of an honest report on this work; fields can be replaced."""
        whole: dict[str, Any] = {
            "caller": self.caller, "task": work.task, "nonce": work.nonce, "nbytes": len(payload),
            "crc32c": crc32c(payload), "weight": 1.0, "kind": work.kind,
        }  # fmt: skip
        return fleet.Report(**{**whole, **said})

    def honest(self, toy: Toy, errand: Errand) -> tuple[fleet.Report, bytes]:
        """What a sound device hands in for this work."""
        done = worked(toy, self.client, errand.work.task, errand.model)
        payload = payload_of(done)
        return self.report(errand.work, payload, weight=done.weight, stats=dict(done.stats)), payload


@contextmanager
def puppets(address: str, clients: Iterable[int], *, token: str = "") -> Iterator[list[Puppet]]:
    """Enrolled puppets, which hang up at the end."""
    made = [Puppet(address, client) for client in clients]
    try:
        for puppet in made:
            puppet.enrol(token=token)
        yield made
    finally:
        for puppet in made:
            puppet.close()


def in_chunks(payload: bytes, size: int = CHUNK) -> Iterator[bytes]:
    """The payload in pieces of at most so many bytes."""
    for at in range(0, len(payload), size):
        yield payload[at : at + size]


def _first_then(first: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from chunks
