"""A run on an emulated fleet: the server as `fedfleet serve` starts it, a pool of device processes around it, and their report."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup, assemble
from fedfleet.app.assemble.client_config import client_configs
from fedfleet.app.runs.run_folder import make_folder, make_parent, refuse_taken
from fedfleet.app.spec import Spec
from fedfleet.app.terminal.answers import say
from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import ModelCommitted
from fedfleet.core.json_text import parse_json
from fedfleet.core.tensor_format import pack_tree
from fedfleet.executors.child_process import Child, last_line, package_env
from fedfleet.network.pool.availability import Availability
from fedfleet.network.pool.cgroups import PoolGroups, make_groups
from fedfleet.network.pool.client_allocation import allocate_clients
from fedfleet.network.pool.device_limits import DeviceLimits, FleetLimits
from fedfleet.network.pool.device_pool import Pool, PoolPlan
from fedfleet.network.pool.processes import end_leftovers, pool_name, recorded_pool
from fedfleet.network.pool.restart_rule import RestartRule
from fedfleet.network.protocol.frames import split_address
from fedfleet.store import journal as journals
from fedfleet.store.file_modes import private_files
from fedfleet.store.files import write_atomically
from fedfleet.store.journal_rows import decode
from fedfleet.store.lock import hold_lock

FORMAT = "fedfleet/pool@1"
_LISTENS, _PAUSE = 120.0, 0.05  # seconds for a server to listen, and between two looks
_STOPS = 40.0  # seconds for a server to end in order


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How a fleet is emulated: device processes (None: one for each client), the part of a core for the fastest device, how long
    the server waits for the fleet and for a report, after which time it is stopped, and the rule of restarts."""

    devices: int | None = None
    cores: float = 1.0
    patience: float = 60.0
    lease: float = 600.0
    minutes: float | None = None
    rule: RestartRule = field(default_factory=RestartRule)


@dataclass(frozen=True, slots=True)
class PoolResult:
    """What a pool ended with: the server's answer, and the report of the pool."""

    answer: dict[str, Any]
    report: dict[str, Any]
    exit_code: int


def run_pool(spec: Spec, out: Path | None, options: PoolOptions) -> PoolResult:
    """Serve a spec to an emulated fleet until the run is over. Whatever happens, no process is left when this returns.

    SIGTERM does the same as Ctrl-C: the server stops in order, and KeyboardInterrupt passes.
    """
    ended = end_leftovers()
    if ended:
        say(f"ended {ended} processes of a pool that was killed")
    setup = assemble(spec)
    folder = out or Path("runs") / f"{spec.name}-pool-{spec.digest[:10]}"
    refuse_taken(folder, resume=False)
    config = client_configs(setup, local=True)(0, False)  # before anything starts: what cannot be served is refused here
    refused = json.loads(config)["described"].get("refused")
    if refused is not None:
        raise BadInput(
            f"the devices of a pool train with numpy, which cannot train this run: {refused}; change the method or model"
        )
    make_parent(folder)
    with private_files():
        make_folder(folder)
    name = pool_name()
    with hold_lock(folder):
        groups = make_groups(name)
        with recorded_pool(name, groups.folders), _interrupted_by_sigterm():
            return _run(setup, folder, options, groups, config)


