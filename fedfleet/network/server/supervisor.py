"""Tending transmitters: starting them, hearing them, starting one again that died, letting them go."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors.worker_pool import deaf_to_interrupts
from fedfleet.network.frontend.frontend import GIVEN_UP, transmit
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import split_address
from fedfleet.network.protocol.process_link import Link, linked
from fedfleet.network.server.options import Start, start_bytes

_DEATHS = 20  # of one transmitter: then something is wrong that starting it again does not cure
_PATIENCE = 5.0  # seconds that one that was let go has for its end
_MOMENT = 1.0  # the same for one that let go by itself: the loop waits


@dataclass(slots=True)
class Tended:
    """One transmitter: its process (None: it lives in this one), its link, whether it has said that it is ready."""

    start: Start
    process: subprocess.Popen[bytes] | None = None
    inner: asyncio.Task[None] | None = None
    link: Link[inside.ToProcessor] | None = None
    ready: bool = False
    deaths: int = 0
    out: inside.ToTransmitter = field(default_factory=inside.ToTransmitter)


class Tending:
    """All transmitters of a server. `heard(index, message)` gets what they say, `died(index)` is told of a death, and `failed` of
    what cannot be cured: the loop would swallow an exception."""

    def __init__(
        self,
        starts: list[Start],
        heard: Callable[[int, inside.ToProcessor], None],
        died: Callable[[int], None],
        failed: Callable[[BaseException], None],
        *,
        own: bool,
    ) -> None:
        self.all = [Tended(start) for start in starts]
        self._heard, self._died, self._failed, self._own = heard, died, failed, own
        self._closing = False

    async def start(self, index: int) -> None:
        """Start one, or start it again."""
        tended = self.all[index]
        ours, theirs = socket.socketpair()
        if self._own:
            tended.inner = asyncio.create_task(transmit(theirs))
        else:
            command = [sys.executable, "-m", "fedfleet.network.frontend.frontend", str(theirs.fileno())]
            with theirs, deaf_to_interrupts():  # a child that still imports would answer Ctrl-C with a traceback
                tended.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        tended.ready = False
        link: Link[inside.ToProcessor] = Link(
            inside.ToProcessor, lambda message: self._heard(index, message), lambda: self._lost(index)
        )
        tended.link = await linked(ours, link)
        tended.out = inside.ToTransmitter()
        link.send(inside.ToTransmitter(start=start_bytes(tended.start)))

    def _lost(self, index: int) -> None:
        tended = self.all[index]
        tended.ready, tended.link = False, None
        if self._closing:
            return
        tended.deaths += 1
        code = _ended(tended.process) if tended.process is not None else 0
        if tended.inner is not None and tended.inner.done() and tended.inner.exception() is not None:
            self._failed(RunFailed(str(tended.inner.exception())))
        elif code == GIVEN_UP:  # a full disk, say: it would fail again
            self._failed(RunFailed(f"transmitter {index} could not go on, and has said why above"))
        elif tended.deaths > _DEATHS:
            self._failed(RunFailed(f"transmitter {index} died {tended.deaths} times; its last words are above"))
        else:
            self._died(index)

    def send(self) -> None:
        """Say what gathered in this turn to those who are ready to hear it."""
        for tended in self.all:
            if tended.ready and tended.link is not None and tended.out.ByteSize():
                tended.link.send(tended.out)
                tended.out = inside.ToTransmitter()

    def tell(self, index: int, message: inside.ToTransmitter) -> None:
        """Say something at once, before all that gathers in this turn; the journal must hold what it follows from."""
        link = self.all[index].link
        if link is not None:
            link.send(message)

    def pids(self) -> list[int]:
        """The processes that live."""
        return [t.process.pid for t in self.all if t.process is not None and t.process.poll() is None]

    async def close(self) -> None:
        """Let all go; who does not go by itself is ended."""
        self._closing = True
        for tended in self.all:
            if tended.link is not None:
                tended.link.close()
        for tended in self.all:
            if tended.inner is not None:
                with suppress(asyncio.CancelledError, Exception):
                    await asyncio.wait_for(tended.inner, _PATIENCE)
            if tended.process is not None:
                try:
                    await asyncio.to_thread(tended.process.wait, _PATIENCE)
                except subprocess.TimeoutExpired:
                    tended.process.kill()
                    tended.process.wait()


def _ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that let go of its link; one that does not end with that is killed."""
    try:
        return process.wait(_MOMENT)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def reserved(address: str) -> tuple[socket.socket, str]:
    """Hold a port for all transmitters, and the address with its number; refused if anybody else listens there."""
    host, port = split_address(address, any_port=True)
    bare = host.strip("[]")
    try:
        family, kind, proto, _, place = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, proto) as alone:  # without sharing: a second server must not join in silence
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(place)
            taken = alone.getsockname()
            held = socket.socket(family, kind, proto)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(taken)
    except OSError:
        raise BadInput(
            f"cannot listen on {address}: the port is taken or the host is not here; name another with --address"
        ) from None
    return held, f"{host}:{held.getsockname()[1]}"


def enough(transmitters: int, folder: Path) -> int:
    """How many transmitters there must be: those that are wanted, and one for each that left reports behind.

    >>> enough(2, Path("nowhere"))
    2
    """
    left = [int(path.name[1:]) + 1 for path in folder.glob("t[0-9]*") if path.name[1:].isdigit()]
    most = max(left, default=0)
    return most if most > max(1, transmitters) else transmitters


def starts_of(start: Start, transmitters: int, folder: str) -> list[Start]:
    """What each transmitter is told: the same, but for its number and its folder."""
    share = max(1, transmitters)
    return [
        replace(
            start,
            index=i,
            folder=f"{folder}/t{i}",
            hold=start.hold // share,
            in_flight_bytes=start.in_flight_bytes // share,
        )
        for i in range(share)
    ]
