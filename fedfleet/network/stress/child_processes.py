"""Processes of a stress run: each is a module of this package that reads one JSON line, and answers in JSON lines.

A child ends by itself when its standard input closes, so that nothing outlives a stress run that was killed.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from fedfleet.core.errors import RunFailed

_GRACE = 5.0  # seconds between being asked to end and being ended
_TAIL = 400  # characters of what a child said before it failed


class Child:
    """One process, by the name of its module; a class, since it holds a process."""

    def __init__(self, module: str, message: dict[str, Any]) -> None:
        self.name = module.rpartition(".")[2]
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.pid = self._process.pid
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._error_lines: list[bytes] = []
        self._error_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._error_reader.start()
        threading.Thread(target=self._read, daemon=True).start()
        self.tell(message)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._error_lines.append(line)
            del self._error_lines[:-20]

    def tell(self, message: dict[str, Any]) -> None:
        """Send one JSON line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # it is gone; whoever waits for its answer is told why

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next JSON line; RunFailed with what it last said if it ends or takes longer."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise RunFailed(
                f"stress: the {self.name} process gave no answer in {seconds:.0f} s; {self._last_output()}"
            ) from None
        if not line:
            code = self._process.wait()
            self._error_reader.join(1.0)
            raise RunFailed(f"stress: the {self.name} process ended with code {code}; {self._last_output()}")
        return json.loads(line)

    def _last_output(self) -> str:
        lines = (
            b"".join(self._error_lines).decode(errors="replace").strip().splitlines()[-1:]
        )  # of a traceback, what matters
        return f"it last said: {lines[0][-_TAIL:]}" if lines else "it said nothing"

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def ask_to_end(self) -> None:
        """Close its standard input, at which it stops and gives its last answer."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def close(self) -> None:
        """End it, politely first."""
        self.ask_to_end()
        for end in (lambda: None, self._process.terminate, self._process.kill):
            end()
            try:
                self._process.wait(_GRACE)
                return
            except subprocess.TimeoutExpired:
                continue

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_message() -> dict[str, Any]:
    """The next line that this process is told; nothing more is coming if it is empty."""
    line = sys.stdin.readline()
    return json.loads(line) if line.strip() else {}


def send_message(answer: dict[str, Any]) -> None:
    """Answer the process that started this one."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
