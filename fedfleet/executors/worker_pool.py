"""Work in several processes: a pool of workers that exchange JSON, and a map over pickled pieces.

A worker is this module run with the name of a function. It gets pieces and answers as `child_process` says, and what it prints
goes to the log. A piece whose worker dies is given to another, so that a death costs only time.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from fedfleet.core.errors import FedFleetError, RunFailed
from fedfleet.executors.child_process import Body, Child, block_interrupts, last_line

A = TypeVar("A")
R = TypeVar("R")
Tell = Callable[[Body], None]
# A function of a module: from a piece, and what sends messages on the way, to an answer.
Work = Callable[[Body, Tell], Body]
# How often a piece, or the start of a worker, may end in a death.
TRIES = 3
_LOG_KEY = "log of the pool"  # of a message that is no piece


def processor_count() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """What a worker sent about a piece: on the way, or at its end. `failure` is why a piece has no answer; "": it has.

    `deaths` counts the workers that a piece has cost so far.
    """

    piece: int
    body: Body
    ended: bool = False
    failure: str = ""
    deaths: int = 0


# ---- the pool -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Worker:
    """The piece that a worker has, and whether it has started."""

    piece: int | None = None
    ready: bool = False


@dataclass(slots=True)
class WorkerPool:
    """The workers, the pieces that wait, and how many workers each piece has cost. It has processes to end: `close` does.

    `work` names the function of a worker, as module:function, so that workers start before this process has loaded it.
    """

    work: str
    log: Path
    pieces: Sequence[Mapping[str, Any]] = ()
    waiting: deque[int] = field(default_factory=deque[int])
    deaths: dict[int, int] = field(default_factory=dict[int, int])
    failed_starts: int = 0
    workers: dict[Child, _Worker] = field(default_factory=dict[Child, _Worker])
    inbox: queue.SimpleQueue[tuple[Child, bytes]] = field(default_factory=queue.SimpleQueue)

    def __call__(self, pieces: Sequence[Mapping[str, Any]]) -> Generator[WorkerMessage]:
        """Have all of these pieces done: their messages as they come, with one end for every piece."""
        return _perform(self, pieces)

    def log_to(self, path: Path) -> None:
        """Keep what the workers print in this file: they may have been started before there was a place for it."""
        if path == self.log:
            return
        with path.open("ab") as file:
            file.write(self.log.read_bytes())
        self.log = path
        for child in self.workers:
            child.tell({_LOG_KEY: str(path.absolute())})

    def close(self) -> None:
        """End every worker."""
        for child in self.workers:
            child.ask_to_end()
        for child, worker in self.workers.items():
            child.close(ask=worker.ready)  # others may still be loading their libraries, and have nothing to finish


@contextmanager
def open_workers(work: str, workers: int, *, log: Path) -> Iterator[WorkerPool]:
    """That many workers, which start now and do what they are given until the end. `work`: their function, as module:function.

    A piece whose worker dies is given to another, three times at most.
    """
    pool = WorkerPool(work, log)
    try:
        for _ in range(workers):
            _start_worker(pool)
        yield pool
    finally:
        pool.close()


def run_in_workers(work: Work, pieces: Sequence[Mapping[str, Any]], workers: int, *, log: Path) -> Generator[WorkerMessage]:
    """Have all pieces done by that many processes, which end with them; closing the generator ends them too."""
    with open_workers(f"{work.__module__}:{work.__qualname__}", min(workers, len(pieces)), log=log) as perform:
        yield from perform(pieces)


def _perform(pool: WorkerPool, pieces: Sequence[Mapping[str, Any]]) -> Generator[WorkerMessage]:
    pool.pieces, pool.waiting, pool.deaths = pieces, deque(range(len(pieces))), {}
    for child, worker in pool.workers.items():
        if worker.ready:
            _send_next_piece(pool, child)
    open_pieces = len(pieces)
    while open_pieces:
        child, line = pool.inbox.get()
        for message in _read_message(pool, child, line) if line else _handle_death(pool, child):
            open_pieces -= message.ended
            yield message


def _start_worker(pool: WorkerPool) -> None:
    with block_interrupts():
        child = Child(__name__, arguments=[pool.work], inbox=pool.inbox, log=pool.log.open("ab"))
    pool.workers[child] = _Worker()


def _read_message(pool: WorkerPool, child: Child, line: bytes) -> Iterator[WorkerMessage]:
    worker, body = pool.workers[child], json.loads(line)
    piece, ended, failure = worker.piece, body.pop("ended", False), body.pop("failure", "")
    if not worker.ready:
        worker.ready = True
    elif piece is not None:
        yield WorkerMessage(piece, body, ended, failure, pool.deaths.get(piece, 0))
    if ended or piece is None:
        _send_next_piece(pool, child)


def _send_next_piece(pool: WorkerPool, child: Child) -> None:
    """Give a worker the next piece; a worker for which there is none stays, in case another dies."""
    piece = pool.workers[child].piece = pool.waiting.popleft() if pool.waiting else None
    if piece is not None:
        child.tell(dict(pool.pieces[piece]))


def _handle_death(pool: WorkerPool, child: Child) -> Iterator[WorkerMessage]:
    """A worker died: its piece goes to another, or is given up."""
    worker, cause = pool.workers.pop(child), child.exit_text()
    child.close()
    if not worker.ready:
        pool.failed_starts += 1
        if pool.failed_starts >= TRIES:
            output = last_line(pool.log.read_text(encoding="utf-8", errors="replace")) or f"{pool.log} is empty"
            raise RunFailed(f"no worker could be started: {cause}; {output}")
    piece = worker.piece
    if piece is not None:
        deaths = pool.deaths[piece] = pool.deaths.get(piece, 0) + 1
        if deaths >= TRIES:
            why = f"its worker died {deaths} times ({cause}), perhaps for lack of memory; try again with fewer workers (--workers)"
            yield WorkerMessage(piece, {}, ended=True, failure=why, deaths=deaths)
        else:
            pool.waiting.appendleft(piece)
            yield WorkerMessage(piece, {}, deaths=deaths)
    if pool.waiting:
        idle = next((child for child, other in pool.workers.items() if other.ready and other.piece is None), None)
        if idle is None:
            _start_worker(pool)
        else:
            _send_next_piece(pool, idle)


# ---- the worker -----------------------------------------------------------------------------------------------------


def run_worker(work: Work) -> NoReturn:
    """Be a worker: do every piece that comes, one after the other, until the pool is gone.

    `work` may send messages on the way. A refusal is an answer; so is any other error, and its traceback is in the log.
    """
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    # What the work prints goes to the log: standard output carries answers only.
    os.dup2(2, 1)
    pieces: queue.SimpleQueue[Body] = queue.SimpleQueue()
    threading.Thread(target=_read_pieces, args=(pieces,), daemon=True).start()

    def tell(body: Body) -> None:
        out.write(json.dumps(body).encode() + b"\n")

    tell({})
    while True:
        tell({**answer_piece(work, pieces.get(), tell), "ended": True})


def answer_piece(work: Work, piece: Body, tell: Tell) -> Body:
    """The answer to a piece; why it could not be done is an answer too, under `failure`."""
    try:
        return work(piece, tell)
    except FedFleetError as error:
        return {"failure": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"failure": f"{type(error).__name__}: {error}"}


def _read_pieces(pieces: queue.SimpleQueue[Body]) -> None:
    """Read pieces as they come. When the input ends, so does the worker, whatever it is doing: the pool is gone."""
    for line in sys.stdin.buffer:
        body = json.loads(line)
        if _LOG_KEY in body:
            log = os.open(body[_LOG_KEY], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
        else:
            pieces.put(body)
    os._exit(0)


# ---- pickled pieces -------------------------------------------------------------------------------------------------


def map_in_processes(work: Callable[[A], R], pieces: Sequence[A], workers: int) -> Iterator[tuple[A, R]]:
    """Each piece with its result, in the order in which they are done; one worker works here, in order.

    `work` is a function of a module, and pieces and results can be pickled. The first failure stops what has not begun; Ctrl-C,
    which is for this process alone, stops everything.
    """
    if min(workers, len(pieces)) <= 1:
        yield from ((piece, work(piece)) for piece in pieces)
        return
    # Started afresh: a copy of this process would share its locks and threads.
    pool = ProcessPoolExecutor(min(workers, len(pieces)), multiprocessing.get_context("spawn"))
    others = {child.pid for child in multiprocessing.active_children()}
    try:
        with block_interrupts():  # a process that still imports, or waits for work, would answer with a traceback
            futures = {pool.submit(work, piece): piece for piece in pieces}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except (KeyboardInterrupt, GeneratorExit):  # the caller does not want the rest
        for child in multiprocessing.active_children():
            if child.pid not in others:
                child.terminate()
        raise
    except BrokenProcessPool:
        raise RunFailed(
            "a worker process died, perhaps for lack of memory; finished work is kept: try again with fewer workers (--workers)"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


if __name__ == "__main__":
    _module, _, _function = sys.argv[1].partition(":")
    run_worker(getattr(import_module(_module), _function))
