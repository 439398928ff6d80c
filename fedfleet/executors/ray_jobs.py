"""Errands: whole pieces of work on a Ray cluster, one task each; what they write goes to a folder that all machines share."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

from fedfleet.core.errors import RunFailed
from fedfleet.executors.ray import RETRIES, Cluster, wait_for_any, worker_death_errors
from fedfleet.executors.worker_jobs import check_versions, versions
from fedfleet.executors.worker_pool import Body, Tell, Work, WorkerMessage, answer_piece

Versions = tuple[tuple[str, str], ...]


def run_ray_jobs(cluster: Cluster, work: Work, pieces: Sequence[Mapping[str, Any]], *, gpus: float = 0) -> Generator[WorkerMessage]:
    """Have all pieces done by Ray, and give what is said of them on the way, and the end of each; `work` is a function of a module.

    Ray begins a piece again whose worker died, a few times; then it is given up, and the others go on. `gpus` is what each piece
    occupies, where the cluster has any. Whoever stops listening calls off what has not been done.
    """
    ray = cluster.ray
    if gpus and not ray.cluster_resources().get("GPU"):
        gpus = 0  # the run itself says that there is none, where Ray would wait for one
    remote = ray.remote(num_cpus=cluster.task_cpus, num_gpus=gpus, max_retries=RETRIES)(run_piece)
    mailbox = ray.remote(num_cpus=0)(Mailbox).remote()
    pending = {remote.remote(work, dict(piece), versions(), mailbox, i): i for i, piece in enumerate(pieces)}
    mailbox_promise = mailbox.get_all.remote()
    try:
        while pending:
            for promise in wait_for_any(cluster, [*pending, *([] if mailbox_promise is None else [mailbox_promise])]):
                if promise in pending:
                    yield _end_message(ray, promise, pending.pop(promise))
                    continue
                messages = _read_mailbox(ray, promise)
                mailbox_promise = None if messages is None else mailbox.get_all.remote()
                open_pieces = set(pending.values())  # whose end was told has no more to say
                yield from (WorkerMessage(piece, body) for piece, body in messages or () if piece in open_pieces)
    finally:
        for promise in pending:
            ray.cancel(promise, force=True)  # the ear goes by itself when nobody knows it any more


class Mailbox:
    """An actor that everybody who does a piece can tell how far it is."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Body]] = []
        self._has_messages = asyncio.Event()

    async def put(self, piece: int, body: Body) -> None:
        """Take a word about a piece."""
        self._messages.append((piece, body))
        self._has_messages.set()

    async def get_all(self) -> list[tuple[int, Body]]:
        """What was said since this was last asked, as soon as there is something."""
        await self._has_messages.wait()
        messages, self._messages = self._messages, []
        self._has_messages.clear()
        return messages


def _read_mailbox(ray: Any, promise: Any) -> list[tuple[int, Body]] | None:
    """What was heard; None if nobody listens any more. The pieces go on then, and only their ends are told."""
    try:
        return ray.get(promise)
    except ray.exceptions.RayError:
        return None


def _end_message(ray: Any, promise: Any, piece: int) -> WorkerMessage:
    try:
        body: Body = ray.get(promise)
    except worker_death_errors(ray) as error:
        times = RETRIES + 1
        why = f"its Ray worker died {times} times ({type(error).__name__}), perhaps for lack of memory"
        return WorkerMessage(piece, {}, ended=True, failure=why, deaths=times)
    except ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        return WorkerMessage(
            piece, {}, ended=True, failure=f"Ray could not run it; check that the same fedfleet is installed on the workers: {last}"
        )
    return WorkerMessage(piece, body, ended=True, failure=body.pop("failure", ""))


def run_piece(work: Work, piece: Body, expected: Versions, mailbox: Any, place: int) -> Body:
    """Do a piece on the machine that got it, if that computes with what the others compute with."""

    def checked_work(piece: Body, tell: Tell) -> Body:
        try:
            check_versions(expected)
        except RunFailed as error:
            raise RunFailed(f"a Ray worker cannot run this job: {error}") from None
        return work(piece, tell)

    return answer_piece(checked_work, piece, partial(mailbox.put.remote, place))
