"""The partial sums of one transmitter: reports are added as they are granted, in any order, and kept so that a kill loses none.

A bucket holds all reports between two commits. Its sums have the bits that `core.folding` would give, so that the processor can
merge what several transmitters have; `freeze` copies them in a moment, and `Frozen.write` makes them last in a thread.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.core import aggregation, exact
from fedfleet.core.aggregation import Fold, Folding
from fedfleet.core.clip import shrink, slack
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.records import ServerState
from fedfleet.core.trees import Array, Tree
from fedfleet.network.frontend import sum_kernel
from fedfleet.network.frontend.report_log import Entered, checksum, entry_bytes, entry_from, record_head
from fedfleet.network.frontend.snapshots import SEGMENT, Flat, Image, Place, Shelf

__all__ = [
    "Entered", "FoldSheet", "Frozen", "PartialSums", "entry_bytes", "entry_from", "refusal", "sheet_from_json", "sheet_of",
    "sheet_to_json",
]  # fmt: skip
_START = Place(0, 0, 0)
_SPARES = 4  # arrays of discarded buckets that are kept for the next: fresh memory costs more than to wipe it


@dataclass(frozen=True, slots=True)
class FoldSheet:
    """What a transmitter has to know of a fold: names, shapes, types and scales of the sums. `like` has no values."""

    like: Tree
    scales: dict[str, exact.Scale]
    total_weight: float
    clip: float | None


def sheet_of(fold: Fold, server: ServerState) -> FoldSheet:
    """The sheet of a fold that streams."""
    like = fold.like(server)
    bare = {name: _bare(leaf.shape, leaf.dtype) for name, leaf in like.items()}
    return FoldSheet(bare, aggregation.scales_of(fold, like), fold.total_weight, fold.clip)


def sheet_to_json(sheet: FoldSheet) -> str:
    """A sheet as text."""
    like = [[name, list(leaf.shape), leaf.dtype.str] for name, leaf in sheet.like.items()]
    scales = {name: [s.bound, s.power, s.two_limbs] for name, s in sheet.scales.items()}
    return json.dumps({"like": like, "scales": scales, "total_weight": sheet.total_weight, "clip": sheet.clip})


def sheet_from_json(text: str) -> FoldSheet:
    """The inverse of `sheet_to_json`."""
    said = json.loads(text)
    like = {name: _bare(tuple(shape), np.dtype(kind)) for name, shape, kind in said["like"]}
    scales = {name: exact.Scale(bound, power, two) for name, (bound, power, two) in said["scales"].items()}
    return FoldSheet(like, scales, said["total_weight"], said["clip"])


def _bare(shape: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray:
    """An array of this shape and type that takes no memory."""
    return np.broadcast_to(np.zeros((), kind), shape)


def refusal(sheet: FoldSheet, tree: Tree, weight: float, whole: Array | None = None) -> str | None:
    """Why a report may not enter the sums; None if it may. The sentences are those of the simulation.

    `whole` is the tree as one array (see `taking`), if there is such.
    """
    why = sum_kernel.refusal(tree, weight, sheet.like, sheet.scales, sheet.total_weight, whole)
    if why is None and sheet.clip is not None:
        try:
            shrink(sheet.clip, (), slack(sheet.like, sheet.scales))
        except Refused as wrong:
            return str(wrong)
    return why


def _even(sheet: FoldSheet) -> exact.Scale | None:
    """The scale of all leaves, if they have one type and one scale of one limb, so that they can be added as one array."""
    kinds, scales = {leaf.dtype for leaf in sheet.like.values()}, set(sheet.scales.values())
    if len(kinds) != 1 or len(scales) != 1 or sheet.scales.keys() != sheet.like.keys():
        return None
    (one,) = scales
    return None if one.two_limbs else one


def _mark(sheet: FoldSheet) -> bytes:
    """What tells snapshots in which leaves lie by name from older ones, in which they lay in the model's order."""
    return b"" if [*sheet.scales] == sorted(sheet.scales) else b" by name"


@dataclass(slots=True)
class _Sum:
    """One sum of a bucket: its accumulator's arrays are views of `flat`; `image` is the copy of it that is on its way to disk."""

    flat: Flat
    acc: exact.Accumulator
    image: Flat | None = None
    copied: int = -1  # how many reports the copy has


@dataclass(slots=True)
class _Bucket:
    sums: dict[str, _Sum] = field(default_factory=dict[str, _Sum])
    tasks: set[int] = field(default_factory=set[int])
    found: tuple[bytes, ...] = ()
    segment: int | None = None  # of the log, in which its first entry is


