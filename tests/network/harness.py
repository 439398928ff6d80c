"""Real server processes on loopback, which never outlive their test and are killed by their numbers alone.

The port is chosen before the first start, so that a server that was killed comes back where its devices look for it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from fedfleet.core.events import Event, ModelCommitted
from fedfleet.core.trees import content_hash
from fedfleet.store import journal
from fedfleet.store.files import load_tree
from tests.network.puppet import Puppet
from tests.network.toys import Toy, to_text
from tests.processes import start

ROOT = Path(__file__).parents[2]
PATIENT = 180.0  # seconds that a test waits for anything before it calls it a failure
DEFAULTS = {"farewell_seconds": 1.0}


@dataclass(slots=True)
class Ground:
    """One served run: its folder, its port, its processes."""

    folder: Path
    toy: Toy
    address: str
    server: subprocess.Popen[bytes] | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    starts: int = 0

    @property
    def out(self) -> Path:
        """The run folder."""
        return self.folder / "run"

    @property
    def said(self) -> str:
        """What the servers said so far, all starts together."""
        path = self.folder / "server.err"
        return path.read_text() if path.exists() else ""

    def serve(self, *, resume: bool = False, most_bytes: int | None = None, **options: Any) -> None:
        """Start the server; with `most_bytes` no file that it writes may grow larger: a full disk without a disk."""
        self.options |= options
        told = json.dumps({**DEFAULTS, "address": self.address, "devices": self.toy.clients, **self.options})
        words = ["tests.network.toy_server", str(self.out), to_text(self.toy), told]
        limit = [] if most_bytes is None else [f"--most-bytes={most_bytes}"]
        self._start([*words, *(["--resume"] if resume else []), *limit])

    def serve_spec(self, spec: Path, *words: str, resume: bool = False) -> None:
        """Start the command line's own server on a spec."""
        more = ["--resume"] if resume else []
        command = ["fedfleet.app.cli.main", "serve", str(spec), "--out", str(self.out)]
        self._start([*command, "--address", self.address, *words, *more, "--json"])

    def _start(self, command: list[str]) -> None:
        paths = [os.environ.get("FEDFLEET_TEST_PATH", ""), str(ROOT)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
        with (self.folder / "server.out").open("ab") as out, (self.folder / "server.err").open("ab") as err:
            if len(list(filter(None, paths))) > 1:  # what lies there changes the interpreter's own start, so that one has to start
                self.server = subprocess.Popen([sys.executable, "-m", *command], stdout=out, stderr=err, env=env, cwd=ROOT)
            else:
                self.server = start(*command, stdout=out, stderr=err, env=env, cwd=ROOT)
        self.starts += 1

    def await_listening(self) -> None:
        """Until calls at the port are answered: a port takes connections a little earlier."""

        def look() -> bool:
            assert self.server is not None
            assert self.server.poll() is None, self.said
            puppet = Puppet(self.address, 0, wait=5.0)
            try:
                return bool(puppet.status())
            except grpc.RpcError:
                return False
            finally:
                puppet.close()

        wait_for(look, "a listening server", said=lambda: self.said)

    def ended(self, seconds: float = PATIENT) -> int:
        """The exit code of the server, within so many seconds."""
        assert self.server is not None
        try:
            return self.server.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not end within {seconds} s; it said:\n{self.said}") from None

    # ---- killing

    def transmitters(self) -> list[int]:
        """The numbers of the processes that hold the devices' calls, oldest first."""
        assert self.server is not None
        return sorted(pid for pid in children(self.server.pid) if "network.frontend" in command_of(pid))

    def kill_processor(self) -> None:
        """SIGKILL of the deciding process alone; the others notice."""
        assert self.server is not None
        family = children(self.server.pid)
        self.server.kill()
        self.server.wait()
        wait_for(lambda: not [p for p in family if alive(p)], "end of the processes of a dead server", seconds=PATIENT)

    def kill_transmitter(self, which: int) -> None:
        """SIGKILL of one process that holds calls."""
        pids = self.transmitters()
        if pids:
            os.kill(pids[which % len(pids)], signal.SIGKILL)

    def kill_everything(self) -> None:
        """SIGKILL of all processes of the server at once."""
        if self.server is None:
            return
        family = children(self.server.pid)
        for pid in (self.server.pid, *family):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.wait()
        wait_for(lambda: not [p for p in family if alive(p)], "end of killed processes", seconds=PATIENT)

    # ---- looking

    def events(self) -> list[Event]:
        """The journal as it is now, also of a running server; nothing before there is one."""
        path = self.out / "run.db"
        return list(journal.read(path)) if path.exists() else []

    def models(self) -> list[str]:
        """The names of the models so far."""
        return [str(e.model_hash) for e in self.events() if isinstance(e, ModelCommitted)]

    def last_model(self) -> str:
        """The name of the stored model."""
        return content_hash(load_tree(self.out / "model.safetensors")[0])

    def await_event(self, kind: type[Event], count: int = 1, seconds: float = PATIENT) -> list[Event]:
        """The first `count` events of a kind, as soon as they are in the journal."""

        def look() -> list[Event]:
            result = [e for e in self.events() if isinstance(e, kind)]
            return result if len(result) >= count else []

        return wait_for(look, f"{count} {kind.__name__}", seconds=seconds, said=lambda: self.said)


def free_address() -> str:
    """An address on the loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "{}:{}".format(*probe.getsockname())


@contextmanager
def ground(folder: Path, toy: Toy) -> Iterator[Ground]:
    """A proving ground whose processes are all gone at the end, however it ends."""
    made = Ground(folder, toy, free_address())
    try:
        yield made
    finally:
        if made.server is not None and made.server.poll() is None:
            made.kill_everything()


def wait_for(
    look: Callable[[], Any],
    what: str,
    *,
    seconds: float = PATIENT,
    said: Callable[[], str] | None = None,
    every: float = 0.01,
) -> Any:
    """The first true thing that `look` finds, within so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        result = look()
        if result:
            return result
        time.sleep(every)
    raise AssertionError(f"no {what} within {seconds} s" + (f"; it was said:\n{said()}" if said else ""))


def children(pid: int) -> list[int]:
    """The numbers of the processes that this one started."""
    result: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == pid:
                    result.append(int(entry.name))
    return sorted(result)


def alive(pid: int) -> bool:
    """Is there such a process, and not only its remains?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def command_of(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
