"""The partial sums of one frontend: reports are added as they are granted, in any order, and kept so that a kill loses none.

A bucket holds all reports between two commits. Its sums have the bits that `core.aggregation` would give, so the server loop can
merge those of several frontends. `freeze` copies them in a moment, and `FrozenSums.write` makes them durable in a thread.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.core import aggregation, exact
from fedfleet.core.aggregation import Fold, Folding
from fedfleet.core.clip import clip_factor, slack
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.records import ServerState
from fedfleet.core.trees import Array, Tree
from fedfleet.network.frontend import sum_kernel
from fedfleet.network.frontend.report_log import LogEntry, checksum, entry_from_bytes, entry_to_bytes, record_head
from fedfleet.network.frontend.snapshots import SEGMENT, Flat, LogPosition, SnapshotStore, SumImage
from fedfleet.network.security.sum_cipher import SumCipher

_START = LogPosition(0, 0, 0)
_MAX_SPARES = 4  # arrays of discarded buckets that are kept for the next: fresh memory costs more than to wipe it


@dataclass(frozen=True, slots=True)
class FoldLayout:
    """What a frontend has to know of a fold: names, shapes, types and scales of the sums. `like` has no values."""

    like: Tree
    scales: dict[str, exact.Scale]
    total_weight: float
    clip: float | None


def fold_layout(fold: Fold, server: ServerState) -> FoldLayout:
    """The layout of a fold that streams."""
    like = fold.like(server)
    empty = {name: _empty_array(leaf.shape, leaf.dtype) for name, leaf in like.items()}
    return FoldLayout(empty, aggregation.scales_of(fold, like), fold.total_weight, fold.clip)


def layout_to_json(layout: FoldLayout) -> str:
    """A layout as text."""
    like = [[name, list(leaf.shape), leaf.dtype.str] for name, leaf in layout.like.items()]
    scales = {name: [s.bound, s.power, s.two_limbs] for name, s in layout.scales.items()}
    return json.dumps({"like": like, "scales": scales, "total_weight": layout.total_weight, "clip": layout.clip})


def layout_from_json(text: str) -> FoldLayout:
    """The inverse of `layout_to_json`."""
    fields = json.loads(text)
    like = {name: _empty_array(tuple(shape), np.dtype(kind)) for name, shape, kind in fields["like"]}
    scales = {name: exact.Scale(bound, power, two) for name, (bound, power, two) in fields["scales"].items()}
    return FoldLayout(like, scales, fields["total_weight"], fields["clip"])


def _empty_array(shape: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray:
    """An array of this shape and type that takes no memory."""
    return np.broadcast_to(np.zeros((), kind), shape)


def refusal(layout: FoldLayout, tree: Tree, weight: float, flat_update: Array | None = None) -> str | None:
    """Why a report may not enter the sums; None if it may. The sentences are those of the simulation.

    `flat_update` is the tree as one array, if there is such.
    """
    reason = sum_kernel.refusal(tree, weight, layout.like, layout.scales, layout.total_weight, flat_update)
    if reason is None and layout.clip is not None:
        try:
            clip_factor(layout.clip, (), slack(layout.like, layout.scales))
        except Refused as error:
            return str(error)
    return reason


def _common_scale(layout: FoldLayout) -> exact.Scale | None:
    """The scale of all leaves, if they have one type and one scale of one limb, so that they can be added as one array."""
    kinds, scales = {leaf.dtype for leaf in layout.like.values()}, set(layout.scales.values())
    if len(kinds) != 1 or len(scales) != 1 or layout.scales.keys() != layout.like.keys():
        return None
    (scale,) = scales
    return None if scale.two_limbs else scale


def _layout_mark(layout: FoldLayout) -> bytes:
    """What tells snapshots in which leaves lie by name from older ones, in which they lay in the model's order."""
    return b"" if [*layout.scales] == sorted(layout.scales) else b" by name"


@dataclass(slots=True)
class _Sum:
    """One sum of a bucket: its accumulator's arrays are views of `flat`; `image` is the copy of it that is on its way to disk."""

    flat: Flat
    acc: exact.Accumulator
    image: Flat | None = None
    copied_count: int = -1  # how many reports the copy has


@dataclass(slots=True)
class _Bucket:
    sums: dict[str, _Sum] = field(default_factory=dict[str, _Sum])
    tasks: set[int] = field(default_factory=set[int])
    recovered: tuple[bytes, ...] = ()
    segment: int | None = None  # of the log, in which its first entry is


