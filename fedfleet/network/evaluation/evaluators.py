"""A judge of models that never stands in the way of receiving: in a process of its own, or in a thread for plans without torch."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fedfleet.core.container import packed
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.trees import Tree
from fedfleet.network.evaluation.results import LENGTHS, Court, Head, Judged, head_of, judged, judged_from, message

REBUILD = "fedfleet.app.assemble.rebuild:rebuild_court"
TRIES = 3  # the first, and two more if the process dies
_TAIL = 400  # characters of its last words that are worth repeating
_READY = -1  # the number of the answer to the first message


class Judging(Protocol):
    """Whoever judges models: one after the other, in the order in which they are asked."""

    async def evaluate(self, version: int, params: Tree, clients: bool) -> Judged: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Thinking:
    """A judge in a thread of this process: for plans without torch, and for models that no spec names."""

    court: Court
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "judge"))

    async def evaluate(self, version: int, params: Tree, clients: bool) -> Judged:
        """How this model does, with all clients' own test samples too if that is asked."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, judged, self.court, version, params, clients)

    async def close(self) -> None:
        """Let the thread go; a model that is being judged is not waited for."""
        self.thread.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class Line:
    """A running process and the socket to it."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ready: bool = False


@dataclass(slots=True)
class Judge:
    """A judge in a process of its own, which is started again when it dies. `facts` are what it is built from, `folder` is where
    models are laid for it (shared memory, if it can be) and where its last words are kept."""

    facts: Mapping[str, Any]
    folder: Path
    builder: str = REBUILD
    line: Line | None = None
    number: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def start(cls, facts: Mapping[str, Any], folder: Path, builder: str = REBUILD) -> Judge:
        """Start the process; it builds what it needs meanwhile, and whatever is wrong with that is said by the first answer."""
        judge = cls(facts, folder, builder)
        judge.line = await judge._started()
        return judge

    @property
    def pid(self) -> int | None:
        """The number of the process, as long as there is one."""
        return None if self.line is None else self.line.process.pid

    async def evaluate(self, version: int, params: Tree, clients: bool) -> Judged:
        """How this model does, with all clients' own test samples too if that is asked. Tried again if the process dies."""
        async with self.turn:
            self.number += 1
            path = self.folder / f"judge-{os.getpid()}-{self.number}.safetensors"
            try:
                await asyncio.to_thread(_lay, path, params)
                return await self._tried(
                    {"number": self.number, "version": version, "path": str(path), "clients": clients}
                )
            finally:
                path.unlink(missing_ok=True)

    async def _tried(self, head: Head) -> Judged:
        why = ""
        for _ in range(TRIES):
            if self.line is None:
                self.line = await self._started()
            try:
                return await self._asked(self.line, head)
            except (EOFError, ConnectionError):
                why = await self._dropped()
            except (
                asyncio.CancelledError
            ):  # half an answer may have been read: nobody could tell where the next one begins
                await self._dropped(kill=True)
                raise
        raise RunFailed(
            f"the process that judges models died {TRIES} times over version {head['version']} ({why}); "
            "give the server more memory, or let devices judge with --evaluate devices, then resume"
        )

    async def _asked(self, line: Line, head: Head) -> Judged:
        if not line.ready:
            await _answer_to(line, _READY)
            line.ready = True
        line.writer.write(message(head))
        await line.writer.drain()
        return judged_from(*await _answer_to(line, head["number"]))

    async def _started(self) -> Line:
        ours, theirs = socket.socketpair()
        command = (
            sys.executable,
            "-m",
            "fedfleet.network.evaluation.child_process",
            str(theirs.fileno()),
            self.builder,
        )
        try:
            with theirs, self._words().open("wb") as words:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=words,
                    stderr=words,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,  # an interrupt of the terminal is for the server, which ends this process in its own time
                )
        except OSError as wrong:
            ours.close()
            raise RunFailed(
                f"the process that judges models cannot be started ({wrong}); free memory or space, then resume"
            ) from wrong
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(message(self.facts))
        return Line(process, reader, writer)

    async def _dropped(self, *, kill: bool = False) -> str:
        """Let a process go that died; how it died and what it said last."""
        line, self.line = self.line, None
        assert line is not None
        line.writer.close()
        if kill and line.process.returncode is None:
            line.process.kill()
        code = await line.process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = self._said().strip()[-_TAIL:]
        return f"{how}: {said.splitlines()[-1]}" if said else how

    def _said(self) -> str:
        try:
            return self._words().read_text(encoding="utf-8", errors="replace")
        except OSError:  # the folder may be gone; how it died is known nevertheless
            return ""

    def _words(self) -> Path:
        return self.folder / f"judge-{os.getpid()}.log"

    async def close(self) -> None:
        """End the process, whatever it is doing."""
        if self.line is not None:
            await self._dropped(kill=True)
        self._words().unlink(missing_ok=True)


def _lay(path: Path, params: Tree) -> None:
    """Lay a model where the process finds it. Nothing lasts there, and so nothing is synced."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(packed(params))
    except OSError as wrong:
        raise RunFailed(
            f"a model cannot be laid down in {path.parent} to be judged ({wrong}); free some space, then resume"
        ) from wrong


async def _answer_to(line: Line, number: int) -> tuple[Head, bytes]:
    """The answer with this number; earlier ones are of questions that nobody waits for any more."""
    while True:
        head_length, length = LENGTHS.unpack(await line.reader.readexactly(LENGTHS.size))
        head, payload = head_of(await line.reader.readexactly(head_length)), await line.reader.readexactly(length)
        if "failed" in head and head["number"] in (number, _READY):
            raise _failure(head)
        if head["number"] == number:
            return head, payload


def _failure(head: Head) -> BadInput | RunFailed:
    if head["input"]:
        return BadInput(head["failed"])
    return RunFailed(f"judging a model failed: {head['kind']}: {head['failed']}")