@dataclass(slots=True)
class Frozen:
    """The sums at one moment. `write`, in a thread, makes them last; `tasks` are those that are safe when it returns."""

    tasks: tuple[int, ...]
    number: int = 0
    place: Place = _START
    start: int = 0
    suffix: tuple[bytes, ...] = ()
    images: tuple[Image, ...] = ()
    shelf: Shelf | None = None
    state: Literal["new", "writing", "written", "failed", "stale"] = "new"

    def write(self) -> None:
        """Write and sync the log and the snapshot. RunFailed if the disk will not have them; what was safe before stays safe."""
        if self.state not in ("new", "failed"):
            raise RuntimeError(f"these frozen sums are {self.state}, and can be written once")
        self.state = "writing"
        try:
            if self.shelf is not None:
                self.shelf.write(self.number, b"".join(self.suffix), self.start, self.place, self.images)
        except BaseException:
            self.state = "failed"
            raise
        self.state = "written"


class PartialSums:
    """Sums by bucket, for one thread (all but `Frozen.write`). With a folder they begin as its newest good snapshot has them.

    `damages` are sentences about what was found damaged there; `remark` is one about speed, or None.
    """

    def __init__(self, sheet: FoldSheet, folder: Path | None) -> None:
        self._sheet = sheet
        self._slack = slack(sheet.like, sheet.scales)
        self._order = sorted(sheet.scales)  # of leaves in one array: as reports have them
        self._even = _even(sheet)
        self._size = sum(sheet.like[n].size * (2 if s.two_limbs else 1) for n, s in sheet.scales.items())
        self._buckets: dict[int, _Bucket] = {}
        self._pending: list[tuple[int, int, bytes]] = []  # bucket, task and record of what is not on disk
        self._frozen: Frozen | None = None
        self._spares: list[Flat] = []
        self._number, self._place = 0, _START
        self._cut = False  # does the next freeze begin a segment of the log?
        self.remark = sum_kernel.remark(sheet.like)
        self._shelf = None
        self.damages: tuple[str, ...] = ()
        if folder is not None:
            self._shelf = Shelf(folder, size=self._size, sheet=checksum(sheet_to_json(sheet).encode() + _mark(sheet)))
            self.damages = self._shelf.damages
            self._restore(self._shelf)

    @property
    def dirty(self) -> bool:
        """Is there a report that no freeze has seen, or whose writing failed? Never, without a folder."""
        self._settle()
        under_way = self._frozen is not None and self._frozen.state in ("new", "writing")
        return len(self._pending) > (len(self._frozen.tasks) if under_way and self._frozen else 0)

    def add(self, bucket: int, entry: Entered, tree: Tree, whole: Array | None = None) -> None:
        """Add a report that `refusal` let pass, as its grant says. Refused if the sum can take no more weight; nothing changes.

        `whole` is the tree as one array, leaf after leaf by name, if there is such.
        """
        sheet, into = self._sheet, self._buckets.get(bucket) or _Bucket()
        if entry.task in into.tasks:
            raise RunFailed(f"task {entry.task} is in bucket {bucket} already: it was granted twice")
        record = b""
        if self._shelf is not None:
            said = entry_bytes(entry)
            record = record_head(bucket, said) + said
        counted, have = exact.units(entry.weight), into.sums.get(entry.sum)
        if (have.acc.weight if have else 0) + counted > sheet.total_weight * 2.0**60:
            acc = have.acc if have else exact.Accumulator({}, {})
            raise Refused(exact.overweight(acc, entry.weight, sheet.total_weight) or "it weighs too much")
        factor = entry.factor
        if sheet.clip is not None:
            factor *= shrink(sheet.clip, sum_kernel.squares_of(tree, sheet.scales), self._slack)
        one = have or self._new_sum()
        even = self._even if whole is not None else None
        if (
            whole is not None
            and even is not None
            and sum_kernel.add_whole(one.flat, whole, entry.weight, even, factor=factor)
        ):
            one.acc.weight += counted
            one.acc.count += 1
        else:
            sum_kernel.add(one.acc, tree, entry.weight, sheet.scales, factor=factor, counted=counted)
        into.sums[entry.sum] = one
        into.tasks.add(entry.task)
        self._buckets[bucket] = into
        if self._shelf is not None:
            self._pending.append((bucket, entry.task, record))

    def found(self) -> dict[int, list[Entered]]:
        """What the snapshot at the start held, by bucket; without the buckets that were discarded since."""
        return {n: [entry_from(e) for e in bucket.found] for n, bucket in self._buckets.items() if bucket.found}

    def saved(self, bucket: int) -> Tree | None:
        """The sums of a bucket as `folding.load` reads them; None if it has none. Views, until it is added to or discarded."""
        held = self._buckets.get(bucket)
        if held is None:
            return None
        sums = {name: one.acc for name, one in held.sums.items()}
        return aggregation.save(Folding(self._sheet.like, self._sheet.scales, sums))

    def count(self, bucket: int) -> int:
        """How many reports a bucket has."""
        held = self._buckets.get(bucket)
        return len(held.tasks) if held else 0

    def discard(self, bucket: int) -> None:
        """A bucket that nobody needs any more. Until the next freeze is written, a restart may find it again."""
        held = self._buckets.pop(bucket, None)
        writing = self._frozen is not None and self._frozen.state in ("new", "writing")
        for one in held.sums.values() if held else ():
            arrays = [one.flat] if one.image is None or writing else [one.flat, one.image]
            self._spares += arrays[: max(0, _SPARES - len(self._spares))]

    def freeze(self) -> Frozen:
        """Everything as it is now, copied in a moment; one may be written at a time."""
        self._settle()
        if self._frozen is not None and self._frozen.state == "writing":
            raise RuntimeError("the sums that were frozen before are still being written")
        if self._frozen is not None:
            self._frozen.state = "stale"  # nobody has written it, and this one has all of it
        if self._shelf is None:
            return Frozen(())
        tasks = tuple(task for _, task, _ in self._pending)
        suffix = tuple(record for _, _, record in self._pending)
        _, last, start = self._place
        if start >= SEGMENT or self._cut:
            last, start = last + 1, 0
        for bucket, _, _ in self._pending:
            held = self._buckets.get(bucket)
            if held is not None and held.segment is None:
                held.segment = last
        first = min((b.segment for b in self._buckets.values() if b.segment is not None), default=last)
        place = Place(first, last, start + sum(map(len, suffix)))
        self._frozen = Frozen(tasks, self._number + 1, place, start, suffix, self._images(), self._shelf)
        return self._frozen

    def close(self) -> None:
        """Close the files; nothing is written."""
        if self._shelf is not None:
            self._shelf.close()

    def _settle(self) -> None:
        """Take note of what the thread has written."""
        done = self._frozen
        if done is not None and done.state == "written":
            del self._pending[: len(done.tasks)]
            self._number, self._place, self._frozen, self._cut = done.number, done.place, None, False

    def _images(self) -> tuple[Image, ...]:
        images: list[Image] = []
        for bucket, held in self._buckets.items():
            for name, one in held.sums.items():
                if one.image is None:
                    one.image = self._spares.pop() if self._spares else np.empty(self._size, np.int64)
                if one.copied != one.acc.count:
                    np.copyto(one.image, one.flat)
                    one.copied = one.acc.count
                images.append(Image(bucket, name, one.acc.weight, one.acc.count, one.image, held.segment or 0))
        return tuple(images)

    def _new_sum(self, flat: Flat | None = None, weight: int = 0, count: int = 0) -> _Sum:
        if flat is None and self._spares:
            flat = self._spares.pop()
            flat.fill(0)
        elif flat is None:
            flat = np.zeros(self._size, np.int64)
        acc, at = exact.Accumulator({}, {}, weight, count), 0
        for name in self._order:
            leaf, scale = self._sheet.like[name], self._sheet.scales[name]
            for limb in (acc.sums, acc.fine) if scale.two_limbs else (acc.sums,):
                limb[name] = flat[at : at + leaf.size].reshape(leaf.shape)
                at += leaf.size
        return _Sum(flat, acc)

    def _restore(self, shelf: Shelf) -> None:
        loaded = shelf.loaded
        if loaded is None:
            return
        self._number, self._place = loaded.number, loaded.place
        self._cut = True  # a server that went back to a checkpoint gives numbers of buckets again
        for image in loaded.images:
            held = self._buckets.setdefault(image.bucket, _Bucket(segment=image.since))
            held.found = loaded.entries[image.bucket]
            held.tasks = {entry_from(e).task for e in held.found}
            held.sums[image.sum] = self._new_sum(image.flat.copy(), image.weight, image.reports)
        shelf.loaded = None  # the arrays are copied
