"""Serve a plan: the server loop and its frontends, and how both begin, resume after a kill, and end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fedfleet.core.codec import Codec
from fedfleet.engine.coordinator import begin
from fedfleet.engine.state import RunState
from fedfleet.network.frontend.claims import codec_recipe
from fedfleet.network.frontend.partial_sums import fold_layout, layout_to_json
from fedfleet.network.operations.drain import STATUS_TEXTS, DrainPhase, advance, start_drain
from fedfleet.network.operations.metrics import INFLIGHT_BYTES
from fedfleet.network.operations.monitor import Monitor
from fedfleet.network.operations.process_memory import infrequent_gc
from fedfleet.network.operations.status_token import publish_token, withdraw_token
from fedfleet.network.protocol.process_link import make_shared_folder, remove_folder
from fedfleet.network.security.sum_cipher import cipher_of
from fedfleet.network.server.options import FrontendConfig, ServeOptions
from fedfleet.network.server.recovery import RecoveredRun, restore
from fedfleet.network.server.served_plan import ServedRun, check_servable, client_codecs, max_report_bytes, stat_names
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.network.server.supervisor import Supervisor, frontend_configs, frontend_count, reserve_port
from fedfleet.store import journal as journals
from fedfleet.store.file_modes import private_files
from fedfleet.store.journal_rows import decode

_COUNTERS_SECONDS = 1.0  # frontends report twice a second what is under way


class ServerStopped(Exception):
    """The server was asked to stop before the run was over; everything that it acknowledged is on the disk."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


@dataclass(frozen=True, slots=True)
class ListeningServer:
    """Where a server listens, and its frontends' processes."""

    address: str
    pids: tuple[int, ...]
    http: str = ""


def serve(
    served: ServedRun,
    options: ServeOptions,
    *,
    recovery: RecoveredRun | None = None,
    tls: Mapping[str, str] | None = None,
    on_listening: Callable[[ServerLoop, ListeningServer], None] | None = None,
    make_loop: Callable[..., ServerLoop] = ServerLoop,
) -> RunState:
    """Serve a plan to its end; `recovery` is where a killed server left it. `on_listening` is called when devices may call;
    `make_loop` makes another loop than that of a server, as an edge has."""
    check_servable(served.plan, options.devices)
    cipher_of(served.noising.key)  # what it needs is missing now, and not in a frontend
    with infrequent_gc(), private_files():
        return asyncio.run(_serve(served, options, recovery, dict(tls or {}), on_listening, make_loop))


async def _serve(
    served: ServedRun,
    options: ServeOptions,
    recovery: RecoveredRun | None,
    tls: dict[str, str],
    on_listening: Callable[[ServerLoop, ListeningServer], None] | None,
    make_loop: Callable[..., ServerLoop],
) -> RunState:
    wire = served.folder / "wire"
    wire.mkdir(exist_ok=True, mode=0o700)
    before = decode(journals.rows_of(served.folder / "run.db")) if recovery is not None else ()
    with closing(Monitor(served, options, before)) as monitor:
        port_socket, address = reserve_port(options.address)
        http_socket, http = reserve_port(options.http, "--http") if options.http else (None, "")
        shared = make_shared_folder()
        state = recovery.state if recovery is not None else begin(served.plan).state
        server = make_loop(served, options, state, shared, gatherings=recovery.gatherings if recovery else 0)
        server.offers.write_frozen()
        server.figures, server.run.log = lambda: monitor.figures(server), monitor.log.say
        server.run.listeners.append(monitor.on_events)
        if recovery is not None:
            restore(server, recovery)
        count = frontend_count(options.transmitters, wire)
        config = frontend_config(served, options, server.admission.streams, address, shared, tls)
        config = replace(config, http=http, origins=[*options.origins], page=options.page)
        supervisor = Supervisor(
            frontend_configs(config, count, str(wire)), server.on_message, server.on_frontend_death, server.turns.fail,
            in_process=count == 0,
        )  # fmt: skip
        monitor_task: asyncio.Task[None] | None = None
        token_path = publish_token(address, served.key)
        try:
            with _handle_signals(server, monitor):
                resume = recovery is not None and recovery.started
                running = asyncio.create_task(_run_server(server, supervisor, resume=resume))
                monitor_task = asyncio.create_task(monitor.watch(server))
                listening = asyncio.create_task(supervisor.listening.wait())
                await asyncio.wait({running, listening}, return_when=asyncio.FIRST_COMPLETED)
                listening.cancel()
                monitor.board.listening = True
                if on_listening is not None:
                    on_listening(server, ListeningServer(address, tuple(supervisor.pids()), http))
                await running
        finally:
            monitor.board.listening = False
            withdraw_token(token_path)
            if monitor_task is not None:
                monitor_task.cancel()
            await supervisor.close()
            await server.close()
            await served.evaluator.close()
            port_socket.close()
            if http_socket is not None:
                http_socket.close()
            remove_folder(shared)
        return server.state


