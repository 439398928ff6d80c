"""The turns of an edge on its disk: what the server asked for, how far the devices are, and the report that goes up.

Turns are carried out one after the other, and their averages are numbered through the edge's life: average n is that in which the
edge's own run makes its model n + 1. Two threads use a store: the one that talks to the server adds turns and waits for reports,
and the edge's own run looks turns up and adds reports.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfleet.core.errors import RunFailed
from fedfleet.core.json_text import parse_json
from fedfleet.core.trees import Array, Tree
from fedfleet.network.protocol.frames import crc32c
from fedfleet.network.protocol.turn_format import EdgeSync, EdgeTurn, turn_from_bytes
from fedfleet.store.files import DamagedFile, load_tree, save_tree

_MODEL, _TURN, _PAYLOAD = "model/", "turn", "payload"


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One turn: its number here, its first average, the model that it begins with, and by what it is known again."""

    number: int
    first: int
    key: str
    turn: EdgeTurn
    model: Tree

    @property
    def end(self) -> int:
        """The first average of the turn that follows."""
        return self.first + len(self.turn.syncs)


class TurnReport(NamedTuple):
    """What goes up after a turn: the bytes, what they weigh, and statistics."""

    payload: bytes
    weight: float
    stats: dict[str, float]


class SyncStats(NamedTuple):
    """Of one average: loss and samples of each device whose report counts, and how many reports were refused."""

    losses: list[tuple[float, float]]
    refused: int


def turn_key(task: int, model: bytes, turn: bytes) -> str:
    """By what a turn is known again: a server that lost the end of its journal gives numbers of tasks a second time."""
    return f"{task}-{crc32c(model):08x}-{crc32c(turn):08x}"


