"""A Ray cluster: joined at its address, or started here, on this machine alone; checked before anything waits for it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput, RunFailed

PATIENCE = 5.0  # seconds until an address counts as dead, and between two looks at it


@dataclass(frozen=True, slots=True)
class Cluster:
    """An open connection to Ray: for how many workers work is cut, how the connection ends, how many processors a task is to
    occupy, and where the head is, if it can be looked at."""

    ray: Any
    workers: int
    close: Callable[[], None]
    task_cpus: int = 1
    head: str = ""


def require_ray(address: str | None) -> None:
    """Say how to get Ray where it is missing; see that someone answers at the address, where Ray would try for minutes."""
    if find_spec("ray") is None:
        raise BadInput('Ray is not installed; install it with: pip install "fedfleet[ray]"')
    reason = unreachable_reason(address or "")
    if reason:
        raise BadInput(f"ray_address = {address!r}: no server answers there ({reason})")


def unreachable_reason(address: str) -> str:
    """Why nobody can be talked to at an address; "" if someone answers, or if it is one that Ray finds out itself, such as auto."""
    host, port = _host_and_port(address)
    if not port:
        return ""
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        return str(error) or type(error).__name__
    return ""


def _host_and_port(address: str) -> tuple[str, str]:
    """Host and port of an address.

    >>> _host_and_port("ray://[::1]:10001"), _host_and_port("auto")
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
        close = _join_cluster(ray, address) if address else _start_cluster(ray, workers or _default_workers(threads), threads)
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
        raise BadInput(f"ray_address = {address!r}: cannot connect to a Ray cluster there: {reason}") from error
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
        or not unreachable_reason(f"{own_address}:{port}")
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
        if os.environ.get(_LOOPBACK_VARIABLE) == "0":  # else it would be inherited by processes that join a real cluster
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


_LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # at 0 Ray listens on the loopback device only, on every system
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