@dataclass(slots=True)
class FrozenSums:
    """The sums at one moment. `write`, in a thread, makes them last; `tasks` are those that are safe when it returns."""

    tasks: tuple[int, ...]
    number: int = 0
    position: LogPosition = _START
    start: int = 0
    suffix: tuple[bytes, ...] = ()
    images: tuple[SumImage, ...] = ()
    store: SnapshotStore | None = None
    state: Literal["new", "writing", "written", "failed", "stale"] = "new"

    def write(self) -> None:
        """Write and sync the log and the snapshot. RunFailed if the disk will not have them; what was safe before stays safe."""
        if self.state not in ("new", "failed"):
            raise RuntimeError(f"these frozen sums are {self.state}, and can be written once")
        self.state = "writing"
        try:
            if self.store is not None:
                self.store.write(self.number, b"".join(self.suffix), self.start, self.position, self.images)
        except BaseException:
            self.state = "failed"
            raise
        self.state = "written"


class PartialSums:
    """Sums by bucket, for one thread (all but `FrozenSums.write`). With a folder they begin as its newest good snapshot has them.
    A `cipher` encrypts them there.

    `damages` are sentences about what was found damaged there; `warning` is one about speed, or None.
    """

    def __init__(self, layout: FoldLayout, folder: Path | None, cipher: SumCipher | None = None) -> None:
        self._layout = layout
        self._slack = slack(layout.like, layout.scales)
        self._order = sorted(layout.scales)  # of leaves in one array: as reports have them
        self._common_scale = _common_scale(layout)
        self._size = sum(layout.like[n].size * (2 if s.two_limbs else 1) for n, s in layout.scales.items())
        self._buckets: dict[int, _Bucket] = {}
        self._pending: list[tuple[int, int, bytes]] = []  # bucket, task and record of what is not on disk
        self._frozen: FrozenSums | None = None
        self._spares: list[Flat] = []
        self._number, self._position = 0, _START
        self._new_segment = False  # does the next freeze begin a segment of the log?
        self.warning = sum_kernel.speed_warning(layout.like)
        self._store = None
        self.damages: tuple[str, ...] = ()
        if folder is not None:
            self._store = SnapshotStore(
                folder,
                size=self._size,
                layout_crc=checksum(layout_to_json(layout).encode() + _layout_mark(layout)),
                cipher=cipher,
            )
            self.damages = self._store.damages
            self._restore(self._store)

    @property
    def dirty(self) -> bool:
        """Is there a report that no freeze has seen, or whose writing failed? Never, without a folder."""
        self._note_written()
        writing = self._frozen is not None and self._frozen.state in ("new", "writing")
        return len(self._pending) > (len(self._frozen.tasks) if writing and self._frozen else 0)

    def add(self, bucket: int, entry: LogEntry, tree: Tree, flat_update: Array | None = None) -> None:
        """Add a report that `refusal` let pass, as its grant says. Refused if the sum can take no more weight; nothing changes.

        `flat_update` is the tree as one array, leaf after leaf by name, if there is such.
        """
        layout, target = self._layout, self._buckets.get(bucket) or _Bucket()
        if entry.task in target.tasks:
            raise RunFailed(
                f"internal error: task {entry.task} was accepted twice: bucket {bucket} has it already; please report this"
            )
        record = b""
        if self._store is not None:
            entry_data = entry_to_bytes(entry)
            record = record_head(bucket, entry_data) + entry_data
        units, current = exact.weight_units(entry.weight), target.sums.get(entry.sum)
        if (current.acc.weight if current else 0) + units > layout.total_weight * 2.0**60:
            acc = current.acc if current else exact.Accumulator({}, {})
            raise Refused(exact.overweight_refusal(acc, entry.weight, layout.total_weight) or "it weighs too much")
        factor = entry.factor
        if layout.clip is not None:
            factor *= clip_factor(layout.clip, sum_kernel.squares_of(tree, layout.scales), self._slack)
        target_sum = current or self._new_sum()
        scale = self._common_scale if flat_update is not None else None
        if (
            flat_update is not None
            and scale is not None
            and sum_kernel.add_whole(target_sum.flat, flat_update, entry.weight, scale, factor=factor)
        ):
            target_sum.acc.weight += units
            target_sum.acc.count += 1
        else:
            sum_kernel.add(target_sum.acc, tree, entry.weight, layout.scales, factor=factor, units=units)
        target.sums[entry.sum] = target_sum
        target.tasks.add(entry.task)
        self._buckets[bucket] = target
        if self._store is not None:
            self._pending.append((bucket, entry.task, record))

    def recovered_entries(self) -> dict[int, list[LogEntry]]:
        """What the snapshot at the start held, by bucket; without the buckets that were discarded since."""
        return {n: [entry_from_bytes(e) for e in bucket.recovered] for n, bucket in self._buckets.items() if bucket.recovered}

    def bucket_sums(self, bucket: int) -> Tree | None:
        """The sums of a bucket as `aggregation.load` reads them; None if it has none. Views, until it is added to or discarded."""
        live = self._buckets.get(bucket)
        if live is None:
            return None
        sums = {name: one.acc for name, one in live.sums.items()}
        return aggregation.save(Folding(self._layout.like, self._layout.scales, sums))

    def count(self, bucket: int) -> int:
        """How many reports a bucket has."""
        live = self._buckets.get(bucket)
        return len(live.tasks) if live else 0

    def discard(self, bucket: int) -> None:
        """A bucket that nobody needs any more. Until the next freeze is written, a restart may find it again."""
        dropped = self._buckets.pop(bucket, None)
        writing = self._frozen is not None and self._frozen.state in ("new", "writing")
        for one in dropped.sums.values() if dropped else ():
            arrays = [one.flat] if one.image is None or writing else [one.flat, one.image]
            self._spares += arrays[: max(0, _MAX_SPARES - len(self._spares))]

    def freeze(self) -> FrozenSums:
        """Everything as it is now, copied in a moment; one may be written at a time."""
        self._note_written()
        if self._frozen is not None and self._frozen.state == "writing":
            raise RuntimeError("the sums that were frozen before are still being written")
        if self._frozen is not None:
            self._frozen.state = "stale"  # nobody has written it, and this one has all of it
        if self._store is None:
            return FrozenSums(())
        tasks = tuple(task for _, task, _ in self._pending)
        suffix = tuple(record for _, _, record in self._pending)
        _, last, start = self._position
        if start >= SEGMENT or self._new_segment:
            last, start = last + 1, 0
        for bucket, _, _ in self._pending:
            live = self._buckets.get(bucket)
            if live is not None and live.segment is None:
                live.segment = last
        first = min((b.segment for b in self._buckets.values() if b.segment is not None), default=last)
        position = LogPosition(first, last, start + sum(map(len, suffix)))
        self._frozen = FrozenSums(tasks, self._number + 1, position, start, suffix, self._images(), self._store)
        return self._frozen

    def close(self) -> None:
        """Close the files; nothing is written."""
        if self._store is not None:
            self._store.close()

    def _note_written(self) -> None:
        """Take note of what the thread has written."""
        frozen = self._frozen
        if frozen is not None and frozen.state == "written":
            del self._pending[: len(frozen.tasks)]
            self._number, self._position, self._frozen, self._new_segment = frozen.number, frozen.position, None, False

    def _images(self) -> tuple[SumImage, ...]:
        images: list[SumImage] = []
        for bucket, live in self._buckets.items():
            for name, one in live.sums.items():
                if one.image is None:
                    one.image = self._spares.pop() if self._spares else np.empty(self._size, np.int64)
                if one.copied_count != one.acc.count:
                    np.copyto(one.image, one.flat)
                    one.copied_count = one.acc.count
                images.append(SumImage(bucket, name, one.acc.weight, one.acc.count, one.image, live.segment or 0))
        return tuple(images)

    def _new_sum(self, flat: Flat | None = None, weight: int = 0, count: int = 0) -> _Sum:
        if flat is None and self._spares:
            flat = self._spares.pop()
            flat.fill(0)
        elif flat is None:
            flat = np.zeros(self._size, np.int64)
        acc, at = exact.Accumulator({}, {}, weight, count), 0
        for name in self._order:
            leaf, scale = self._layout.like[name], self._layout.scales[name]
            for limb in (acc.sums, acc.fine) if scale.two_limbs else (acc.sums,):
                limb[name] = flat[at : at + leaf.size].reshape(leaf.shape)
                at += leaf.size
        return _Sum(flat, acc)

    def _restore(self, store: SnapshotStore) -> None:
        loaded = store.loaded
        if loaded is None:
            return
        self._number, self._position = loaded.number, loaded.position
        self._new_segment = True  # a server that went back to a checkpoint gives numbers of buckets again
        for image in loaded.images:
            restored = self._buckets.setdefault(image.bucket, _Bucket(segment=image.since))
            restored.recovered = loaded.entries[image.bucket]
            restored.tasks = {entry_from_bytes(e).task for e in restored.recovered}
            restored.sums[image.sum] = self._new_sum(image.flat.copy(), image.weight, image.reports)
        store.loaded = None  # the arrays are copied
