"""Judging in a served run: by a process beside the loop, by devices with a deadline, or by both."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.commands import Evaluate, Probe
from fedfleet.core.errors import RunFailed
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints, ServerState
from fedfleet.executors.gather import as_known
from fedfleet.network.evaluation import by_devices
from fedfleet.network.evaluation.by_devices import Answer, Asked, Kind, Verdict, Where, share_of
from fedfleet.network.evaluation.results import Judged
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.presence import askable

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import Processor

_STATUS = {
    Verdict.TAKEN: pb.Receipt.SAFE, Verdict.AGAIN: pb.Receipt.SAFE, Verdict.LATE: pb.Receipt.UNWANTED,
    Verdict.STRAY: pb.Receipt.REFUSED, Verdict.WRONG: pb.Receipt.REFUSED,
}  # fmt: skip


class Judgement:
    """Who is judging what. Devices whose models are their own judge them themselves: nobody else has what they remember."""

    def __init__(self, processor: Processor) -> None:
        self._of = processor
        self._next = by_devices.first_of_start(time.time())
        self._asked: dict[Kind, Asked] = {}  # while an asynchronous run evaluates, a probe may be out too
        self._waves: dict[Kind, inside.Wave] = {}
        self._probe: Probe | None = None
        self._central: Judged | None = None
        self._evaluate: Evaluate | None = None
        self._begin_by: float | None = None  # until then, devices that should judge have time to come (back)
        where = processor.options.evaluate
        half = processor.plan.algorithm.local(0, NO_SETTINGS)
        own = processor.plan.algorithm.personal is not None or (isinstance(half, LocalPass) and half.remembers())
        self._where: Where = "both" if where == "server" and own else where  # type: ignore[assignment]

    def until(self) -> float | None:
        """When the time of those who were asked is over."""
        moments = [asked.until for asked in self._asked.values()]
        return min([*moments, *([] if self._begin_by is None else [self._begin_by])], default=None)

    def evaluate(self, command: Evaluate) -> None:
        """Let a model be judged; a server that was just started again waits for the devices that should."""
        if command.known is not None:
            self._of.facts.append(as_known(command.version, command.known, self._of.now()))
            return
        self._evaluate, self._central = command, None
        waits = share_of(self._where, command.clients).devices and self._of.state.next_task > 0
        self._begin_by = self._of.now() + (self._of.options.patience if waits else 0.0)
        self._begin(command)

    def _begin(self, command: Evaluate) -> None:
        here = len(self._there()) + int(self._of.busy.sum())
        if self._begin_by is None or (here < self._of.options.devices and self._of.now() < self._begin_by):
            return
        self._begin_by = None
        share = share_of(self._where, command.clients)
        if share.devices:
            clients = self._there()
            if len(clients):
                self._ask(Kind.EVALUATE, clients, self._of.options.evaluate_seconds, command.server, command.version)
        if share.central or Kind.EVALUATE not in self._asked:
            self._of.beside(self._judged(command, share.shards))

    async def _judged(self, command: Evaluate, shards: bool) -> None:
        found = await self._of.served.judge.evaluate(command.version, command.server.params, shards)

        def heard() -> None:
            if self._evaluate is command:
                self._central = found
                self.look(self._of.now())

        self._of.soon(heard)

    def probe(self, command: Probe) -> None:
        """Ask devices for the loss of a model on their own data."""
        if command.stat != "loss":
            raise RunFailed(
                f"selector {self._of.plan.choose.name!r} probes clients for {command.stat}, which no device can tell beforehand"
            )
        self._probe = command
        within = min(command.within, self._of.options.evaluate_seconds)
        self._ask(Kind.PROBE, command.clients, within, command.server, self._of.state.book.version)

    def _there(self) -> Ints:
        return askable(self._of.presence.present(self._of.now()), self._of.busy).astype(np.int64)

    def _ask(self, kind: Kind, clients: Ints, seconds: float, server: ServerState, version: int) -> None:
        of, now = self._of, self._of.now()
        most = None if kind is Kind.PROBE else of.served.registry.most_tests(clients, self._dealt(clients))
        asked = self._asked[kind] = Asked(kind, clients, now + seconds, server, version, self._next, most)
        self._next += len(clients)
        message = self._waves[kind] = inside.Wave(
            first=asked.first, round=of.state.book.round, version=version, kind=int(kind),
            clients=clients.astype(np.uint32).tobytes(), heaviest=np.zeros(len(clients)).tobytes(), lease_seconds=seconds,
            memory_task=of.memories.task[clients].tobytes(), seed=of.plan.seed, time=now,
        )  # fmt: skip
        blobs = of.offering.judged(server, version, clients, message)
        for out in of.everybody():
            out.blobs.extend(blobs)
            out.waves.append(message)

    def _dealt(self, clients: Ints) -> Ints:
        """How many test samples the spec deals to each of these."""
        data = self._of.world.data
        return np.array([len(data.shard(client, "test", 0)) for client in clients.tolist()], np.int64)

    def introduce(self, out: inside.ToTransmitter) -> None:
        """Tell a transmitter that has just started who is still asked."""
        for kind, asked in self._asked.items():
            out.waves.append(self._waves[kind])
            out.withdrawn.extend((np.flatnonzero(asked.fate != by_devices.Fate.SILENT) + asked.first).tolist())

    def versions(self) -> set[int]:
        """The versions that somebody is judging: devices may still fetch them."""
        return {asked.version for asked in self._asked.values()}

    def claimed(self, claim: inside.Claim, now: float) -> inside.Grant:
        """A device answers; what it is told."""
        asked = next((a for a in self._asked.values() if by_devices.holds(a, claim.task)), None)
        if asked is None:
            for out in self._of.everybody():
                out.withdrawn.append(claim.task)
            return inside.Grant(
                number=claim.number, status=pb.Receipt.UNWANTED, reason="nobody waits for this any more"
            )
        said = Answer(claim.client, claim.correct, claim.total, claim.loss)
        if claim.declined:
            verdict = by_devices.decline(asked, claim.task, claim.client, now)
        else:
            verdict = by_devices.answer(asked, claim.task, said, now)
        why = by_devices.wrong(asked, claim.task, said) if verdict is Verdict.WRONG else ""
        if verdict is Verdict.WRONG:  # it would judge again, and be wrong again, until its time is over
            by_devices.decline(asked, claim.task, claim.client, now)
        if verdict is not Verdict.STRAY:
            for out in self._of.everybody():
                out.withdrawn.append(claim.task)
        self._of.soon()
        return inside.Grant(number=claim.number, status=_STATUS[verdict], reason=why or "")

    def look(self, now: float) -> None:
        """Is everything there that was asked for?"""
        probed = self._asked.get(Kind.PROBE)
        if self._probe is not None and probed is not None and by_devices.finished(probed, now):
            self._end(probed)
            self._of.facts.append(by_devices.probed(probed, self._probe.stat, now))
            self._probe = None
        if self._evaluate is not None:
            self._begin(self._evaluate)
        command, asked = self._evaluate, self._asked.get(Kind.EVALUATE)
        if self._begin_by is not None:
            return
        if command is None or (asked is not None and not by_devices.finished(asked, now)):
            return
        if self._central is None and (asked is None or share_of(self._where, command.clients).central):
            return
        self._evaluate = None
        if asked is not None:
            self._of.remark(by_devices.remark(asked))
            self._end(asked)
        self._of.facts.append(by_devices.evaluated(now, command.version, self._central, asked))

    def _end(self, asked: Asked) -> None:
        silent = (np.flatnonzero(asked.fate == by_devices.Fate.SILENT) + asked.first).tolist()
        for out in self._of.everybody():
            out.withdrawn.extend(silent)
        del self._asked[asked.kind], self._waves[asked.kind]