class TurnStore:
    """The turns in a folder, for an edge with so many places for devices. `on_turn` is called when there is a new one."""

    def __init__(self, folder: Path, slots: int) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder, self._slots = folder, slots
        self._changed = threading.Condition()
        self._ended = ""
        self.on_turn: Callable[[], None] = _nothing
        self._turns = [self._load(path) for path in sorted(folder.glob("turn-*.safetensors"))]

    # ---- the side of the server ----------------------------------------------------------------------------------------

    def begin(self, task: int, model: bytes, params: Tree, data: bytes) -> StoredTurn:
        """A turn that the server asks for; the same as before, if it was asked for before. It is on the disk when this returns."""
        key = turn_key(task, model, data)
        last = self.last
        if last is not None and last.key == key:
            return last
        if last is not None and self.report(last) is None:
            raise RunFailed(f"internal error: turn {last.key} is not over, and turn {key} was to begin; please report this")
        turn = turn_from_bytes(data, self._slots)
        number, first = (0, 0) if last is None else (last.number + 1, last.end)
        stored = StoredTurn(number, first, key, turn, params)
        tree = {f"{_MODEL}{n}": v for n, v in params.items()} | {_TURN: np.frombuffer(data, np.uint8)}
        save_tree(self._path("turn", number), tree, {"number": number, "first": first, "key": key, "names": list(params)})
        with self._changed:
            self._turns.append(stored)
        self.on_turn()
        return stored

    @property
    def last(self) -> StoredTurn | None:
        """The newest turn."""
        return self._turns[-1] if self._turns else None

    def await_report(self, stored: StoredTurn) -> TurnReport:
        """The report of a turn, when it is over; RunFailed if the edge's own run ends before."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._path("report", stored.number).exists())
        report = self.report(stored)
        if report is None:
            raise RunFailed(self._ended)
        return report

    def report(self, stored: StoredTurn) -> TurnReport | None:
        """The report of a turn; None if it is not over."""
        path = self._path("report", stored.number)
        if not path.exists():
            return None
        tree, meta = load_tree(path)
        return TurnReport(tree[_PAYLOAD].tobytes(), float(meta["weight"]), {n: float(v) for n, v in meta["stats"].items()})

    # ---- the side of the edge's own run ---------------------------------------------------------------------------------

    def find(self, sync: int) -> tuple[StoredTurn, EdgeSync] | None:
        """The turn to which an average belongs, and what is asked in it; None if the server has not asked for it yet."""
        for stored in reversed(self._turns):
            if stored.first <= sync < stored.end:
                return stored, stored.turn.syncs[sync - stored.first]
        return None

    def add_stats(self, stored: StoredTurn, sync: int, stats: SyncStats) -> None:
        """Keep what the devices reported of an average; asked again after a kill, it is written again."""
        path = self._path("stats", stored.number, ".json")
        try:
            table: dict[str, Any] = parse_json(path.read_bytes())
        except (OSError, ValueError):
            table = {}
        # Statistics may be lost in a crash of the machine, and nothing but a figure of the journal follows from them.
        draft = path.with_suffix(".part")
        draft.write_text(json.dumps(table | {str(sync): [stats.losses, stats.refused]}), encoding="utf-8")
        draft.replace(path)

    def stats(self, stored: StoredTurn) -> SyncStats:
        """What the devices reported in all averages of a turn, in their order."""
        try:
            table = parse_json(self._path("stats", stored.number, ".json").read_bytes())
        except (OSError, ValueError):
            return SyncStats([], 0)
        rows = [table[str(sync)] for sync in range(stored.first, stored.end) if str(sync) in table]
        return SyncStats([(float(a), float(b)) for row in rows for a, b in row[0]], sum(int(row[1]) for row in rows))

    def finish(self, stored: StoredTurn, report: TurnReport) -> None:
        """A turn is over. Its report is on the disk when this returns."""
        payload: Array = np.frombuffer(report.payload, np.uint8)
        save_tree(self._path("report", stored.number), {_PAYLOAD: payload}, {"weight": report.weight, "stats": report.stats})
        # The devices have them now.
        self._path("samples", stored.number).unlink(missing_ok=True)
        with self._changed:
            self._changed.notify_all()

    def keep_samples(self, stored: StoredTurn, samples: Mapping[int, bytes]) -> None:
        """Keep the samples that come to each place in this turn, until it is over. They are on the disk when this returns."""
        path = self._path("samples", stored.number)
        save_tree(path, {str(place): np.frombuffer(data, np.uint8) for place, data in samples.items()})

    def samples(self, stored: StoredTurn) -> dict[int, bytes]:
        """The samples that come to each place in this turn."""
        if not stored.turn.exchanges:
            return {}
        path = self._path("samples", stored.number)
        tree = load_tree(path)[0] if path.exists() else {}  # at the end of a turn the devices have them
        return {int(place): data.tobytes() for place, data in tree.items()}

    def end(self, reason: str) -> None:
        """The edge's own run has ended: nobody need wait for a report."""
        with self._changed:
            self._ended = reason or "the edge has ended"
            self._changed.notify_all()

    def forget_before(self, sync: int) -> None:
        """Remove turns that ended before this average, which no resume needs any more."""
        for stored in [one for one in self._turns[:-1] if one.end <= sync]:
            for path in (
                self._path("turn", stored.number),
                self._path("report", stored.number),
                self._path("stats", stored.number, ".json"),
            ):
                path.unlink(missing_ok=True)
            with self._changed:
                self._turns.remove(stored)

    def _load(self, path: Path) -> StoredTurn:
        try:
            tree, meta = load_tree(path)
        except DamagedFile as error:
            raise RunFailed(f"a turn of this edge is damaged ({error}); start the edge with another --store") from None
        params = {name: tree[f"{_MODEL}{name}"] for name in meta["names"]}
        turn = turn_from_bytes(tree[_TURN].tobytes(), self._slots)
        return StoredTurn(int(meta["number"]), int(meta["first"]), str(meta["key"]), turn, params)

    def _path(self, kind: str, number: int, suffix: str = ".safetensors") -> Path:
        return self._folder / f"{kind}-{number:08d}{suffix}"


def _nothing() -> None:
    """Nobody listens."""
