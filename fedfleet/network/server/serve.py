"""Serving a plan: the processor, its transmitters, and how both begin, go on after a kill, and end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedfleet.core.codec import Codec
from fedfleet.core.events import Event
from fedfleet.engine.commands import carry_out, pending_commands
from fedfleet.engine.coordinator import begin
from fedfleet.engine.state import RunState
from fedfleet.network.frontend.garbage_collector import infrequent_gc
from fedfleet.network.frontend.partial_sums import fold_layout, layout_to_json
from fedfleet.network.frontend.report_decoder import codec_recipe
from fedfleet.network.operations.counters import INFLIGHT_BYTES
from fedfleet.network.operations.drain import Drain, OpenWork, advance, signal_stop, status_text
from fedfleet.network.operations.drain import DrainPhase as DrainPhase
from fedfleet.network.operations.monitor import Monitor
from fedfleet.network.rules.task_table import Phase
from fedfleet.network.server.blobs import make_shared_folder, remove_folder
from fedfleet.network.server.dispatch import uncommitted_arrivals
from fedfleet.network.server.options import FrontendConfig, ServeOptions
from fedfleet.network.server.recovery import RecoveredRun
from fedfleet.network.server.served_plan import ServedRun, check_servable, client_codecs, max_report_bytes, stat_names
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.network.server.supervisor import Supervisor, frontend_configs, frontend_count, reserve_port
from fedfleet.store import journal as journals
from fedfleet.store.journal_rows import decode

_COUNTERS_SECONDS = 1.0  # transmitters tell twice a second what is under way


EventListener = Callable[[Sequence[Event]], None]


class ServerStopped(Exception):
    """The server was asked to stop before the run was over; everything that it acknowledged is on the disk."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


@dataclass(frozen=True, slots=True)
class ListeningServer:
    """What a server says when it listens."""

    address: str
    pids: tuple[int, ...]


def serve(
    served: ServedRun,
    options: ServeOptions,
    *,
    recovery: RecoveredRun | None = None,
    tls: Mapping[str, str] | None = None,
    on_listening: Callable[[ServerLoop, ListeningServer], None] | None = None,
) -> RunState:
    """Serve a plan to its end; `back` is where a killed server left it. `listening` is told when devices may come."""
    check_servable(served.plan, options.devices)
    with infrequent_gc():
        return asyncio.run(_serve(served, options, recovery, dict(tls or {}), on_listening))


async def _serve(
    served: ServedRun,
    options: ServeOptions,
    recovery: RecoveredRun | None,
    tls: dict[str, str],
    on_listening: Callable[[ServerLoop, ListeningServer], None] | None,
) -> RunState:
    (served.folder / "wire").mkdir(exist_ok=True, mode=0o700)
    with closing(Monitor(served, options, _journal_events(served, recovery))) as oversight:
        return await _serve_monitored(served, options, recovery, tls, on_listening, oversight)


async def _serve_monitored(
    served: ServedRun,
    options: ServeOptions,
    recovery: RecoveredRun | None,
    tls: dict[str, str],
    on_listening: Callable[[ServerLoop, ListeningServer], None] | None,
    oversight: Monitor,
) -> RunState:
    port_socket, address = reserve_port(options.address)
    shared = make_shared_folder()
    state = recovery.state if recovery is not None else begin(served.plan).state
    server = ServerLoop(served, options, state, at=state.book.now, gatherings=recovery.gatherings if recovery else 0)
    server.offers.shared = shared
    server.offers.write_frozen()
    server.log, server.figures = oversight.log.say, lambda: oversight.figures(server)
    server.on_events = _combine_listeners(served.on_events, oversight.on_events)
    if recovery is not None:
        restore_server(server, recovery)
    config = frontend_config(served, options, server.streams, address, shared, tls)
    folders = str(served.folder / "wire")
    frontends = frontend_count(options.transmitters, served.folder / "wire")
    supervisor = Supervisor(
        frontend_configs(config, frontends, folders),
        server.on_message,
        server.on_frontend_death,
        server.fail,
        in_process=frontends == 0,
    )
    monitor_task: asyncio.Task[None] | None = None
    try:
        with _handle_signals(server, oversight):
            running = asyncio.create_task(
                _run_server(server, supervisor, started=recovery is not None and recovery.started)
            )
            monitor_task = asyncio.create_task(oversight.watch(server))
            await _wait_until_ready(supervisor, running)
            oversight.board.listening = True
            if on_listening is not None:
                on_listening(server, ListeningServer(address, tuple(supervisor.pids())))
            await running
    finally:
        oversight.board.listening = False
        if monitor_task is not None:
            monitor_task.cancel()
        await supervisor.close()
        await server.close()
        await served.evaluator.close()
        port_socket.close()
        remove_folder(shared)
    return server.state


async def _run_server(server: ServerLoop, supervisor: Supervisor, *, started: bool) -> None:
    """Run to the end, from the first event unless it has `begun`."""
    server.supervisor, server.done = supervisor, asyncio.get_running_loop().create_future()
    for index in range(len(supervisor.frontends)):
        await supervisor.start(index)
    if not started:
        first = begin(server.plan)
        server.record_events(first.outcomes)
        commands = first.commands
    else:
        commands = pending_commands(server.plan, server.state)
    for command in commands:
        carry_out(server, command)
    server.schedule()
    await server.done


