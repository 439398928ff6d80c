"""Being an edge: one thread talks to the server, and the process serves the edge's own devices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.core.records import Score
from fedfleet.core.trees import Tree
from fedfleet.network.device.client_loop import DeviceOptions
from fedfleet.network.device.device_process import Trust, credentials_of, default_store
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.edge.edge_loop import EdgeLoop
from fedfleet.network.edge.edge_plan import EdgeConfig, device_config, edge_plan, edge_world
from fedfleet.network.edge.turn_store import TurnStore
from fedfleet.network.edge.upstream import Turnover, attend
from fedfleet.network.evaluation.evaluators import EvalResult
from fedfleet.network.protocol.frames import split_address
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.security.tls import ServerFiles, is_loopback, refuse_open
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.recovery import RecoveredRun, recover
from fedfleet.network.server.serve import ListeningServer, make_private, serve
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.network.server.supervisor import reserve_port
from fedfleet.store import journal as journals
from fedfleet.store.file_modes import private_files
from fedfleet.store.journal import Journal
from fedfleet.store.lock import hold_lock
from fedfleet.store.seals import identity

_MOST_SAMPLE_BYTES = 256 << 20  # that a device gives at once
_KIND = "edge"
_JOIN_SECONDS = 10.0  # for the thread that talks to the server, at the end


@dataclass(frozen=True, slots=True)
class EdgeSetup:
    """How an edge calls its server, where it keeps what it has, and who may come in: over TLS or not, with tokens or without."""

    store: Path | None = None
    trust: Trust = field(default_factory=Trust)
    files: ServerFiles | None = None
    open_enrolment: bool = False


class NoEvaluator:
    """An edge has no samples to try a model on: its server does that."""

    async def evaluate(self, version: int, params: Tree, clients: bool) -> EvalResult:
        """Nothing."""
        del version, params, clients
        return EvalResult(Score(0, 0, 0.0))

    async def close(self) -> None:
        """There is nothing to close."""


def run_edge(
    upstream: str, setup: EdgeSetup, device: DeviceOptions, options: ServeOptions, say: Callable[[str], None]
) -> dict[str, Any]:
    """Be an edge until the run of its server is over; the answer says what it did."""
    split_address(upstream)
    split_address(options.address)
    if upstream == options.address:
        raise BadInput(f"--listen and --upstream: both are {upstream}; an edge listens elsewhere than its server")
    refuse_open(options.address, setup.files is not None)
    credentials = credentials_of(upstream, setup.trust)
    folder = setup.store or edge_store(upstream, device.client)
    reserve_port(options.address)[0].close()
    with private_files():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        make_private(folder)
        with hold_lock(folder), closing(Connection(upstream, credentials)) as connection:
            turnover = Turnover(folder)
            thread = threading.Thread(target=attend, args=(turnover, connection, folder, device, say), daemon=True)
            if turnover.result is None:
                thread.start()
            config = turnover.await_config()
            assert turnover.store is not None
            try:
                _serve_devices(config, turnover, turnover.store, folder, setup, options, say)
            finally:
                turnover.store.end("the edge has stopped")
            if thread.ident is not None:
                thread.join(_JOIN_SECONDS)
    result = turnover.result
    assert result is not None
    return {"edge": config.edge, "turns": result.tasks, "declined": result.declined, "reason": result.reason, "out": str(folder)}


def edge_store(upstream: str, client: int | None) -> Path:
    """Where an edge keeps what it has if nobody says: beside the folders of devices."""
    path = default_store(upstream, client)
    return path.with_name(f"edge-{path.name}")


def _serve_devices(
    config: EdgeConfig, turnover: Turnover, store: TurnStore, folder: Path, setup: EdgeSetup, options: ServeOptions,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    places = len(config.keys)
    plan, world = edge_plan(config, store), edge_world(config)
    (folder / "aggregates").mkdir(exist_ok=True)
    (folder / "wire").mkdir(exist_ok=True, mode=0o700)
    # What devices give is no update: it is spooled, and taken at the commit.
    options = replace(options, devices=places, streaming=not config.moves_samples)
    if config.moves_samples:
        options = replace(options, most_report_bytes=_MOST_SAMPLE_BYTES)
    journal, recovery = _open_journal(plan, world, folder)
    tls = {} if setup.files is None else _tls(setup.files)

    def greet(loop: ServerLoop, listening: ListeningServer) -> None:
        assert isinstance(loop, EdgeLoop)
        say(
            f"edge {config.edge} listens on {listening.address} for {places} devices; "
            f"start each with: fedfleet device --server {listening.address}"
        )
        _connect(loop, turnover, store)

    try:
        with _open_registry(config, folder, options, setup) as registry:
            served = ServedRun(
                plan, world, NoEvaluator(), registry, run_key(folder / "wire" / "run.key"),
                lambda place: device_config(config, place, brings_own=registry.has_own_data(place)),
                journal, folder, f"{config.run}, edge {config.edge}",
            )  # fmt: skip
            serve(served, options, recovery=recovery, tls=tls, on_listening=greet, make_loop=partial(EdgeLoop, store))
        journal.flush()
    finally:
        journal.close()


def _connect(loop: EdgeLoop, turnover: Turnover, store: TurnStore) -> None:
    """Let the thread that talks to the server wake the loop: for a turn, and at the end."""
    events = asyncio.get_running_loop()

    def soon(work: Callable[[], None]) -> None:
        if not events.is_closed():
            events.call_soon_threadsafe(work)

    def look() -> None:
        if turnover.error is not None:
            loop.turns.fail(turnover.error)
        elif turnover.result is not None:
            loop.end(turnover.result.reason)

    store.on_turn = lambda: soon(loop.turns.schedule)
    turnover.on_end = lambda: soon(look)
    look()


def _open_journal(plan: Any, world: Any, folder: Path) -> tuple[Journal, RecoveredRun | None]:
    path = folder / "run.db"
    if not path.is_file():
        return journals.create(path, identity(folder, _KIND)), None
    return recover(plan, world, folder)


@contextmanager
def _open_registry(config: EdgeConfig, folder: Path, options: ServeOptions, setup: EdgeSetup) -> Iterator[Registry]:
    host = options.address.rpartition(":")[0]
    is_open = setup.open_enrolment or is_loopback(host)
    terms = Terms(len(config.keys), open=is_open, own_data=config.own_data)
    registry = Registry(folder / "wire" / "devices.db", run_key(folder / "wire" / "run.key"), terms)
    try:
        yield registry
    finally:
        registry.close()


def _tls(files: ServerFiles) -> dict[str, str]:
    table = {"certificate": str(files.certificate), "key": str(files.key)}
    return table if files.client_ca is None else {**table, "client_ca": str(files.client_ca)}
