"""The same jobs on a Ray cluster: one that is started here, on this machine alone, or one at an address.

Workers rebuild algorithm and task from the spec and train inline, so that reports are those of inline to the last bit; or
each stacks its chunk, within stacked's tolerance.
What was offered is put into the object store once and shared; a round is cut into several chunks for each worker, so that
stragglers even out; the chunks of a worker that died are begun again elsewhere.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Executor, Job, Offer, Trial
from fedfleet.core.records import Report, Score
from fedfleet.core.trees import Tree
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
_PATIENCE = 5.0  # seconds until an address counts as dead, and between two looks at it
_MISSES = 3  # looks in a row at which nobody answers: the head is gone. Ray would end this process after a minute, without a word
RETRIES = 3  # how often a chunk is begun again after its worker died


@dataclass(frozen=True, slots=True)
class Cluster:
    """An open connection to Ray: for how many workers work is cut, how the connection ends, how many processors a task is to
    occupy, and where the head is, if it can be looked at."""

    ray: Any
    workers: int
    close: Callable[[], None]
    task_cpus: int = 1
    head: str = ""


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
    """An executor on Ray workers, which follow `recipe`; a single evaluation is left to the executor `here`.

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
        parcels = [TrialParcel(i, trial.rows) for i, trial in enumerate(trials)]
        return run_chunks(cluster, scoring, recipe, parcels, [trial.params for trial in trials])

    return Executor("ray", train, evaluate, close=cluster.close)


# ---- chunks out, answers in -------------------------------------------------------------------------------------


def run_chunks(
    cluster: Cluster,
    remote: Any,
    recipe: Recipe,
    parcels: Sequence[Parcel | TrialParcel],
    trees: Sequence[Tree | Offer],
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
                f"{first}: its Ray worker died {RETRIES + 1} times ({type(error).__name__}); does it fit into memory?"
            ) from error
        retries = [
            send_chunk(remote, recipe, [parcel], [i], chunk.trees)
            for parcel, i in zip(chunk.parcels, chunk.indices, strict=True)
        ]
        return [result for retry in retries for result in chunk_answers(cluster, remote, recipe, retry)]
    except cluster.ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise RunFailed(f"{first}: Ray could not have it done, is this fedfleet installed there? {last}") from error
    if answer.failure:
        failure = RunFailed(answer.failure)
        failure.add_note(f"on the worker:\n{answer.trace}")
        raise failure
    return answer.results


def wait_for_any(cluster: Cluster, promises: Sequence[Any]) -> list[Any]:
    """Wait until one of these promises is kept, or more; a head that is gone meanwhile is said."""
    missed = 0
    while not (ready := cluster.ray.wait(list(promises), num_returns=1, timeout=_PATIENCE)[0]):
        missed = missed + 1 if cluster.head and _unreachable_reason(cluster.head) else 0
        if missed == _MISSES:
            raise RunFailed(
                f"the head of the Ray cluster at {cluster.head} does not answer any more; what was written is kept, and goes on "
                "with a cluster that works"
            )
    return ready


def worker_death_errors(ray: Any) -> tuple[type[Exception], ...]:
    """The errors by which Ray says that the workers of a task died, each time it was begun."""
    errors = ray.exceptions
    return errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError


def tree_references(
    cluster: Cluster, trees: Sequence[Tree | Offer]
) -> Callable[[Sequence[int]], tuple[list[int], list[Any]]]:
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


# ---- the connection ---------------------------------------------------------------------------------------------


def require_ray(address: str | None) -> None:
    """Say how to get Ray where it is missing; see that someone answers at the address, where Ray would try for minutes."""
    if find_spec("ray") is None:
        raise BadInput('Ray was asked for, and is not installed; get it with: pip install "fedfleet[ray]"')
    reason = _unreachable_reason(address or "")
    if reason:
        raise BadInput(f"ray_address = {address!r}: nobody answers there ({reason})")


def _unreachable_reason(address: str) -> str:
    """Why nobody can be talked to at an address; "" if someone answers, or if it is one that Ray finds out itself, such as auto."""
    host, port = _host_and_port(address)
    if not port:
        return ""
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        return str(error) or type(error).__name__
    return ""


