"""Starts and watches frontends: the processes that hold devices' calls. One that dies is started again."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors.child_process import block_interrupts
from fedfleet.network.frontend.frontend import FAILURE_EXIT_CODE, run_frontend
from fedfleet.network.operations.metrics import Totals, end_process, update_process
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import split_address
from fedfleet.network.protocol.process_link import Link, connect_link
from fedfleet.network.server.options import FrontendConfig, config_to_bytes

_MAX_DEATHS = 20  # of one frontend: then something is wrong that starting it again does not cure
_CLOSE_SECONDS = 5.0  # that a frontend has to end when the server closes
_EXIT_SECONDS = 1.0  # that one has which closed its link by itself: the loop waits


@dataclass(slots=True)
class FrontendProcess:
    """One frontend: its process (None: it runs in this one), its link, whether it is ready, what goes to it after this turn."""

    config: FrontendConfig
    process: subprocess.Popen[bytes] | None = None
    task: asyncio.Task[None] | None = None
    link: Link[inside.ToProcessor] | None = None
    ready: bool = False
    deaths: int = 0
    outbox: inside.ToTransmitter = field(default_factory=inside.ToTransmitter)
    counters: Mapping[str, float] = field(default_factory=dict[str, float])


class Supervisor:
    """All frontends of a server, their outboxes and counters.

    `on_message(index, message)` gets what they say, `on_death(index)` is called at a death, and `on_failure` gets what cannot be
    cured: asyncio would swallow an exception.
    """

    def __init__(
        self,
        configs: list[FrontendConfig],
        on_message: Callable[[int, inside.ToProcessor], None],
        on_death: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
        *,
        in_process: bool,
    ) -> None:
        self.frontends = [FrontendProcess(config) for config in configs]
        self._on_message, self._on_death, self._on_failure = on_message, on_death, on_failure
        self._in_process, self._closing = in_process, False
        self._draining = False
        self.listening = asyncio.Event()  # did every frontend listen once?
        self.totals = Totals()  # the counters of all frontends that ever were
        self.strikes: Callable[[], list[list[float]]] = list  # clients that were struck lately, and what each has left

    async def start(self, index: int) -> None:
        """Start one, or start it again."""
        frontend = self.frontends[index]
        own_end, frontend_end = socket.socketpair()
        if self._in_process:
            frontend.task = asyncio.create_task(run_frontend(frontend_end))
        else:
            command = [sys.executable, "-m", "fedfleet.network.frontend.frontend", str(frontend_end.fileno())]
            with frontend_end, block_interrupts():  # a child that still imports would answer Ctrl-C with a traceback
                frontend.process = subprocess.Popen(command, pass_fds=(frontend_end.fileno(),), stdin=subprocess.DEVNULL)
        frontend.ready = False
        link: Link[inside.ToProcessor] = Link(
            inside.ToProcessor, lambda message: self._on_message(index, message), lambda: self._on_lost(index)
        )
        frontend.link = await connect_link(own_end, link)
        frontend.outbox = inside.ToTransmitter()
        link.send(inside.ToTransmitter(start=config_to_bytes(replace(frontend.config, strikes=self.strikes()))))

    def _on_lost(self, index: int) -> None:
        frontend = self.frontends[index]
        frontend.ready, frontend.link = False, None
        if self._closing:
            return
        self.totals = end_process(self.totals, index)
        frontend.counters = {}
        frontend.deaths += 1
        code = _exit_code(frontend.process) if frontend.process is not None else 0
        if frontend.task is not None and frontend.task.done() and frontend.task.exception() is not None:
            self._on_failure(RunFailed(str(frontend.task.exception())))
        elif code == FAILURE_EXIT_CODE:  # a full disk, say: it would fail again
            self._on_failure(RunFailed(f"frontend {index} failed; see the reason above"))
        elif frontend.deaths > _MAX_DEATHS:
            self._on_failure(RunFailed(f"frontend {index} died {frontend.deaths} times; see its last lines above"))
        else:
            self._on_death(index)

    def all_ready(self) -> bool:
        """Does every frontend listen?"""
        return all(frontend.ready for frontend in self.frontends)

    def folders(self) -> list[str]:
        """The folders of all frontends."""
        return [frontend.config.folder for frontend in self.frontends]

    def on_ready(self, index: int) -> inside.ToTransmitter:
        """A frontend listens; what goes to it at the end of this turn."""
        frontend = self.frontends[index]
        frontend.ready = True
        frontend.outbox.drain = self._draining
        if self.all_ready():
            self.listening.set()
        return frontend.outbox

    def on_counters(self, index: int, counters: Mapping[str, float]) -> None:
        """What a frontend counted; in its next life it counts from 0 again."""
        if counters:
            frontend = self.frontends[index]
            frontend.counters = dict(counters)
            self.totals = update_process(self.totals, index, frontend.deaths, frontend.counters)

    def counted(self, name: str) -> float:
        """The sum of a counter over the frontends that run now."""
        return sum(frontend.counters.get(name, 0) for frontend in self.frontends)

    def drain(self) -> None:
        """No new work for devices, also from frontends that start again."""
        self._draining = True
        self.tell(inside.ToTransmitter(drain=True))

    def tell(self, message: inside.ToTransmitter, index: int | None = None, *, but: int | None = None) -> None:
        """Send this at the end of the turn: to one frontend, or to all that are ready. One that is not is told all when it is."""
        if index is not None:
            self.frontends[index].outbox.MergeFrom(message)
            return
        for other, frontend in enumerate(self.frontends):
            if frontend.ready and other != but:
                frontend.outbox.MergeFrom(message)

    def send(self) -> None:
        """Send what gathered in this turn to frontends that are ready."""
        for frontend in self.frontends:
            if frontend.ready and frontend.link is not None and frontend.outbox.ByteSize():
                frontend.link.send(frontend.outbox)
                frontend.outbox = inside.ToTransmitter()

    def send_now(self, index: int, message: inside.ToTransmitter) -> None:
        """Send this at once, before all that gathers in this turn; the journal must hold what it follows from."""
        link = self.frontends[index].link
        if link is not None:
            link.send(message)

    def pids(self) -> list[int]:
        """The processes that run."""
        return [t.process.pid for t in self.frontends if t.process is not None and t.process.poll() is None]

    async def close(self) -> None:
        """End all; a process that does not end by itself is killed."""
        self._closing = True
        for frontend in self.frontends:
            if frontend.link is not None:
                frontend.link.close()
        for frontend in self.frontends:
            if frontend.task is not None:
                with suppress(asyncio.CancelledError, Exception):
                    await asyncio.wait_for(frontend.task, _CLOSE_SECONDS)
            if frontend.process is not None:
                try:
                    await asyncio.to_thread(frontend.process.wait, _CLOSE_SECONDS)
                except subprocess.TimeoutExpired:
                    frontend.process.kill()
                    frontend.process.wait()


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that let go of its link; one that does not end with that is killed."""
    try:
        return process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def reserve_port(address: str, option: str = "--address") -> tuple[socket.socket, str]:
    """Hold a port for all frontends, and the address with its number; refused if another process listens there."""
    host, port = split_address(address, any_port=True)
    bare = host.strip("[]")
    try:
        family, kind, proto, _, sockaddr = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM)[0]
        # Without sharing: a second server must not join in silence.
        with socket.socket(family, kind, proto) as exclusive:
            exclusive.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            exclusive.bind(sockaddr)
            bound = exclusive.getsockname()
            reservation = socket.socket(family, kind, proto)
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reservation.bind(bound)
    except OSError:
        raise BadInput(
            f"cannot listen on {address}: the port is in use, or the host is not on this machine; "
            f"give another address with {option}"
        ) from None
    return reservation, f"{host}:{reservation.getsockname()[1]}"


def frontend_count(wanted: int, folder: Path) -> int:
    """How many frontends there must be: those that are wanted, and one for each that left reports behind.

    >>> frontend_count(2, Path("nowhere"))
    2
    """
    numbers = [int(path.name[1:]) + 1 for path in folder.glob("t[0-9]*") if path.name[1:].isdigit()]
    needed = max(numbers, default=0)
    return needed if needed > max(1, wanted) else wanted


def frontend_configs(config: FrontendConfig, count: int, folder: str) -> list[FrontendConfig]:
    """The configuration of each frontend: the same, but for its number and its folder."""
    share = max(1, count)
    return [
        replace(
            config, index=i, folder=f"{folder}/t{i}", hold=config.hold // share, in_flight_bytes=config.in_flight_bytes // share
        )
        for i in range(share)
    ]
