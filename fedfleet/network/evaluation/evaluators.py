"""Evaluates models without delaying reports: in a process of its own.

That is `python -m fedfleet.network.evaluation.evaluators DESCRIPTOR MODULE:FUNCTION`. The first message says what to evaluate
with (`function(facts)` builds it), every other one names a file with a model. It ends when the socket closes, also in the midst of
its work, and so never outlives the server. A message is a head in JSON and a payload in safetensors format, each after its length:
nothing that is read can be code.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from fedfleet.core.commands import Evaluate
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Executor, Plan
from fedfleet.core.records import ClientScores, Score, ServerState, Tally
from fedfleet.core.sources import World
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import Tree
from fedfleet.executors.gather import evaluate
from fedfleet.store.client_memory import ClientMemory

LENGTHS = struct.Struct("<II")  # of the head and of the payload
Head = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EvalContext:
    """What a model is judged with: the plan, the world with its test samples, and an executor."""

    plan: Plan
    world: World
    execute: Executor


@dataclass(frozen=True, slots=True)
class EvalResult:
    """How one model does on the central test set, on all clients' own if that was asked, and on people held out if any are."""

    score: Score
    clients: ClientScores | None = None
    unseen: Tally | None = None


def evaluate_model(context: EvalContext, version: int, params: Tree, clients: bool) -> EvalResult:
    """Judge a model as a simulation does, to the last bit. What clients remember is theirs, and not known here."""
    command = Evaluate(version, ServerState(params), clients)
    evaluated = evaluate(context.plan, context.world, context.execute, ClientMemory(), command, 0.0)
    score = Score(evaluated.correct, evaluated.total, evaluated.loss, evaluated.measures)
    return EvalResult(score, evaluated.clients, evaluated.unseen)


def encode_message(head: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """A head and a payload as one piece of bytes."""
    head_data = json.dumps(head).encode()
    return b"".join((LENGTHS.pack(len(head_data), len(payload)), head_data, payload))


def encode_result(number: int, result: EvalResult) -> bytes:
    """The answer to question `number`. Floats survive JSON to the last bit, as do those that are not finite."""
    score, clients = result.score, result.clients
    head: Head = {"number": number, "correct": score.correct, "total": score.total, "loss": score.loss}
    if score.measures:
        head["measures"] = dict(score.measures)
    if result.unseen is not None:
        head["unseen"] = list(result.unseen)
    if clients is None:
        return encode_message(head)
    return encode_message(head, pack_tree({"clients": clients.clients, "correct": clients.correct, "total": clients.total}))


def decode_result(head: Head, payload: bytes) -> EvalResult:
    """The inverse of `encode_result`."""
    measures = {str(name): float(value) for name, value in head.get("measures", {}).items()}
    score = Score(int(head["correct"]), int(head["total"]), float(head["loss"]), measures)
    unseen = Tally(*map(int, head["unseen"])) if "unseen" in head else None
    if not payload:
        return EvalResult(score, None, unseen)
    columns = unpack_tree(payload)
    return EvalResult(score, ClientScores(columns["clients"], columns["correct"], columns["total"]), unseen)


DEFAULT_BUILDER = "fedfleet.app.assemble.rebuild:rebuild_eval_context"
MAX_TRIES = 3  # the first, and two more if the process dies
_LOG_TAIL = 400  # characters of its last words that are worth repeating
_READY = -1  # the number of the answer to the first message


class Evaluator(Protocol):
    """Whoever judges models: one after the other, in the order in which they are asked."""

    async def evaluate(self, version: int, params: Tree, clients: bool) -> EvalResult: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Connection:
    """A running process and the socket to it."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ready: bool = False


@dataclass(slots=True)
class ProcessEvaluator:
    """A judge in a process of its own, which is started again when it dies. `facts` are what it is built from, `folder` is where
    models are laid for it (shared memory, if it can be) and where its last words are kept."""

    facts: Mapping[str, Any]
    folder: Path
    builder: str = DEFAULT_BUILDER
    connection: Connection | None = None
    number: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def start(cls, facts: Mapping[str, Any], folder: Path, builder: str = DEFAULT_BUILDER) -> ProcessEvaluator:
        """Start the process; it builds what it needs meanwhile, and whatever is wrong with that is said by the first answer."""
        evaluator = cls(facts, folder, builder)
        evaluator.connection = await evaluator._start_process()
        return evaluator

    @property
    def pid(self) -> int | None:
        """The number of the process, as long as there is one."""
        return None if self.connection is None else self.connection.process.pid

    async def evaluate(self, version: int, params: Tree, clients: bool) -> EvalResult:
        """How this model does, with all clients' own test samples too if that is asked. Tried again if the process dies."""
        async with self.lock:
            self.number += 1
            path = self.folder / f"judge-{os.getpid()}-{self.number}.safetensors"
            try:
                await asyncio.to_thread(_write_model, path, params)
                return await self._evaluate_with_retries(
                    {"number": self.number, "version": version, "path": str(path), "clients": clients}
                )
            finally:
                path.unlink(missing_ok=True)

    async def _evaluate_with_retries(self, head: Head) -> EvalResult:
        reason = ""
        for _ in range(MAX_TRIES):
            if self.connection is None:
                self.connection = await self._start_process()
            try:
                return await self._request(self.connection, head)
            except (EOFError, ConnectionError):
                reason = await self._drop_process()
            except asyncio.CancelledError:  # half an answer may have been read: nobody could tell where the next one begins
                await self._drop_process(kill=True)
                raise
        raise RunFailed(
            f"the process that evaluates models died {MAX_TRIES} times on version {head['version']} ({reason}); "
            "give the server more memory, or let devices evaluate with --evaluate devices, then resume"
        )

    async def _request(self, connection: Connection, head: Head) -> EvalResult:
        if not connection.ready:
            await _read_answer(connection, _READY)
            connection.ready = True
        connection.writer.write(encode_message(head))
        await connection.writer.drain()
        return decode_result(*await _read_answer(connection, head["number"]))

    async def _start_process(self) -> Connection:
        own_end, child_end = socket.socketpair()
        module = "fedfleet.network.evaluation.evaluators"
        command = (sys.executable, "-m", module, str(child_end.fileno()), self.builder)
        try:
            with child_end, self._log_path().open("wb") as log:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(child_end.fileno(),),
                    process_group=0,  # an interrupt of the terminal is for the server, which ends this process in its own time
                )
        except OSError as error:
            own_end.close()
            raise RunFailed(
                f"the process that evaluates models cannot be started ({error}); free memory or space, then resume"
            ) from error
        reader, writer = await asyncio.open_connection(sock=own_end)
        writer.write(encode_message(self.facts))
        return Connection(process, reader, writer)

    async def _drop_process(self, *, kill: bool = False) -> str:
        """Let a process go that died; how it died and what it said last."""
        connection, self.connection = self.connection, None
        assert connection is not None
        connection.writer.close()
        if kill and connection.process.returncode is None:
            connection.process.kill()
        code = await connection.process.wait()
        exit_text = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        log_tail = self._read_log().strip()[-_LOG_TAIL:]
        return f"{exit_text}: {log_tail.splitlines()[-1]}" if log_tail else exit_text

    def _read_log(self) -> str:
        try:
            return self._log_path().read_text(encoding="utf-8", errors="replace")
        except OSError:  # the folder may be gone; how it died is known nevertheless
            return ""

    def _log_path(self) -> Path:
        return self.folder / f"judge-{os.getpid()}.log"

    async def close(self) -> None:
        """End the process, whatever it is doing."""
        if self.connection is not None:
            await self._drop_process(kill=True)
        self._log_path().unlink(missing_ok=True)