def _run(setup: Setup, folder: Path, options: PoolOptions, groups: PoolGroups, config: bytes) -> PoolResult:
    clients, world = setup.plan.clients, setup.world
    limits = FleetLimits(world.devices, clients, cores=options.cores, faults=world.faults)
    allocation = allocate_clients(clients, min(options.devices or clients, clients), setup.plan.seed)
    warnings = pool_warnings(setup, limits.first, allocation)
    for warning in warnings:
        say(f"WARNING: {warning}")
    spec_path = folder / "spec.toml"
    spec_path.write_text(setup.spec.toml(), encoding="utf-8")
    frozen = folder / "frozen.safetensors"
    if setup.task.frozen:
        frozen.write_bytes(pack_tree(setup.task.frozen))
    first = {"config": config.decode(), "frozen": str(frozen)}
    began = time.monotonic()
    availability = Availability(world)
    # Everyone, so that the model does not depend on who called first; whoever comes and goes cannot be waited for.
    expected = clients if availability.constant else min(clients, setup.plan.pace.cohort)
    with _server(spec_path, folder, expected, options) as server:
        address = _await_address(server, folder)
        say(f"the server listens on {address}; {len(allocation)} device processes play {clients} clients")
        say(f"watch it with: fedfleet status {address}")
        plan = PoolPlan(folder, split_address(address), allocation, limits, options.rule)
        with (folder / "template.log").open("ab") as log:

            def template(inbox: SimpleQueue[tuple[Child, bytes]]) -> Child:
                return Child("fedfleet.app.assemble.device_template", first, inbox=inbox, log=log)

            with closing(Pool(plan, groups, template)) as pool:
                watched = server if options.minutes is None else _Limited(server, began + 60.0 * options.minutes)
                code = pool.run(watched, availability)
                report = _report(pool, setup, limits.first, groups, warnings, code)
    write_atomically(folder / "pool.json", (json.dumps(report, indent=1) + "\n").encode())
    stopped = isinstance(watched, _Limited) and watched.stopped
    answer = _stopped_answer(folder / "run") if stopped and code else _server_answer(folder)
    if code and not stopped:
        text = last_line((folder / "server.log").read_text(encoding="utf-8", errors="replace"))
        raise RunFailed(f"the server ended with exit code {code}: {text.removeprefix('fedfleet: ')}; see {folder / 'server.log'}")
    return PoolResult(answer, report, 0 if answer.get("commits") or stopped else 1)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    def interrupt(number: int, frame: Any) -> None:
        del number, frame
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread, where signals are handled
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# ---- the server -------------------------------------------------------------------------------------------------------


@contextmanager
def _server(spec: Path, folder: Path, expected: int, options: PoolOptions) -> Iterator[subprocess.Popen[bytes]]:
    """The server's process, which dies with this one, and is stopped in order when this ends."""
    serve = [
        "serve", str(spec), "--out", str(folder / "run"), "--address", "127.0.0.1:0", "--devices", str(expected),
        "--patience", str(options.patience), "--lease", str(options.lease), "--json",
    ]  # fmt: skip
    python = [sys.executable, "-P", "-m"]
    command = [*python, "fedfleet.network.pool.processes", *python, "fedfleet.app.cli.main", *serve]
    with (folder / "answer.json").open("wb") as answer, (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=answer, stderr=log, env=package_env())
    try:
        yield server
    finally:
        if server.poll() is None:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(_STOPS)
            server.kill()
            server.wait()


def _await_address(server: subprocess.Popen[bytes], folder: Path) -> str:
    """Where the server listens, once it does; a server that ends before has said why."""
    path, deadline = folder / "run" / "wire" / "address", time.monotonic() + _LISTENS
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(parse_json(path.read_bytes())["address"])
        code = server.poll()
        if code is not None:
            text = last_line((folder / "server.log").read_text(encoding="utf-8", errors="replace")).removeprefix("fedfleet: ")
            kind = BadInput if code == BadInput.exit_code else RunFailed
            raise kind(text or f"the server ended with exit code {code}")
        time.sleep(_PAUSE)
    raise RunFailed(f"the server did not listen within {_LISTENS:.0f} s; see {folder / 'server.log'}")


