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
from fedfleet.engine.commands import carry_out
from fedfleet.engine.coordinator import begin
from fedfleet.engine.open_commands import pending
from fedfleet.engine.state import RunState
from fedfleet.network.frontend.garbage_collector import seldom_collected
from fedfleet.network.frontend.partial_sums import sheet_of, sheet_to_json
from fedfleet.network.frontend.report_decoder import recipe_of
from fedfleet.network.operations.counters import INFLIGHT_BYTES
from fedfleet.network.operations.drain import Drain, Left, advanced, said, signalled
from fedfleet.network.operations.drain import Phase as DrainPhase
from fedfleet.network.operations.monitor import Oversight
from fedfleet.network.rules.task_table import Phase
from fedfleet.network.server.blobs import remove_folder, shared_folder
from fedfleet.network.server.dispatch import arrived
from fedfleet.network.server.options import Serve, Start
from fedfleet.network.server.recovery import Recovered
from fedfleet.network.server.served_plan import Served, check_servable, codecs_of, largest_report, stats_of
from fedfleet.network.server.server_loop import Processor
from fedfleet.network.server.supervisor import Tending, enough, reserved, starts_of
from fedfleet.store import journal as journals
from fedfleet.store.journal_rows import decode

_TOLD_SECONDS = 1.0  # transmitters tell twice a second what is under way


Hear = Callable[[Sequence[Event]], None]


class Stopped(Exception):
    """The server was asked to stop before the run was over; everything that it acknowledged is on the disk."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


@dataclass(frozen=True, slots=True)
class Listening:
    """What a server says when it listens."""

    address: str
    pids: tuple[int, ...]


def serve(
    served: Served,
    options: Serve,
    *,
    back: Recovered | None = None,
    tls: Mapping[str, str] | None = None,
    listening: Callable[[Processor, Listening], None] | None = None,
) -> RunState:
    """Serve a plan to its end; `back` is where a killed server left it. `listening` is told when devices may come."""
    check_servable(served.plan, options.devices)
    with seldom_collected():
        return asyncio.run(_serve(served, options, back, dict(tls or {}), listening))


async def _serve(
    served: Served,
    options: Serve,
    back: Recovered | None,
    tls: dict[str, str],
    listening: Callable[[Processor, Listening], None] | None,
) -> RunState:
    (served.folder / "wire").mkdir(exist_ok=True, mode=0o700)
    with closing(Oversight(served, options, _events_before(served, back))) as oversight:
        return await _overseen(served, options, back, tls, listening, oversight)


async def _overseen(
    served: Served,
    options: Serve,
    back: Recovered | None,
    tls: dict[str, str],
    listening: Callable[[Processor, Listening], None] | None,
    oversight: Oversight,
) -> RunState:
    held, address = reserved(options.address)
    shared = shared_folder()
    state = back.state if back is not None else begin(served.plan).state
    processor = Processor(served, options, state, at=state.book.now, gatherings=back.gatherings if back else 0)
    processor.offering.shared = shared
    processor.offering.lay_frozen()
    processor.log, processor.figures = oversight.log.say, lambda: oversight.figures(processor)
    processor.hear_of = _both(served.watch, oversight.hear)
    if back is not None:
        take_up(processor, back)
    start = starting(served, options, processor.streams, address, shared, tls)
    folders = str(served.folder / "wire")
    transmitters = enough(options.transmitters, served.folder / "wire")
    tending = Tending(
        starts_of(start, transmitters, folders),
        processor.heard,
        processor.died,
        processor.fail,
        own=transmitters == 0,
    )
    watching: asyncio.Task[None] | None = None
    try:
        with _signals(processor, oversight):
            running = asyncio.create_task(_process(processor, tending, begun=back is not None and back.begun))
            watching = asyncio.create_task(oversight.watch(processor))
            await _until_ready(tending, running)
            oversight.board.listening = True
            if listening is not None:
                listening(processor, Listening(address, tuple(tending.pids())))
            await running
    finally:
        oversight.board.listening = False
        if watching is not None:
            watching.cancel()
        await tending.close()
        await processor.close()
        await served.judge.close()
        held.close()
        remove_folder(shared)
    return processor.state


async def _process(processor: Processor, tending: Tending, *, begun: bool) -> None:
    """Run to the end, from the first event unless it has `begun`."""
    processor.tending, processor.done = tending, asyncio.get_running_loop().create_future()
    for index in range(len(tending.all)):
        await tending.start(index)
    if not begun:
        first = begin(processor.plan)
        processor.tell(first.outcomes)
        commands = first.commands
    else:
        commands = pending(processor.plan, processor.state)
    for command in commands:
        carry_out(processor, command)
    processor.soon()
    await processor.done


async def _until_ready(tending: Tending, running: asyncio.Task[None]) -> None:
    while not running.done() and not all(tended.ready for tended in tending.all):
        await asyncio.sleep(0.02)


def forget_reports(folder: Path) -> None:
    """Remove what transmitters kept of reports: all commits are made, and sums without noise must not outlive a private run."""
    for path in (folder / "wire").glob("t[0-9]*"):
        shutil.rmtree(path, ignore_errors=True)


def take_up(processor: Processor, back: Recovered) -> None:
    """What a killed server knew of its tasks: who runs, who arrived and must be found on a disk, who was refused."""
    state, now = back.state, back.state.book.now
    processor.memories.take_up(back.memory_task)
    processor.saving.taken_up(state.book.version)
    for damage in back.damages:
        processor.remark(damage)
    processor.tasks.sent_before(state.next_task)
    waves = {wave.first: wave for wave in state.running.values()}
    for wave in waves.values():
        own = [t for t, w in state.running.items() if w.first == wave.first]
        slots = np.array(sorted(own), np.int64) - wave.first
        clients, most = wave.asked.clients[slots], processor.offering.heaviest(wave)[slots]
        processor.tasks.reopen(Phase.OPEN, slots + wave.first, clients, most, now + processor.options.lease)
        processor.busy[clients] = True
    came = arrived(state)
    processor.refusals.only(e.task for e in came)
    for phase in (Phase.GRANTED, Phase.REFUSED):
        own = [e for e in came if (e.task in processor.refusals.reasons) is (phase is Phase.REFUSED)]
        if own:
            tasks = np.array([e.task for e in own], np.int64)
            clients = np.array([e.wave.asked.clients[e.task - e.wave.first] for e in own], np.int64)
            processor.tasks.reopen(
                phase, tasks, clients, processor.plan.algorithm.fold.total_weight, now + processor.options.lease
            )


def starting(served: Served, options: Serve, streams: bool, address: str, shared: Path, tls: dict[str, str]) -> Start:
    """What transmitters are told before they listen; their number and folder are still to be filled in."""
    plan = served.plan
    codecs = codecs_of(plan)
    kinds: list[Codec] = []
    codec_of: list[list[int]] = []
    for client, codec in codecs.items():
        if codec not in kinds:
            kinds.append(codec)
        codec_of.append([client, kinds.index(codec) + 1])
    return Start(
        index=0, address=address, clients=plan.clients, key=served.key.data.hex(), folder="", shared=str(shared),
        sheet=sheet_to_json(sheet_of(plan.algorithm.fold, plan.algorithm.init(plan.params))), stream=streams,
        spool=not streams or options.keep_reports, durable=options.durable, encode_once=options.encode_once,
        hold=options.hold, hold_seconds=options.hold_seconds, commit_seconds=options.commit_seconds,
        in_flight_bytes=options.in_flight_bytes, largest=largest_report(plan), codecs=[recipe_of(c) for c in kinds],
        codec_of=codec_of, tls=tls, stats=stats_of(plan),
    )  # fmt: skip


@contextmanager
def _signals(processor: Processor, oversight: Oversight) -> Iterator[None]:
    """SIGINT stops at once, SIGTERM lets uploads in flight end first; the second signal of any kind stops at once."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def stop(number: int) -> None:
        seen.append(number)
        oversight.log.say("info", "asked to stop", signal=signal.Signals(number).name)
        if number == signal.SIGTERM and len(seen) == 1:
            processor.beside(_drained(processor, oversight, number))
        else:
            processor.fail(Stopped(number))

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