def _write_model(path: Path, params: Tree) -> None:
    """Lay a model where the process finds it. Nothing lasts there, and so nothing is synced."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(pack_tree(params))
    except OSError as error:
        raise RunFailed(
            f"a model cannot be written to {path.parent} for its evaluation ({error}); free some space, then resume"
        ) from error


async def _read_answer(connection: Connection, number: int) -> tuple[Head, bytes]:
    """The answer with this number; earlier ones are of questions that nobody waits for any more."""
    while True:
        head_length, length = LENGTHS.unpack(await connection.reader.readexactly(LENGTHS.size))
        head: Head = json.loads(await connection.reader.readexactly(head_length))
        payload = await connection.reader.readexactly(length)
        if "failed" in head and head["number"] in (number, _READY):
            if head["input"]:
                raise BadInput(head["failed"])
            raise RunFailed(f"evaluating a model failed: {head['kind']}: {head['failed']}")
        if head["number"] == number:
            return head, payload


_NICENESS = 5  # receiving reports comes before judging models, where both want the same core


def main(descriptor: int, builder: str) -> None:
    """Judge until the socket closes."""
    connection = socket.socket(fileno=descriptor)
    questions = SimpleQueue[Head]()
    Thread(target=_listen, args=(connection, questions), daemon=True).start()
    os.nice(_NICENESS)
    try:
        module, _, name = builder.partition(":")
        context: EvalContext = getattr(import_module(module), name)(questions.get())
    except Exception as error:
        _fail(connection, -1, error)
        return
    connection.sendall(encode_message({"number": -1}))
    while True:
        _answer(connection, context, questions.get())


def _listen(connection: socket.socket, questions: SimpleQueue[Head]) -> None:
    """Pass questions on; end the process, whatever it is doing, when nobody is there any more."""
    try:
        while True:
            head_size, payload_size = LENGTHS.unpack(_read(connection, LENGTHS.size))
            question: Head = json.loads(_read(connection, head_size))
            _read(connection, payload_size)
            questions.put(question)
    except (OSError, EOFError):
        os._exit(0)


def _read(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(min(length - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _answer(connection: socket.socket, context: EvalContext, head: Head) -> None:
    number = int(head["number"])
    try:
        params = unpack_tree(Path(head["path"]).read_bytes())
        result = evaluate_model(context, int(head["version"]), params, bool(head["clients"]))
    except Exception as error:
        _fail(connection, number, error)
    else:
        connection.sendall(encode_result(number, result))


def _fail(connection: socket.socket, number: int, wrong: Exception) -> None:
    """Say why; the other side raises it as what it was: a mistake of a person, or of the run."""
    facts: dict[str, Any] = {"number": number, "failed": str(wrong) or type(wrong).__name__}
    connection.sendall(encode_message({**facts, "input": isinstance(wrong, BadInput), "kind": type(wrong).__name__}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