async def _wait_until_ready(supervisor: Supervisor, running: asyncio.Task[None]) -> None:
    while not running.done() and not all(frontend.ready for frontend in supervisor.frontends):
        await asyncio.sleep(0.02)


def remove_reports(folder: Path) -> None:
    """Remove what transmitters kept of reports: all commits are made, and sums without noise must not outlive a private run."""
    for path in (folder / "wire").glob("t[0-9]*"):
        shutil.rmtree(path, ignore_errors=True)


def restore_server(server: ServerLoop, recovery: RecoveredRun) -> None:
    """What a killed server knew of its tasks: who runs, who arrived and must be found on a disk, who was refused."""
    state, now = recovery.state, recovery.state.book.now
    server.client_state.restore(recovery.memory_task)
    server.checkpoint_writer.resume_from(state.book.version)
    for damage in recovery.damages:
        server.warn(damage)
    server.tasks.set_next_task(state.next_task)
    waves = {wave.first: wave for wave in state.running.values()}
    for wave in waves.values():
        group = [t for t, w in state.running.items() if w.first == wave.first]
        slots = np.array(sorted(group), np.int64) - wave.first
        clients, max_weights = wave.assignments.clients[slots], server.offers.heaviest(wave)[slots]
        server.tasks.reopen(Phase.OPEN, slots + wave.first, clients, max_weights, now + server.options.lease)
        server.busy[clients] = True
    endings = uncommitted_arrivals(state)
    server.refusals.keep_only(e.task for e in endings)
    for phase in (Phase.GRANTED, Phase.REFUSED):
        group = [e for e in endings if (e.task in server.refusals.reasons) is (phase is Phase.REFUSED)]
        if group:
            tasks = np.array([e.task for e in group], np.int64)
            clients = np.array([e.wave.assignments.clients[e.task - e.wave.first] for e in group], np.int64)
            server.tasks.reopen(
                phase, tasks, clients, server.plan.algorithm.fold.total_weight, now + server.options.lease
            )


def frontend_config(
    served: ServedRun, options: ServeOptions, streams: bool, address: str, shared: Path, tls: dict[str, str]
) -> FrontendConfig:
    """What transmitters are told before they listen; their number and folder are still to be filled in."""
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
        in_flight_bytes=options.in_flight_bytes, largest=max_report_bytes(plan), codecs=[codec_recipe(c) for c in kinds],
        codec_of=codec_of, tls=tls, stats=stat_names(plan),
    )  # fmt: skip


@contextmanager
def _handle_signals(server: ServerLoop, oversight: Monitor) -> Iterator[None]:
    """SIGINT stops at once, SIGTERM lets uploads in flight end first; the second signal of any kind stops at once."""
    loop = asyncio.get_running_loop()
    signals: list[int] = []

    def stop(number: int) -> None:
        signals.append(number)
        oversight.log.say("info", "asked to stop", signal=signal.Signals(number).name)
        if number == signal.SIGTERM and len(signals) == 1:
            server.run_in_background(_drain_and_stop(server, oversight, number))
        else:
            server.fail(ServerStopped(number))

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop, number)
        except (ValueError, RuntimeError):  # not in the main thread: somebody else minds signals
            break
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.remove_signal_handler(number)
            except (ValueError, RuntimeError):
                break


async def _drain_and_stop(server: ServerLoop, oversight: Monitor, number: int) -> None:
    """No new work, uploads in flight end and are made safe; then it is over, in any case after the seconds that it has."""
    server.draining = True
    for out in server.outboxes():
        out.drain = True
    server.schedule()
    now = asyncio.get_running_loop().time
    began = now()
    drain = signal_stop(Drain(seconds=server.options.drain_seconds), began)
    while drain.phase < DrainPhase.CLOSING:
        uploading = sum(counts.get(INFLIGHT_BYTES, 0) > 0 for counts in server.counters.values())
        if now() - began < min(_COUNTERS_SECONDS, drain.seconds / 2):
            uploading = max(1, uploading)  # nobody has told yet
        remaining = OpenWork(uploads=uploading, unsafe=uploading)
        drain = advance(drain, remaining, now())
        oversight.draining = status_text(drain)
        oversight.refresh(server)
        await asyncio.sleep(0.1)
    server.fail(ServerStopped(number))


def _combine_listeners(first: EventListener | None, second: EventListener) -> EventListener:
    def listener(events: Sequence[Event]) -> None:
        if first is not None:
            first(events)
        second(events)

    return listener


def _journal_events(served: ServedRun, recovery: RecoveredRun | None) -> Iterator[Event]:
    """What the journal of a run says that goes on."""
    return decode(journals.rows_of(served.folder / "run.db")) if recovery is not None else iter(())


def make_private(folder: Path) -> None:
    """Only the owner may look into the folder of a served run."""
    os.chmod(folder, 0o700)
