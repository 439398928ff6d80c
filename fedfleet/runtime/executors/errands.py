"""Errands: whole pieces of work on a Ray cluster, one task each; what they write goes to a folder that all machines share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedfleet.runtime.crew import Body, Said, Work, answered
from fedfleet.runtime.executors.ray import RETRIES, connect


def errands(
    work: Work, pieces: Sequence[Mapping[str, Any]], *, workers: int | None, address: str | None, threads: int = 1
) -> Iterator[Said]:
    """Have all pieces done by Ray, and give the end of each as it comes; `work` is a function of a module.

    Ray begins a piece again whose worker died, a few times; then it is given up, and the others go on.
    """
    cluster = connect(workers, address, threads)
    ray = cluster.ray
    try:
        remote = ray.remote(num_cpus=threads, max_retries=RETRIES)(run_errand)
        out = {remote.remote(work, dict(piece)): i for i, piece in enumerate(pieces)}
        while out:
            for promise in ray.wait(list(out), num_returns=1)[0]:
                yield _end(ray, promise, out.pop(promise))
    finally:
        cluster.close()


def _end(ray: Any, promise: Any, piece: int) -> Said:
    try:
        body: Body = ray.get(promise)
    except ray.exceptions.RayError as wrong:
        last = str(wrong).strip().splitlines()[-1]
        return Said(
            piece, {}, ended=True, failure=f"Ray could not have it done, is this fedfleet installed there? {last}"
        )
    return Said(piece, body, ended=True, failure=body.pop("failure", ""))


def run_errand(work: Work, piece: Body) -> Body:
    """Do a piece on the machine that got it."""
    return answered(work, piece, _say_nothing)


def _say_nothing(body: Body) -> None:
    """Nobody hears what a task of Ray says on the way."""
