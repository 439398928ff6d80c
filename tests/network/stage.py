"""A transmitter without processor and port: a test hands in calls, reads what it says, and answers for the processor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from fedfleet.core.tensor_format import pack_tree
from fedfleet.core.trees import Tree
from fedfleet.network.frontend.frontend import Frontend
from fedfleet.network.frontend.partial_sums import fold_layout, layout_to_json
from fedfleet.network.frontend.service import FleetService
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import crc32c, decode_frame, encode_frame
from fedfleet.network.protocol.process_link import write_blob
from fedfleet.network.security.secrets import RunKey, nonce_of, secret_of
from fedfleet.network.server.options import FrontendConfig
from tests.network.frontend.test_partial_sums import SERVER, fold_of, model

KEY = RunKey(bytes(range(32)))
CLIENTS = 6
LIKE: Tree = model()
FOLD = fold_of(LIKE)


def start_in(folder: Path, **changes: Any) -> FrontendConfig:
    """What a transmitter in this folder is told."""
    (folder / "shared").mkdir(parents=True, exist_ok=True)
    plain = FrontendConfig(
        index=0, address="127.0.0.1:1", clients=CLIENTS, key=KEY.data.hex(), folder=str(folder / "t0"),
        shared=str(folder / "shared"), sheet=layout_to_json(fold_layout(FOLD, SERVER)),
        stream=True, spool=False, durable=True, encode_once=True,
        hold=4,
        hold_seconds=0.05, commit_seconds=0.005, in_flight_bytes=1 << 20, largest=1 << 16, codecs=[], codec_of=[], tls={},
        stats=None,
    )  # fmt: skip
    return replace(plain, **changes)


class Call:
    """What stands for the context of a call."""

    def __init__(self) -> None:
        self.status: grpc.StatusCode | None = None
        self.details = ""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:7"

    def add_done_callback(self, called: Callable[..., None]) -> None:
        """Nobody ends it."""

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        self.status, self.details = code, details
        raise grpc.aio.AbortError(details)


@dataclass(slots=True)
class Stage:
    """A transmitter, what it said, and its door."""

    transmitter: Frontend
    handlers: FleetService
    said: list[inside.ToProcessor] = field(default_factory=list[inside.ToProcessor])
    orders: int = 0

    def send(self, message: Any) -> None:
        """It says something to the processor."""
        self.said.append(message)

    def close(self) -> None:
        """It lets go of the processor."""

    # ---- the processor's side

    def tell(self, **fields: Any) -> None:
        """The processor says something."""
        self.transmitter.on_message(inside.ToTransmitter.FromString(inside.ToTransmitter(**fields).SerializeToString()))

    def wave(self, first: int, *clients: int, data: bytes = b"a model", **fields: Any) -> inside.ToTransmitter:
        """A message with a wave and its blob."""
        blob = write_blob(Path(self.transmitter.config.shared), data)
        wave = inside.Wave(
            first=first, clients=np.array(clients, np.uint32).tobytes(), heaviest=np.ones(len(clients)).tobytes(),
            blobs=[blob.name], lease_seconds=9.0, **fields,
        )  # fmt: skip
        new = inside.NewBlob(name=blob.name, path=blob.path, nbytes=blob.nbytes, crc32c=blob.crc32c)
        return inside.ToTransmitter(blobs=[new], waves=[wave])

    async def claims(self, count: int = 1) -> list[inside.Claim]:
        """The next claims that it makes."""

        def found() -> list[inside.Claim]:
            return [claim for message in self.said for claim in message.claims]

        await until(lambda: len(found()) >= count)
        claims = found()
        for message in self.said:
            del message.claims[:]
        return claims

    def grant(self, claim: inside.Claim, bucket: int = 0, **fields: Any) -> None:
        """The processor grants a claim."""
        self.orders += 1
        one = {
            "number": claim.number,
            "granted": True,
            "bucket": bucket,
            "weight": claim.weight,
            "factor": 1.0,
            "order": self.orders,
        }
        self.tell(grants=[inside.Grant(**(one | fields))])

    # ---- the devices' side

    def caller(self, client: int, generation: int = 1) -> pb.Caller:
        return pb.Caller(client=client, secret=secret_of(KEY, client, generation))

    async def check(self, client: int, **fields: Any) -> pb.Answer:
        """A device checks in."""
        asked = pb.CheckIn(caller=self.caller(client), **fields).SerializeToString()
        return decode_frame(await self.handlers.check(asked, Call()), pb.Answer)[0]  # type: ignore[arg-type]

    def report(self, client: int, task: int, payload: bytes | None = None, **fields: Any) -> tuple[pb.Report, bytes]:
        """A report with an honest head."""
        payload = pack_tree(model(task)) if payload is None else payload
        head: dict[str, Any] = {
            "caller": self.caller(client), "task": task, "nonce": nonce_of(KEY, task), "nbytes": len(payload),
            "crc32c": crc32c(payload), "weight": 1.0, "stats": {"loss": 0.5},
        }  # fmt: skip
        return pb.Report(**(head | fields)), payload

    def hand(self, client: int, task: int, payload: bytes | None = None, **fields: Any) -> asyncio.Task[pb.Receipt]:
        """A device hands a report in, in one message."""
        head, data = self.report(client, task, payload, **fields)

        async def handed() -> pb.Receipt:
            return decode_frame(await self.handlers.hand(encode_frame(head, data), Call()), pb.Receipt)[0]  # type: ignore[arg-type]

        return asyncio.create_task(handed())

    def stream(self, head: pb.Report, chunks: Iterable[bytes | BaseException]) -> asyncio.Task[pb.Receipt]:
        """A device hands a report in, in chunks; an exception among them breaks the line."""

        async def requests() -> AsyncIterator[bytes]:
            yield encode_frame(head)
            for chunk in chunks:
                if isinstance(chunk, BaseException):
                    raise chunk
                yield chunk

        async def handed() -> pb.Receipt:
            return decode_frame(await self.handlers.hand_stream(requests(), Call()), pb.Receipt)[0]  # type: ignore[arg-type]

        return asyncio.create_task(handed())


async def until(look: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Until this is true."""
    end = asyncio.get_running_loop().time() + seconds
    while not (result := look()):
        await asyncio.sleep(0.001)
        assert asyncio.get_running_loop().time() < end, "it did not happen"
    return result


def perform(folder: Path, act: Callable[[Stage], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """Let an act happen with a transmitter in this folder, which finds what one before it left there."""

    async def played() -> None:
        transmitter = Frontend(start_in(folder, **changes))
        stage = Stage(transmitter, FleetService(transmitter))
        transmitter.uplink.link = stage  # type: ignore[assignment]
        committing = asyncio.create_task(transmitter.group_commit.run())
        committing.add_done_callback(transmitter.on_task_done)
        try:
            await act(stage)
        finally:
            committing.cancel()

    asyncio.run(played())
