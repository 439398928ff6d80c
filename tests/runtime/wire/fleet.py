"""Real server and device processes on loopback, which never outlive their test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPEC = """
seed = 5
[task]
use = "{task}"
[world]
clients = {clients}
data = {{ use = "dirichlet", alpha = 0.5 }}
[algorithm]
epochs = 1
[pace]
{pace}
cohort = {clients}
t_break = 0.05
min_clients = 1
[stop]
rounds = {rounds}
"""
READINESS = 'use = "readiness"'


def deadline(seconds: float) -> str:
    """A spec's lines for pacing by deadline."""
    return f'use = "deadline"\nseconds = {seconds}'


@dataclass(slots=True)
class Fleet:
    """The processes of one test and where they write."""

    folder: Path
    spec: Path
    address: str = ""
    server: subprocess.Popen[bytes] | None = None
    devices: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        """The run folder that the server writes."""
        return self.folder / "wire"

    def serve(self) -> None:
        """Start the server on a free port and read that from its standard error."""
        self.server = self._start("server", "serve", str(self.spec), "--out", str(self.out), "--address", "127.0.0.1:0")
        self.address = wait_for(self._listening, 40, "a listening server")

    def start_device(self, client: int) -> None:
        """Start one device process."""
        self.devices[client] = self._start(
            f"device{client}", "device", "--server", self.address, "--client", str(client)
        )

    def answer(self, name: str, process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
        """What a process answers when it ends; a failure shows what it said."""
        code = process.wait(seconds)
        assert code == 0, (self.folder / f"{name}.err").read_text()
        return json.loads((self.folder / f"{name}.out").read_text())

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "fedfleet.app.cli", *words, "--json"]
        with (self.folder / f"{name}.out").open("wb") as out, (self.folder / f"{name}.err").open("wb") as err:
            return subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def _listening(self) -> str | None:
        said = (self.folder / "server.err").read_text()
        assert self.server is not None
        assert self.server.poll() is None, said
        found = re.search(r"listening on (\S+)", said)
        return found[1] if found else None


@contextmanager
def fleet(folder: Path, *, pace: str, rounds: int, task: str = "digits_logreg", clients: int = 3) -> Iterator[Fleet]:
    """A fleet whose processes are all gone when the test ends, however it ends."""
    spec = folder / "spec.toml"
    spec.write_text(SPEC.format(task=task, pace=pace, rounds=rounds, clients=clients))
    made = Fleet(folder, spec)
    try:
        yield made
    finally:
        for process in (made.server, *made.devices.values()):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(10)


def wait_for(look: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true thing that `look` finds, within so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError(f"no {what} within {seconds} s")