async def _drained(processor: Processor, oversight: Oversight, number: int) -> None:
    """No new work, uploads in flight end and are made safe; then it is over, in any case after the seconds that it has."""
    processor.draining = True
    for out in processor.everybody():
        out.drain = True
    processor.soon()
    now = asyncio.get_running_loop().time
    began = now()
    drain = signalled(Drain(seconds=processor.options.drain_seconds), began)
    while drain.phase < DrainPhase.CLOSING:
        under_way = sum(counts.get(INFLIGHT_BYTES, 0) > 0 for counts in processor.counters.values())
        if now() - began < min(_TOLD_SECONDS, drain.seconds / 2):
            under_way = max(1, under_way)  # nobody has told yet
        left = Left(uploads=under_way, unsafe=under_way)
        drain = advanced(drain, left, now())
        oversight.draining = said(drain)
        oversight.look(processor)
        await asyncio.sleep(0.1)
    processor.fail(Stopped(number))


def _both(first: Hear | None, second: Hear) -> Hear:
    def hear(events: Sequence[Event]) -> None:
        if first is not None:
            first(events)
        second(events)

    return hear


def _events_before(served: Served, back: Recovered | None) -> Iterator[Event]:
    """What the journal of a run says that goes on."""
    return decode(journals.rows_of(served.folder / "run.db")) if back is not None else iter(())


def made_private(folder: Path) -> None:
    """Only the owner may look into the folder of a served run."""
    os.chmod(folder, 0o700)
