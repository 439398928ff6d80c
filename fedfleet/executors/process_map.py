"""Many pieces of work in several processes, and their results as they come."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from fedfleet.core.errors import RunFailed
from fedfleet.executors.worker_pool import block_interrupts

A = TypeVar("A")
R = TypeVar("R")


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
        with block_interrupts():  # one that still imports, or waits for work, would answer with a traceback
            futures = {pool.submit(work, piece): piece for piece in pieces}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except (KeyboardInterrupt, GeneratorExit):  # nobody wants the rest
        for child in multiprocessing.active_children():
            if child.pid not in others:
                child.terminate()
        raise
    except BrokenProcessPool:
        raise RunFailed(
            "a worker died, perhaps for lack of memory; what it had finished is kept: try again with fewer --workers"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
