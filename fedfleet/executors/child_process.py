"""Child processes of this package that exchange lines of JSON with the process that started them.

A child is a module of this package (or one beside it) that is run with `python -m`. It gets lines on its standard input and answers
on its standard output. When the process that started it is gone, its input ends, and it ends too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from fedfleet.core.errors import RunFailed

Body = dict[str, Any]
_GRACE = 5.0  # seconds between asking a child to end and ending it
_TAIL = 2000  # characters of a log whose last line is quoted


def package_env() -> dict[str, str]:
    """The environment in which a Python process finds this package wherever this process found it."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}


class block_interrupts:  # noqa: N801
    """What is started inside never receives Ctrl-C, which a terminal sends to the whole group: its parent alone ends it."""

    def __enter__(self) -> None:
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


class Child:
    """One child process, to which `message` is sent first. A class, since it holds a process.

    Its lines go to `inbox` with the child itself, and an empty line when it has ended; what it writes to standard error goes to
    `log` (default: a file that is only read if it fails).
    """

    def __init__(
        self,
        module: str,
        message: Body | None = None,
        *,
        arguments: Sequence[str] = (),
        inbox: SimpleQueue[tuple[Child, bytes]] | None = None,
        log: IO[bytes] | None = None,
    ) -> None:
        self.name = module.rpartition(".")[2]
        self.inbox: SimpleQueue[tuple[Child, bytes]] = inbox or SimpleQueue()
        self.log = log or tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the child
        self._process = subprocess.Popen(
            # With -P no module of the current folder hides one of ours.
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**package_env(), "PYTHONUNBUFFERED": "1"},
        )
        self.pid = self._process.pid
        threading.Thread(target=self._read_lines, daemon=True).start()
        if message is not None:
            self.tell(message)

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.inbox.put((self, line))
        self.inbox.put((self, b""))

    def tell(self, message: Body) -> None:
        """Send one line; a child that has died gets none, and its inbox says so."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, seconds: float) -> Body:
        """The next line of a child with an inbox of its own; RunFailed with its last output if it ends or takes longer."""
        try:
            _, line = self.inbox.get(timeout=seconds)
        except Empty:
            raise RunFailed(f"the {self.name} process gave no answer in {seconds:.0f} s; {self._last_output()}") from None
        if not line:
            raise RunFailed(f"the {self.name} process ended ({self.exit_text()}); {self._last_output()}")
        return json.loads(line)

    def _last_output(self) -> str:
        self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - _TAIL))
        line = last_line(self.log.read().decode(errors="replace"))
        return f"its last output: {line}" if line else "it printed nothing"

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def exit_text(self) -> str:
        """How it ended, in words."""
        code = self._process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def ask_to_end(self) -> None:
        """Close its standard input, at which it stops and gives its last answer."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def close(self, *, ask: bool = True) -> None:
        """End it: ask first, unless it has nothing to finish, then terminate, then kill."""
        self.ask_to_end()
        for end in (*((lambda: None,) if ask else ()), self._process.terminate, self._process.kill):
            end()
            try:
                self._process.wait(_GRACE)
                break
            except subprocess.TimeoutExpired:
                continue
        self.log.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def last_line(text: str) -> str:
    """The last line of a text that is not empty: of a traceback, the error."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


# ---- in the child ---------------------------------------------------------------------------------------------------


def read_message() -> Body:
    """The next line from the process that started this one; empty if nothing more comes."""
    line = sys.stdin.readline()
    return json.loads(line) if line.strip() else {}


def send_message(answer: Body) -> None:
    """Answer the process that started this one."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
