"""The same jobs on a Ray cluster: one that is started here, on this machine alone, or one at an address.

Workers rebuild algorithm and task from the spec and train inline, so that reports are those of inline to the last bit; or
each stacks its chunk, within stacked's tolerance.
What was offered is put into the object store once and shared; a round is cut into several chunks for each worker, so that
stragglers even out; the chunks of a worker that died are begun again elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Executor, Job, Offer, Trial
from fedfleet.core.records import Report, Score
from fedfleet.core.trees import Tree
from fedfleet.executors.ray_cluster import PATIENCE, Cluster, connect, unreachable_reason
from fedfleet.executors.worker_jobs import (
    Answer,
    Parcel,
    Recipe,
    TrialParcel,
    copy_report,
    score_chunk,
    to_parcel,
    train_chunk,
    without_encoder,
)

CHUNKS_EACH = 4  # chunks per worker: enough to even stragglers out, few enough to cost nothing
MAX_CHUNK = 32  # parcels in a chunk: their reports lie in memory together
_MISSES = 3  # looks in a row at which nobody answers: the head is gone. Ray would end this process after a minute, without a word
RETRIES = 3  # how often a chunk is begun again after its worker died


@dataclass(frozen=True, slots=True)
class SentChunk:
    """A chunk on its way: what was sent, with references to what was offered, and the promise of an answer."""

    parcels: Sequence[Parcel | TrialParcel]
    indices: list[int]
    trees: list[Any]
    promise: Any


def ray_executor(
    recipe: Recipe,
    local_executor: Executor,
    *,
    workers: int | None = None,
    address: str | None = None,
    threads: int = 1,
    gpus: float = 0,
) -> Executor:
    """An executor on Ray workers, which follow `recipe`; a single evaluation is left to `local_executor`.

    Without an address a cluster of `workers` processes (default: one per processor) is started on this machine, and ended
    by `close`. With one, Ray decides how many chunks it runs at once; `workers` (default: the cluster's processors) only
    says how finely a round is cut. `gpus` is what each chunk occupies.
    """
    cluster = connect(workers, address, threads)
    remote = cluster.ray.remote(num_cpus=cluster.task_cpus, num_gpus=gpus, max_retries=RETRIES)
    training, scoring = remote(train_chunk), remote(score_chunk)

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        parcels = [to_parcel(job) for job in jobs]
        reports = run_chunks(cluster, training, recipe, parcels, [without_encoder(job.offer) for job in jobs])
        return (copy_report(report) for report in reports)

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        if len(trials) == 1:
            return local_executor.evaluate(trials)
        parcels = [TrialParcel(i, trial.rows, trial.measured) for i, trial in enumerate(trials)]
        return run_chunks(cluster, scoring, recipe, parcels, [trial.params for trial in trials])

    return Executor("ray", train, evaluate, close=cluster.close)


# ---- chunks out, answers in -------------------------------------------------------------------------------------


def run_chunks(
    cluster: Cluster, remote: Any, recipe: Recipe, parcels: Sequence[Parcel | TrialParcel], trees: Sequence[Tree | Offer]
) -> Iterator[Any]:
    """Have all parcels done, and give their answers in input order as the chunks come back.

    Only so many chunks are out at once that the answers to a large cohort need not all lie in memory together.
    """
    at_once = cluster.workers * CHUNKS_EACH
    size = max(1, min(MAX_CHUNK, math.ceil(len(parcels) / at_once)))
    refer = tree_references(cluster, trees)
    waiting: deque[SentChunk] = deque()
    try:
        for a in range(0, len(parcels), size):
            chunk = parcels[a : a + size]
            indices, references = refer(range(a, a + len(chunk)))
            waiting.append(send_chunk(remote, recipe, chunk, indices, references))
            if len(waiting) == at_once:
                yield from chunk_answers(cluster, remote, recipe, waiting.popleft())
        while waiting:
            yield from chunk_answers(cluster, remote, recipe, waiting.popleft())
    finally:
        # Whoever stopped listening may also have closed the connection, and then a call would open a new one.
        if waiting and cluster.ray.is_initialized():
            for pending in waiting:
                cluster.ray.cancel(pending.promise)


def send_chunk(
    remote: Any, recipe: Recipe, chunk: Sequence[Parcel | TrialParcel], indices: list[int], trees: list[Any]
) -> SentChunk:
    """Send one chunk."""
    return SentChunk(chunk, indices, trees, remote.remote(recipe, chunk, indices, *trees))


def chunk_answers(cluster: Cluster, remote: Any, recipe: Recipe, chunk: SentChunk) -> list[Any]:
    """The answers of a chunk. If its workers died again and again, its parcels go one by one, to find out which it is."""
    first = chunk.parcels[0].name
    try:
        wait_for_any(cluster, [chunk.promise])
        answer: Answer = cluster.ray.get(chunk.promise)
    except worker_death_errors(cluster.ray) as error:
        if len(chunk.parcels) == 1:
            raise RunFailed(
                f"{first}: its Ray worker died {RETRIES + 1} times ({type(error).__name__}); check that its job fits into memory"
            ) from error
        retries = [
            send_chunk(remote, recipe, [parcel], [i], chunk.trees) for parcel, i in zip(chunk.parcels, chunk.indices, strict=True)
        ]
        return [result for retry in retries for result in chunk_answers(cluster, remote, recipe, retry)]
    except cluster.ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise RunFailed(
            f"{first}: Ray could not run it; check that the same fedfleet is installed on the workers: {last}"
        ) from error
    if answer.failure:
        failure = RunFailed(answer.failure)
        failure.add_note(f"on the worker:\n{answer.trace}")
        raise failure
    return answer.results


def wait_for_any(cluster: Cluster, promises: Sequence[Any]) -> list[Any]:
    """Wait until one of these promises is kept, or more; a head that is gone meanwhile is said."""
    missed = 0
    while not (ready := cluster.ray.wait(list(promises), num_returns=1, timeout=PATIENCE)[0]):
        missed = missed + 1 if cluster.head and unreachable_reason(cluster.head) else 0
        if missed == _MISSES:
            raise RunFailed(
                f"the head of the Ray cluster at {cluster.head} does not answer any more; what was written is kept: resume "
                "with a cluster that works"
            )
    return ready


def worker_death_errors(ray: Any) -> tuple[type[Exception], ...]:
    """The errors by which Ray says that the workers of a task died, each time it was begun."""
    errors = ray.exceptions
    return errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError


def tree_references(cluster: Cluster, trees: Sequence[Tree | Offer]) -> Callable[[Sequence[int]], tuple[list[int], list[Any]]]:
    """Puts each distinct tree into the object store once, when it is first wanted, and lets go of it after its last use.

    The answer for some parcels: for each the place of its tree in the list of references that follows. Trees with the same
    arrays are the same tree, even if an algorithm made a new dictionary for each client.
    """
    keys = {i: _tree_key(tree) for i, tree in {id(t): t for t in trees}.items()}
    uses_left = Counter(keys[id(tree)] for tree in trees)
    stored: dict[Any, Any] = {}

    def refer(places: Sequence[int]) -> tuple[list[int], list[Any]]:
        order: dict[Any, int] = {}
        for place in places:
            key = keys[id(trees[place])]
            order.setdefault(key, len(order))
            if key not in stored:
                stored[key] = cluster.ray.put(trees[place])
        references = [stored[mark] for mark in order]
        indices = [order[keys[id(trees[place])]] for place in places]
        uses_left.subtract(keys[id(trees[place])] for place in places)
        for key in order:
            if not uses_left[key]:
                del stored[key]
        return indices, references

    return refer


def _tree_key(tree: Tree | Offer) -> tuple[Any, ...]:
    if isinstance(tree, Offer):
        return _tree_key(tree.params), _tree_key(tree.extra)
    return tuple((n, id(v)) for n, v in tree.items())
