"""The loop of an edge's own run: that of a server, whose rounds wait for turns and whose last average of a turn makes a report."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedfleet.core import aggregation, exact
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.events import Event, ReportsGathered, RoundFailed
from fedfleet.core.records import Wave
from fedfleet.core.tensor_format import pack_tree
from fedfleet.core.trees import Tree, difference
from fedfleet.engine.coordinator import make_model
from fedfleet.engine.state import RunState
from fedfleet.network.device.shared_samples import pack_samples, unpack_samples
from fedfleet.network.edge.edge_plan import next_sync, wave_rows
from fedfleet.network.edge.turn_store import StoredTurn, SyncStats, TurnReport, TurnStore
from fedfleet.network.frontend.spool import read_spool
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.process_link import Blob, write_blob
from fedfleet.network.protocol.turn_format import EdgeSync, EdgeTurn
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.network.server.turns import CommitJob
from fedfleet.simulation.checkpoints import checkpoint_files
from fedfleet.store.aggregates import keep_aggregate
from fedfleet.store.files import meta_of

_MAX_FAILURES = 3  # averages in a row of which no report could be used


class EdgeLoop(ServerLoop):
    """A server loop that carries out turns."""

    def __init__(
        self, store: TurnStore, served: ServedRun, options: ServeOptions, state: RunState, shared: Path, *, gatherings: int = 0
    ) -> None:
        super().__init__(served, options, state, shared, gatherings=gatherings)
        self._store, self._failures = store, 0
        self.candidates.ready = lambda now: store.find(next_sync(now.server)) is not None
        self.offers.fill_in = self._fill_in
        self.run.listeners.append(self._on_events)

    def end(self, reason: str) -> None:
        """The server says that the run is over: devices are told, and have a moment to call."""
        if not self.end_reason:
            self.end_reason = reason
            self.supervisor.tell(inside.ToTransmitter(over=reason))
            self.turns.run_in_background(self._farewell_to_all())
            self.turns.schedule()

    async def _farewell_to_all(self) -> None:
        """An edge that was started again for this alone waits for devices to call."""
        until = time.monotonic() + self.options.farewell_seconds
        while time.monotonic() < until and self.supervisor.counted("told_over") < self.options.devices:
            await asyncio.sleep(0.1)
        self.turns.finish()

    def _fill_in(self, wave: Wave, message: inside.Wave) -> list[Blob]:
        """The rows of each device, and after an exchange the samples that come to it."""
        clients, found = wave.assignments.clients, self._store.find(next_sync(wave.server))
        assert found is not None
        stored, sync = found
        message.rows.extend(wave_rows(self._store, next_sync(wave.server), clients))
        if sync.exchange or next_sync(wave.server) != stored.first + stored.turn.exchanges:
            return []
        samples = self._store.samples(stored)
        blobs = {place: write_blob(self.offers.shared, data) for place, data in samples.items()}
        if blobs:
            message.turns.extend(blobs[place].name if place in blobs else "" for place in clients.tolist())
        return [blobs[place] for place in clients.tolist() if place in blobs]

    async def _commit(self, job: CommitJob) -> None:
        """As any commit, with one thing before it is journalled: what goes up after the last average of a turn is on the disk."""
        found = self._store.find(next_sync(job.command.server))
        assert found is not None
        if found[1].exchange:
            loop = asyncio.get_running_loop()
            exchanged = await loop.run_in_executor(None, self._exchange, job, found[0], found[1])
            self.turns.schedule(lambda: self._on_commit(job, exchanged, None))
            return
        fact, blob = await self.commits.make(job, self.offers)
        if fact.made is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._record, job, fact)
        self.turns.schedule(lambda: self._on_commit(job, fact, blob))

    def _record(self, job: CommitJob, fact: ReportsGathered) -> None:
        sync = next_sync(job.command.server)
        found = self._store.find(sync)
        assert found is not None
        stored, _ = found
        self._store.add_stats(stored, sync, _stats_of(fact))
        if sync + 1 == stored.end:
            self._store.finish(stored, turn_report(stored, fact, self._store))
            self._forget()

    def _exchange(self, job: CommitJob, stored: StoredTurn, sync: EdgeSync) -> ReportsGathered:
        """Keep what devices gave for those that get it. The aggregate of the fact moves no model."""
        spooled = [entry for folder in job.spools for entry in read_spool(Path(folder), job.bucket)]
        payloads = {entry.client: data for entry, data in spooled}
        samples = samples_by_place(stored.turn, sync, payloads)
        self._store.keep_samples(stored, samples)
        fold, command = self.served.plan.algorithm.fold, job.command
        acc = aggregation.zero(fold, command.server)
        total = aggregation.sum_for(acc, "")
        total.count, total.weight = len(command.tasks), exact.weight_units(1.0)
        fact = ReportsGathered(0.0, acc, np.array(sorted(command.tasks), np.int64), {}, ())
        keep_aggregate(self.served.folder, self.commits.gatherings, fact)
        return replace(fact, made=make_model(self.served.plan.algorithm, command.server, fact))

    def _forget(self) -> None:
        """Remove turns and aggregates that no resume can need, as of the older of two checkpoints."""
        files = checkpoint_files(self.served.folder)
        if len(files) < 2:
            return
        meta = meta_of(files[-1])
        self._store.forget_before(int(meta["state"]["book"]["version"]))
        for path in (self.served.folder / "aggregates").glob("*.safetensors"):
            if int(path.stem) < int(meta["gatherings"]):
                path.unlink(missing_ok=True)

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, RoundFailed):
                self._failures += 1
                if self._failures >= _MAX_FAILURES:
                    self.turns.fail(RunFailed(f"{self._failures} averages in a row failed; the last: {event.reason}"))
            elif isinstance(event, ReportsGathered) and len(event.tasks):
                self._failures = 0


def turn_report(stored: StoredTurn, fact: ReportsGathered, store: TurnStore) -> TurnReport:
    """What goes up after the last average of a turn: the exact sum of a single one, else how far the model has come."""
    assert fact.made is not None
    assert fact.aggregate is not None
    turn, acc = stored.turn, fact.aggregate
    # As the edge of a simulation adds weights up; sums of samples are exact either way.
    weight = math.fsum(math.ldexp(float(part.weight), -60) for part in acc.sums.values())
    payload = pack_tree(aggregation.save(acc) if turn.forwards else difference(fact.made.server.params, stored.model))
    losses, refused = store.stats(stored)
    samples = sum(n for _, n in losses)
    stats = {
        **turn.stats,
        "samples": float(turn.samples or samples),
        "refused": float(refused),
        **({"loss": sum(loss * n for loss, n in losses) / samples} if samples else {}),
    }
    return TurnReport(payload, weight if turn.weight is None else turn.weight, stats)


def _stats_of(fact: ReportsGathered) -> SyncStats:
    none = [0.0] * len(fact.tasks)
    losses, samples = (fact.stats[name].tolist() if name in fact.stats else none for name in ("loss", "samples"))
    return SyncStats(list(zip(losses, samples, strict=True)), len(fact.rejected))


def samples_by_place(turn: EdgeTurn, sync: EdgeSync, payloads: Mapping[int, bytes]) -> dict[int, bytes]:
    """What each place gets, from what each gave. RunFailed if a device did not give what it was asked for."""
    given: dict[int, Tree] = {}
    place_of: dict[int, tuple[int, int]] = {}
    for place, rows in zip(sync.slots.tolist(), sync.rows, strict=True):
        assert rows is not None
        if place not in payloads:
            raise RunFailed(
                f"device {place} gave no samples, and the turn cannot be carried out without them; start it, then the edge"
            )
        try:
            given[place] = unpack_samples(payloads[place], rows)
        except (Refused, ValueError, KeyError) as error:
            raise RunFailed(f"the samples that device {place} gave cannot be used ({error})") from None
        place_of |= {row: (place, n) for n, row in enumerate(rows.tolist())}
    result: dict[int, bytes] = {}
    for place, rows in turn.gets.items():
        at = [place_of[row] for row in rows.tolist()]
        leaves = {name: np.stack([given[giver][name][n] for giver, n in at]) for name in ("x", "y")}
        result[place] = pack_samples(rows, leaves)
    return result
