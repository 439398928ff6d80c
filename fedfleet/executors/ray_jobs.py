"""Errands: whole pieces of work on a Ray cluster, one task each; what they write goes to a folder that all machines share."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

from fedfleet.core.errors import RunFailed
from fedfleet.executors.ray import RETRIES, Cluster, awaited, deaths
from fedfleet.executors.worker_jobs import check_versions, versions
from fedfleet.executors.worker_pool import Body, Said, Tell, Work, answered

Versions = tuple[tuple[str, str], ...]


def errands(cluster: Cluster, work: Work, pieces: Sequence[Mapping[str, Any]], *, gpus: float = 0) -> Generator[Said]:
    """Have all pieces done by Ray, and give what is said of them on the way, and the end of each; `work` is a function of a module.

    Ray begins a piece again whose worker died, a few times; then it is given up, and the others go on. `gpus` is what each piece
    occupies, where the cluster has any. Whoever stops listening calls off what has not been done.
    """
    ray = cluster.ray
    if gpus and not ray.cluster_resources().get("GPU"):
        gpus = 0  # the run itself says that there is none, where Ray would wait for one
    remote = ray.remote(num_cpus=cluster.share, num_gpus=gpus, max_retries=RETRIES)(run_errand)
    ear = ray.remote(num_cpus=0)(Ear).remote()
    out = {remote.remote(work, dict(piece), versions(), ear, i): i for i, piece in enumerate(pieces)}
    news = ear.heard.remote()
    try:
        while out:
            for promise in awaited(cluster, [*out, *([] if news is None else [news])]):
                if promise in out:
                    yield _end(ray, promise, out.pop(promise))
                    continue
                said = _said(ray, promise)
                news = None if said is None else ear.heard.remote()
                going_on = set(out.values())  # whose end was told has no more to say
                yield from (Said(piece, body) for piece, body in said or () if piece in going_on)
    finally:
        for promise in out:
            ray.cancel(promise, force=True)  # the ear goes by itself when nobody knows it any more


class Ear:
    """An actor that everybody who does a piece can tell how far it is."""

    def __init__(self) -> None:
        self._said: list[tuple[int, Body]] = []
        self._any = asyncio.Event()

    async def hear(self, piece: int, body: Body) -> None:
        """Take a word about a piece."""
        self._said.append((piece, body))
        self._any.set()

    async def heard(self) -> list[tuple[int, Body]]:
        """What was said since this was last asked, as soon as there is something."""
        await self._any.wait()
        said, self._said = self._said, []
        self._any.clear()
        return said


def _said(ray: Any, promise: Any) -> list[tuple[int, Body]] | None:
    """What was heard; None if nobody listens any more. The pieces go on then, and only their ends are told."""
    try:
        return ray.get(promise)
    except ray.exceptions.RayError:
        return None


def _end(ray: Any, promise: Any, piece: int) -> Said:
    try:
        body: Body = ray.get(promise)
    except deaths(ray) as wrong:
        times = RETRIES + 1
        why = f"its Ray worker died {times} times ({type(wrong).__name__}), perhaps for lack of memory"
        return Said(piece, {}, ended=True, failure=why, died=times)
    except ray.exceptions.RayError as wrong:
        last = str(wrong).strip().splitlines()[-1]
        return Said(
            piece, {}, ended=True, failure=f"Ray could not have it done, is this fedfleet installed there? {last}"
        )
    return Said(piece, body, ended=True, failure=body.pop("failure", ""))


def run_errand(work: Work, piece: Body, wanted: Versions, ear: Any, place: int) -> Body:
    """Do a piece on the machine that got it, if that computes with what the others compute with."""

    def checked(piece: Body, tell: Tell) -> Body:
        try:
            check_versions(wanted)
        except RunFailed as wrong:
            raise RunFailed(f"a Ray worker cannot do it: {wrong}") from None
        return work(piece, tell)

    return answered(checked, piece, partial(ear.hear.remote, place))