async def _run_server(server: ServerLoop, supervisor: Supervisor, *, resume: bool) -> None:
    done = server.attach(supervisor)
    for index in range(len(supervisor.frontends)):
        await supervisor.start(index)
    server.start(resume=resume)
    await done


def remove_reports(folder: Path) -> None:
    """Remove what frontends kept of reports: all commits are made, and sums without noise must not outlive a private run."""
    for path in (folder / "wire").glob("t[0-9]*"):
        shutil.rmtree(path, ignore_errors=True)


def frontend_config(
    served: ServedRun, options: ServeOptions, streams: bool, address: str, shared: Path, tls: dict[str, str]
) -> FrontendConfig:
    """What frontends are told before they listen; index and folder are still to be filled in."""
    plan = served.plan
    codecs = client_codecs(plan)
    kinds: list[Codec] = []
    codec_of: list[list[int]] = []
    for client, codec in codecs.items():
        if codec not in kinds:
            kinds.append(codec)
        codec_of.append([client, kinds.index(codec) + 1])
    return FrontendConfig(
        index=0, address=address, clients=plan.clients, key=served.key.data.hex(), folder="", shared=str(shared),
        sheet=layout_to_json(fold_layout(plan.algorithm.fold, plan.algorithm.init(plan.params))), stream=streams,
        spool=not streams or options.keep_reports, durable=options.durable, encode_once=options.encode_once,
        hold=options.hold, hold_seconds=options.hold_seconds, commit_seconds=options.commit_seconds,
        in_flight_bytes=options.in_flight_bytes, largest=options.most_report_bytes or max_report_bytes(plan),
        codecs=[codec_recipe(c) for c in kinds],
        codec_of=codec_of, tls=tls, stats=stat_names(plan), noise_key=(served.noising.key or b"").hex(),
    )  # fmt: skip


@contextmanager
def _handle_signals(server: ServerLoop, monitor: Monitor) -> Iterator[None]:
    """SIGINT stops at once, SIGTERM lets uploads in flight end first; a second signal of any kind stops at once."""
    loop = asyncio.get_running_loop()
    signals: list[int] = []

    def stop(number: int) -> None:
        signals.append(number)
        monitor.log.say("info", "asked to stop", signal=signal.Signals(number).name)
        if number == signal.SIGTERM and len(signals) == 1:
            server.turns.run_in_background(_drain_and_stop(server, monitor, number))
        else:
            server.turns.fail(ServerStopped(number))

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, RuntimeError):  # not in the main thread, where signals are handled
            loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)


async def _drain_and_stop(server: ServerLoop, monitor: Monitor, number: int) -> None:
    """Give no new work, let uploads in flight end and be made safe; then stop, in any case when the time of the drain is over."""
    server.supervisor.drain()
    server.turns.schedule()
    now = asyncio.get_running_loop().time
    began = now()
    drain = start_drain(server.options.drain_seconds, began)
    while drain.phase < DrainPhase.CLOSING:
        receiving = sum(f.counters.get(INFLIGHT_BYTES, 0) > 0 for f in server.supervisor.frontends)
        if now() - began < min(_COUNTERS_SECONDS, drain.seconds / 2):
            # No frontend has counted since the drain began.
            receiving = max(1, receiving)
        drain = advance(drain, receiving, now())
        monitor.draining = STATUS_TEXTS[drain.phase]
        monitor.refresh(server)
        await asyncio.sleep(0.1)
    server.turns.fail(ServerStopped(number))


def make_private(folder: Path) -> None:
    """Only the owner may read the folder of a served run."""
    os.chmod(folder, 0o700)
