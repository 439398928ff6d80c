"""A processor without transmitters: a test says what they would say, and reads what they would be told. No sockets, no processes.

Time passes when a test lets it: `scene.pass_by(seconds)` moves the clock of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.events import Event
from fedfleet.core.parts import Plan
from fedfleet.core.records import Report
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree
from fedfleet.engine.coordinator import begin
from fedfleet.network.evaluation.evaluators import EvalContext
from fedfleet.network.frontend.partial_sums import PartialSums, layout_from_json
from fedfleet.network.frontend.report_log import LogEntry, entry_to_bytes
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.security.enrolment import Registry, Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.server.options import FrontendConfig, ServeOptions
from fedfleet.network.server.recovery import RecoveredRun, recover, restore
from fedfleet.network.server.serve import frontend_config
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.network.server.supervisor import Supervisor, frontend_configs
from fedfleet.store import journal as journals
from fedfleet.store.files import save_tree
from fedfleet.testing.toys import opaque_executor
from tests.network.evaluation.thread import ThreadEvaluator
from tests.network.toys import Toy, payload_of, plan_of, worked, world_for

SECONDS = 60.0  # after which a test that waits has failed


class FakeSupervisor(Supervisor):
    """A supervisor that starts no process, and keeps what would be sent."""

    def __init__(self, configs: Sequence[FrontendConfig]) -> None:
        super().__init__(list(configs), lambda i, m: None, lambda i: None, lambda error: None, in_process=True)
        self.told: list[list[inside.ToTransmitter]] = [[] for _ in configs]
        self.started: list[int] = []

    async def start(self, index: int) -> None:
        """A new frontend takes the place of a dead one."""
        self.started.append(index)
        self.frontends[index].outbox = inside.ToTransmitter()

    def send_now(self, index: int, message: inside.ToTransmitter) -> None:
        """At once."""
        self.told[index].append(message)

    def send(self) -> None:
        """What gathered in this turn, to those that are ready."""
        for frontend, told in zip(self.frontends, self.told, strict=True):
            if frontend.ready and frontend.outbox.ByteSize():
                told.append(frontend.outbox)
                frontend.outbox = inside.ToTransmitter()


@dataclass(slots=True)
class Scene:
    """A processor, its desk of transmitters, and the toy that it runs."""

    toy: Toy
    plan: Plan
    processor: ServerLoop
    desk: FakeSupervisor
    numbers: dict[int, int] = field(default_factory=dict[int, int])
    held: dict[tuple[int, int], PartialSums] = field(default_factory=dict[tuple[int, int], PartialSums])
    claims: dict[tuple[int, int], tuple[inside.Claim, Report]] = field(
        default_factory=dict[tuple[int, int], tuple[inside.Claim, Report]]
    )
    granted: dict[int, tuple[int, LogEntry, Report]] = field(default_factory=dict[int, tuple[int, LogEntry, Report]])
    files: int = 0

    # ---- what transmitters say

    def say(self, index: int, **fields: Any) -> None:
        """A transmitter says this."""
        self.processor.on_message(index, inside.ToProcessor(**fields))

    def here(self, *clients: int, at: int = 0, back: float = 0.0) -> None:
        """These devices are on the line."""
        self.say(at, heard=list(clients), heard_back=[back] * len(clients))

    def ready(self, index: int, result: dict[int, list[LogEntry]] | None = None) -> None:
        """A transmitter listens, and its disk holds this."""
        parts = [
            inside.Found(bucket=bucket, tasks=[e.task for e in entries], entries=[entry_to_bytes(e) for e in entries])
            for bucket, entries in (result or {}).items()
        ]
        self.say(index, ready=inside.Ready(pid=1, found=parts))

    def die(self, index: int) -> None:
        """A transmitter is killed."""
        self.desk.frontends[index].ready = False
        self.desk.told[index].clear()
        self.processor.on_frontend_death(index)

    def report(self, task: int) -> Report:
        """What an honest device makes of a task that runs or ran."""
        wave = self.wave(task)
        client = int(wave.assignments.clients[task - wave.first])
        from fedfleet.network.protocol.frames import offer_to_bytes

        offer = self.plan.algorithm.offer(wave.server, client, {})
        return worked(self.toy, client, task, offer_to_bytes(offer))

    def wave(self, task: int) -> Any:
        """The wave of a task."""
        state = self.processor.state
        result = state.running.get(task)
        if result is not None:
            return result
        return next(w for t, (_, _, w) in self._known.items() if t == task)

    def claim(self, index: int, task: int, report: Report | None = None, **fields: Any) -> int:
        """A report is at a transmitter, whole; the number of its claim."""
        report = report or self.granted_before(task) or self.report(task)
        payload = payload_of(report)
        self.numbers[index] = number = self.numbers.get(index, 0) + 1
        said: dict[str, Any] = {
            "number": number, "client": report.client, "task": task, "nbytes": len(payload), "crc32c": hash(payload) & 0xFFFFFFFF,
            "weight": report.weight, "names": list(report.stats), "values": list(report.stats.values()), "stats": len(report.stats),
        }  # fmt: skip
        claim = inside.Claim(**(said | fields))
        self.claims[index, number] = claim, report
        self.say(index, claims=[claim])
        return number

    def granted_before(self, task: int) -> Report | None:
        """The report of a task that was granted."""
        return self.granted[task][2] if task in self.granted else None

    def safe(self, index: int, *tasks: int) -> None:
        """These are on the disk of a transmitter."""
        self.say(index, safe=list(tasks))

    def closed(self, index: int, bucket: int, tasks: Sequence[int]) -> None:
        """The sums of these granted reports, as a transmitter hands them in."""
        sums = PartialSums(layout_from_json(self.desk.frontends[index].config.sheet), None)
        for task in tasks:
            of, entry, report = self.granted[task]
            assert of == bucket
            sums.add(bucket, entry, report.update)
        saved, path = sums.bucket_sums(bucket), ""
        if saved is not None:
            self.files += 1
            path = str(self.processor.offers.shared / f"sums-{index}-{self.files}.safetensors")
            save_tree(Path(path), saved)
        self.say(index, closed=[inside.Closed(bucket=bucket, path=path, count=len(tasks))])

    # ---- what transmitters are told

    def told(self, index: int) -> list[inside.ToTransmitter]:
        """What a transmitter was told since it was last looked at."""
        result, self.desk.told[index] = self.desk.told[index], []
        return result

    def grants(self, index: int) -> list[inside.Grant]:
        """The answers to claims, since it was last looked at; grants are remembered."""
        result = [grant for message in self.told(index) for grant in message.grants]
        for grant in result:
            claim, report = self.claims[index, grant.number]
            if grant.granted:
                self.granted[claim.task] = (
                    grant.bucket,
                    LogEntry(
                        claim.task, claim.client, grant.order, grant.time, grant.weight, grant.factor, grant.sum, claim.crc32c,
                        claim.nbytes, tuple(claim.names), tuple(claim.values), claim.stats,
                    ),
                    report,
                )  # fmt: skip
        return result

    # ---- the loop and the clock

    async def turn(self, turns: int = 4) -> None:
        """Let everything happen that is due."""
        for _ in range(turns):
            self.note()
            self.processor.turns.schedule()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        self.note()
        if self.processor.turns.done is not None and self.processor.turns.done.done():
            self.processor.turns.done.result()

    async def until(self, look: Callable[[], Any]) -> Any:
        """Until this is true, whatever happens beside the loop."""
        end = asyncio.get_running_loop().time() + SECONDS
        while not (result := look()):
            await self.turn()
            await asyncio.sleep(0.002)
            assert asyncio.get_running_loop().time() < end, "it did not happen"
        self.note()
        return result

    def pass_by(self, seconds: float) -> None:
        """So many seconds pass."""
        self.processor.turns._started_at -= seconds

    _known: dict[int, Any] = field(default_factory=dict[int, Any])

    def note(self) -> None:
        """Remember the tasks that run."""
        for task, wave in self.processor.state.running.items():
            self._known.setdefault(task, (task, int(wave.assignments.clients[task - wave.first]), wave))

    @property
    def running(self) -> list[int]:
        """The tasks that run."""
        return sorted(self.processor.state.running)

    def client(self, task: int) -> int:
        """Whose task it is."""
        self.note()
        return self._known[task][1]

    def events(self, kind: type[Event] | None = None) -> list[Any]:
        """The journal so far."""
        self.processor.served.journal.flush()
        result = list(journals.read(self.processor.served.folder / "run.db"))
        return [e for e in result if kind is None or isinstance(e, kind)]

    def remarks(self) -> str:
        """What people were told."""
        return "\n".join(journals.remarks_of(self.processor.served.folder / "run.db"))


Act = Callable[[Scene], Coroutine[Any, Any, None]]


def play(
    folder: Path,
    toy: Toy,
    act: Act,
    *,
    transmitters: int = 2,
    resume: bool = False,
    plan: Plan | None = None,
    world: World | None = None,
    **options: Any,
) -> None:
    """Play an act with a processor in this folder; with `resume`, one that takes up what is there."""
    asyncio.run(_played(folder, toy, act, transmitters, resume, plan or plan_of(toy), world or world_for(toy), options))


async def _played(
    folder: Path, toy: Toy, act: Act, transmitters: int, resume: bool, plan: Plan, world: World, options: dict[str, Any]
) -> None:
    (folder / "wire").mkdir(parents=True, exist_ok=True)
    (folder / "aggregates").mkdir(exist_ok=True)
    shared = folder / "shared"
    shared.mkdir(exist_ok=True)
    back: RecoveredRun | None = None
    if resume:
        journal, back = recover(plan, world, folder)
    else:
        journal = journals.create(folder / "run.db", "toy")
    key = run_key(folder / "wire" / "run.key")
    registry = Registry(folder / "wire" / "devices.db", key, Terms(toy.clients, open=True))
    judge = ThreadEvaluator(EvalContext(plan, world, opaque_executor()))
    served = ServedRun(plan, world, judge, registry, key, lambda client: b"{}", journal, folder, "toy")
    serve = ServeOptions(**{"devices": toy.clients, "transmitters": transmitters, "farewell_seconds": 0.0, **options})
    state = back.state if back else begin(plan).state
    processor = ServerLoop(served, serve, state, shared, gatherings=back.gatherings if back else 0)
    if back is not None:
        restore(processor, back)
    start = frontend_config(served, serve, processor.admission.streams, "127.0.0.1:1", shared, {})
    desk = FakeSupervisor(frontend_configs(start, transmitters, str(folder / "wire")))
    processor.attach(desk)
    scene = Scene(toy, plan, processor, desk)
    try:
        processor.start(resume=back is not None and back.started)
        await act(scene)
    finally:
        ended = processor.turns.done = processor.turns.done or asyncio.get_running_loop().create_future()
        if ended.done():
            ended.exception()
        else:
            ended.set_result(None)  # no turn more
        await processor.close()
        await judge.close()
        registry.close()
        journal.close()


def same_sums(a: Tree, b: Tree) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(np.array_equal(a[n], b[n]) for n in a)


def summed(plan: Plan, server: Any, reports: Sequence[tuple[Report, Any]]) -> Tree:
    """The sums that the simulation would have of these reports."""
    acc = aggregation.zero(plan.algorithm.fold, server)
    for report, context in reports:
        assert aggregation.check_and_add(plan.algorithm.fold, acc, report, context) is None
    return aggregation.save(acc)