def _host_and_port(address: str) -> tuple[str, str]:
    """Host and port of an address.

    >>> _parted("ray://[::1]:10001"), _parted("auto")
    (('::1', '10001'), ('', ''))
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    return (host.strip("[]"), port) if host and port.isdigit() else ("", "")


def connect(workers: int | None, address: str | None, threads: int) -> Cluster:
    """Join the cluster at the address, or start one here. A connection that is open already is used, and left open."""
    require_ray(address)
    if address is None:
        _set_local_environment()
    import ray

    close: Callable[[], None] = _keep_open
    if not ray.is_initialized():
        close = (
            _join_cluster(ray, address)
            if address
            else _start_cluster(ray, workers or _default_workers(threads), threads)
        )
    try:
        if workers is None:
            workers = max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
        return Cluster(ray, workers, close, _task_cpus(ray, threads), _head_address(ray))
    except BaseException:
        close()
        raise


def _task_cpus(ray: Any, threads: int) -> int:
    """How many processors a task of so many threads asks for: no more than the largest machine has, or it would wait for ever."""
    largest = max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)
    return min(threads, largest) if largest else threads  # where there are none yet, machines may be on their way


def _head_address(ray: Any) -> str:
    """Where the head listens; "" behind a proxy, which says itself when the connection is lost."""
    return "" if ray.util.client.ray.is_connected() else ray.get_runtime_context().gcs_address


def _join_cluster(ray: Any, address: str) -> Callable[[], None]:
    _check_loopback(ray, address)
    brief = _WAIT_VARIABLE not in os.environ
    os.environ.setdefault(_WAIT_VARIABLE, "1")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadInput(f"ray_address = {address!r}: there is no Ray cluster that lets us in: {reason}") from error
    finally:
        if brief:
            del os.environ[_WAIT_VARIABLE]
    _set_worker_logs(ray, False)

    def leave() -> None:
        if ray.is_initialized():
            ray.shutdown()
        _set_worker_logs(ray, True)

    return leave


def _check_loopback(ray: Any, address: str) -> None:
    """Ray takes 127.0.0.1 for the machine's address in the network, and would look there for a quarter of an hour."""
    host, port = _host_and_port(address)
    own_address = ray.util.get_node_ip_address()
    if (
        address.startswith("ray://")
        or host not in ("127.0.0.1", "localhost", "::1")
        or not _unreachable_reason(f"{own_address}:{port}")
    ):
        return
    raise BadInput(
        f"ray_address = {address!r}: that cluster listens on the loopback device only, and Ray would look for it at {own_address}; "
        f"set {_LOOPBACK_VARIABLE}=0 in the environment"
    )


# how often Ray tries to reach a head, half a minute each; twenty times by default
_WAIT_VARIABLE = "RAY_gcs_server_port_wait_time_s"
_START_ATTEMPTS = 3  # a busy machine may miss Ray's own time limit for its daemons once


def _start_cluster(ray: Any, workers: int, threads: int) -> Callable[[], None]:
    # Ray opens its folder to everybody, so it lies inside one that is not; sockets need a short path, so it lies in /tmp.
    folder = tempfile.mkdtemp(prefix="fedfleet-", dir="/tmp" if Path("/tmp").is_dir() else None)

    def stop() -> None:
        if ray.is_initialized():
            ray.shutdown()
        _set_worker_logs(ray, True)
        shutil.rmtree(folder, ignore_errors=True)
        if (
            os.environ.get(_LOOPBACK_VARIABLE) == "0"
        ):  # else it would be inherited by processes that join a real cluster
            del os.environ[_LOOPBACK_VARIABLE]

    try:
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                ray.init(
                    address="local",  # even if the environment names a cluster
                    num_cpus=workers * threads,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="ERROR",
                    _node_ip_address="127.0.0.1",
                    _temp_dir=f"{folder}/ray-{attempt}",
                )
                break
            except Exception as error:  # a bare Exception is what Ray raises when its daemons are too slow to start
                ray.shutdown()
                if attempt == _START_ATTEMPTS:
                    raise RunFailed(
                        f"no Ray cluster could be started on this machine in {_START_ATTEMPTS} tries: {error}"
                    ) from error
    except BaseException:
        stop()
        raise
    _set_worker_logs(ray, False)
    return stop


def _set_worker_logs(ray: Any, may: bool) -> None:
    """May Ray write about dead workers to standard output? That belongs to our answer, and Ray has no public switch."""
    ray._private.worker._worker_logs_enabled = may


_LOOPBACK_VARIABLE = (
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # at 0 Ray listens on the loopback device only, on every system
)
_TOKEN_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def _set_local_environment() -> None:
    """What Ray reads from the environment: no port is open to others, nothing is reported, no secret is left on disk."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "ray" not in sys.modules:  # it is read at import
        os.environ.setdefault(_LOOPBACK_VARIABLE, "0")
    if not any(name in os.environ for name in _TOKEN_VARIABLES):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # else Ray leaves one in the home folder


def _default_workers(threads: int) -> int:
    """How many workers of so many threads this machine, or our share of it, has room for."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cpus // threads)


def _keep_open() -> None:
    """The connection is someone else's."""
