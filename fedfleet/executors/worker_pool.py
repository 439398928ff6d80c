"""A crew: long-lived worker processes that take pieces of work; one that dies loses nothing but time.

A worker is a command that calls `attend`. It gets pieces as lines of JSON on its standard input and answers on its standard output;
whatever else it prints goes to the log. When the process that started it is gone, its input ends, and it ends too.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from fedfleet.core.errors import FedFleetError, RunFailed

Body = dict[str, Any]
Tell = Callable[[Body], None]
Work = Callable[[Body, Tell], Body]
TRIES = 3  # how often a piece, or the start of a worker, may end in a death
_PATIENCE = 5.0  # seconds that a worker has to end by itself


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """What a worker said about a piece: on the way, or at its end. `failure` is why a piece has no answer; "": it has.

    `died` counts the workers that a piece has cost so far.
    """

    piece: int
    body: Body
    ended: bool = False
    failure: str = ""
    deaths: int = 0


# ---- the process that has the work ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Worker:
    """One worker: its process, what it has said but not finished saying, the piece it has, and whether it is there yet."""

    process: subprocess.Popen[bytes]
    text: bytes = b""
    piece: int | None = None
    ready: bool = False


@dataclass(slots=True)
class _WorkerPool:
    """The workers, the pieces that wait, and how many workers each piece has cost. It has processes to end: `close` does."""

    command: Sequence[str]
    pieces: Sequence[Mapping[str, Any]]
    log: Path
    env: Mapping[str, str] | None
    waiting: deque[int]
    deaths: dict[int, int] = field(default_factory=dict[int, int])
    failed_starts: int = 0
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def close(self) -> None:
        """End every worker: its input ends, and after a while it is killed."""
        workers: list[_Worker] = [key.data for key in self.selector.get_map().values()]
        for worker in workers:
            _close_input(worker)
        for worker in workers:
            try:
                worker.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            _output(worker).close()
        self.selector.close()


def run_in_workers(
    command: Sequence[str],
    pieces: Sequence[Mapping[str, Any]],
    workers: int,
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> Generator[WorkerMessage]:
    """Have all pieces done by so many processes of this command; what they say, as it comes, with one end for every piece.

    A piece whose worker dies is given to another, three times at most. Whoever stops listening ends the workers.
    """
    pool = _WorkerPool(command, pieces, log, env, deque(range(len(pieces))))
    open_pieces = len(pieces)
    try:
        for _ in range(min(workers, open_pieces)):
            _start_worker(pool)
        while open_pieces:
            for key, _ in pool.selector.select():
                for message in _read_messages(pool, key.data):
                    open_pieces -= message.ended
                    yield message
    finally:
        pool.close()


def _start_worker(pool: _WorkerPool) -> None:
    with pool.log.open("ab") as log, block_interrupts():
        pipe = subprocess.PIPE
        process = subprocess.Popen(pool.command, stdin=pipe, stdout=pipe, stderr=log, bufsize=0, env=pool.env)
    worker = _Worker(process)
    pool.selector.register(_output(worker), selectors.EVENT_READ, worker)


class block_interrupts:  # noqa: N801
    """What is started inside never hears Ctrl-C, which a terminal sends to the whole group: only the one who asked ends it."""

    def __enter__(self) -> None:
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


def _read_messages(pool: _WorkerPool, worker: _Worker) -> Iterator[WorkerMessage]:
    data = os.read(_output(worker).fileno(), 1 << 16)
    if not data:
        yield from _handle_death(pool, worker)
        return
    *lines, worker.text = (worker.text + data).split(b"\n")
    for line in lines:
        body: Body = json.loads(line)
        piece, ended, failure = worker.piece, body.pop("ended", False), body.pop("failure", "")
        if not worker.ready:
            worker.ready = True
        elif piece is not None:
            yield WorkerMessage(piece, body, ended, failure, pool.deaths.get(piece, 0))
        if ended or piece is None:
            _send_next_piece(pool, worker)


def _send_next_piece(pool: _WorkerPool, worker: _Worker) -> None:
    """Give a worker the next piece; one for whom there is none stays, in case that another dies."""
    worker.piece = pool.waiting.popleft() if pool.waiting else None
    if worker.piece is not None:
        assert worker.process.stdin is not None
        with suppress(OSError):  # it has died, and its output will say so
            worker.process.stdin.write(json.dumps(pool.pieces[worker.piece]).encode() + b"\n")


def _handle_death(pool: _WorkerPool, worker: _Worker) -> Iterator[WorkerMessage]:
    """A worker died: its piece goes to another, or is given up."""
    pool.selector.unregister(_output(worker))
    _close_input(worker)
    _output(worker).close()
    cause = _exit_text(worker.process.wait())
    if not worker.ready:
        pool.failed_starts += 1
        if pool.failed_starts >= TRIES:
            raise RunFailed(f"no worker could be started: {cause}; {_last_log_line(pool.log)}")
    piece = worker.piece
    if piece is not None:
        deaths = pool.deaths[piece] = pool.deaths.get(piece, 0) + 1
        if deaths >= TRIES:
            why = (
                f"its worker died {deaths} times ({cause}), perhaps for lack of memory; try again with fewer --workers"
            )
            yield WorkerMessage(piece, {}, ended=True, failure=why, deaths=deaths)
        else:
            pool.waiting.appendleft(piece)
            yield WorkerMessage(piece, {}, deaths=deaths)
    if pool.waiting:
        idle = [key.data for key in pool.selector.get_map().values() if key.data.ready and key.data.piece is None]
        if idle:
            _send_next_piece(pool, idle[0])
        else:
            _start_worker(pool)


def _close_input(worker: _Worker) -> None:
    assert worker.process.stdin is not None
    with suppress(OSError):
        worker.process.stdin.close()


def _output(worker: _Worker) -> Any:
    assert worker.process.stdout is not None
    return worker.process.stdout


def _exit_text(code: int) -> str:
    """How a process ended, in words.

    >>> _death(-9), _death(1)
    ('killed by SIGKILL', 'exit code 1')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_log_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"{log} is empty"


# ---- the worker -----------------------------------------------------------------------------------------------------


def run_worker(work: Work) -> NoReturn:
    """Be a worker: do every piece that comes, one after the other, until there is nobody any more who gives one.

    `work` may tell something on the way. What it cannot do is its answer; any other error is too, and its trace is in the log.
    """
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what anybody prints is no answer
    pieces: queue.SimpleQueue[Body] = queue.SimpleQueue()
    threading.Thread(target=_read_pieces, args=(pieces,), daemon=True).start()

    def tell(body: Body) -> None:
        out.write(json.dumps(body).encode() + b"\n")

    tell({})
    while True:
        tell({**answer_piece(work, pieces.get(), tell), "ended": True})


def answer_piece(work: Work, piece: Body, tell: Tell) -> Body:
    """What a piece gives; what cannot be done is the answer too, under `failure`."""
    try:
        return work(piece, tell)
    except FedFleetError as error:
        return {"failure": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"failure": f"{type(error).__name__}: {error}"}


def _read_pieces(pieces: queue.SimpleQueue[Body]) -> None:
    """Read pieces as they come. When the input ends, so does the worker, whatever it is doing: nobody waits for it any more."""
    for line in sys.stdin.buffer:
        pieces.put(json.loads(line))
    os._exit(0)