def _server_answer(folder: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        answer = parse_json((folder / "answer.json").read_bytes())
        if isinstance(answer, dict):
            return answer
    return {}


def _stopped_answer(run: Path) -> dict[str, Any]:
    """What can be said of a run whose server was stopped: it has no measures yet."""
    commits = sum(isinstance(event, ModelCommitted) for event in decode(journals.rows_of(run / "run.db")))
    return {"commits": commits, "out": str(run), "stopped_by": "minutes"}


class _Limited:
    """A server that is asked to stop when its time is up, and killed when it does not."""

    def __init__(self, server: subprocess.Popen[bytes], until: float) -> None:
        self._server, self._until, self.stopped = server, until, False

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        now = time.monotonic()
        if now > self._until + _STOPS:
            self._server.kill()
        elif now > self._until and not self.stopped:
            self.stopped = True
            say("the time is up: stopping the server")
            self._server.send_signal(signal.SIGTERM)
        return self._server.poll()


# ---- what is said of it -----------------------------------------------------------------------------------------------


def pool_warnings(setup: Setup, limits: Sequence[DeviceLimits], allocation: Sequence[Sequence[int]]) -> list[str]:
    """What this machine, or this pool, does not emulate truly."""
    result: list[str] = []
    cores = os.cpu_count() or 1
    # The devices of a round compute at once, at the worst those with the largest shares.
    shares = sorted((max(limits[c].cpu_share or cores for c in own) for own in allocation), reverse=True)
    at_once = sum(shares[: setup.plan.pace.cohort])
    if at_once > cores:
        result.append(
            f"the devices of a round may use {at_once:.1f} cores together, and this machine has {cores}: they slow each "
            "other down; lower --cores"
        )
    faults = setup.world.faults
    if faults is not None:
        result.append(
            "of the faults, the pool emulates slow clients and clients that are down (crashes, outages); lost, late and repeated "
            "reports, if the spec has any, happen in simulations only"
        )
    if len(allocation) < len(limits):
        result.append(f"{len(limits)} clients take turns on {len(allocation)} processes: a client may wait for another's turn")
    return result


def _report(
    pool: Pool, setup: Setup, limits: Sequence[DeviceLimits], groups: PoolGroups, warnings: Sequence[str], code: int
) -> dict[str, Any]:
    passed = pool.link_bytes()
    samples = setup.world.data.sizes(0)
    return {
        "format": FORMAT,
        "began": round(time.time() - pool.journal.seconds, 3),
        "seconds": round(pool.journal.seconds, 3),
        "server_exit_code": code,
        "emulation": emulation(groups),
        "cores_as_declared": cores_as_declared(pool.journal.tasks(), limits),
        "warnings": [*warnings, *pool.problems.values()],
        "devices": pool.rows(),
        "clients": [
            {
                "client": c, "samples": int(np.asarray(samples)[c]), "link_bytes_up": passed[c][0], "link_bytes_down": passed[c][1],
                **asdict(limits[c]),
            }
            for c in range(len(limits))
        ],
        "tasks": pool.journal.tasks(),
    }  # fmt: skip


def cores_as_declared(tasks: Sequence[Mapping[str, Any]], limits: Sequence[DeviceLimits]) -> float | None:
    """The `cores` with which devices would compute as fast as their fleet says, by the processor time that tasks took here.

    >>> cores_as_declared([{"kind": "train", "cpu_seconds": 0.6, "samples": 100}], [DeviceLimits(seconds_per_sample=0.004)])
    0.5
    """
    fastest = min((one.seconds_per_sample for one in limits if one.seconds_per_sample > 0), default=0.0)
    here = [task["cpu_seconds"] / task["samples"] for task in tasks if task["kind"] == "train" and task["samples"]]
    return float(f"{statistics.median(here) / TRAINING_PASSES / fastest:.3g}") if here and fastest else None


def emulation(groups: PoolGroups) -> dict[str, str]:
    """How each limit is kept here."""
    return {
        "cpu": "budget: stopped and continued by signals" if groups.cpu is None else f"control group, version {groups.cpu.version}",
        "memory": "refused allocations" + ("" if groups.memory is None else f"; control group, version {groups.memory.version}"),
        "network": "relay: token bucket and fixed delay",
    }
