"""What clients remember between tasks, in named slots: in RAM up to a limit, else in one append-only file with the same bytes.

A checkpoint names a position in the file; resuming cuts the file off there. Tidying writes the living records to the file of the
next generation and never touches the old one, which goes away when no checkpoint that is kept refers to it any more.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors.numpy import load as tensors_from
from safetensors.numpy import save as tensors_to

from fedfleet.core.errors import RunFailed
from fedfleet.core.records import Slots, Wave
from fedfleet.core.trees import Tree, tree_nbytes

DEFAULT_LIMIT = 2 << 30  # bytes in RAM
_HEAD = struct.Struct("<QI")  # length and checksum of a record
_COMPACT_FROM = 64 << 20  # below that a file is not worth tidying
_COLUMNS = ("number", "slot", "offset", "length")


@dataclass(slots=True, eq=False)
class StoredSlot:
    """One slot's content, never changed: in RAM, in the file, or both."""

    nbytes: int
    tree: Tree | None = None
    place: tuple[int, int] | None = None  # offset and length in the file of the present generation


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = f"the clients' memory cannot be written ({error}); check disk space and permissions, then resume"
        raise RunFailed(why) from error


class RecordFile:
    """Records in one file, appended and never changed; without a folder in a temporary file that goes with the process."""

    def __init__(self, folder: Path | None, generation: int = 0, position: int | None = None) -> None:
        self.folder, self.generation = folder, generation
        if folder is None:
            self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        else:
            self._file = (folder / file_name(generation)).open("r+b" if position is not None else "w+b")
        if position is not None:
            if self._file.seek(0, os.SEEK_END) < position:
                raise RunFailed(f"{folder}: the clients' memory is shorter than its checkpoint says; it is damaged")
            self._file.truncate(position)
        self.size = self._file.seek(0, os.SEEK_END)

    def append(self, data: bytes) -> tuple[int, int]:
        """Add a record; where it lies."""
        offset = self.size
        with _writing():
            self._file.seek(offset)
            self._file.write(_HEAD.pack(len(data), zlib.crc32(data)) + data)
        self.size += _HEAD.size + len(data)
        return offset, len(data)

    def read(self, place: tuple[int, int]) -> bytes:
        """The record at this place, checked."""
        offset, length = place
        self._file.seek(offset)
        head, data = self._file.read(_HEAD.size), self._file.read(length)
        if len(head) < _HEAD.size or _HEAD.unpack(head) != (length, zlib.crc32(data)):
            raise RunFailed(f"the clients' memory is damaged at byte {offset} of {file_name(self.generation)}")
        return data

    def sync(self) -> None:
        """Everything appended so far is on the disk when this returns."""
        with _writing():
            self._file.flush()
            if self.folder is not None:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


def file_name(generation: int) -> str:
    """The file of a generation."""
    return f"memory-{generation:04d}.bin"


@dataclass(slots=True)
class ClientMemory:
    """The memory of all clients. It advances only when a report is folded.

    A task sees the memory that its client had when the task was sent, even if another of its reports is folded since. What was lent
    is kept until the last task of its wave has ended: edges are weighed against all others of their wave, also by a run that was
    resumed in between.
    """

    folder: Path | None = None
    limit: float = DEFAULT_LIMIT
    compact_from: int = _COMPACT_FROM
    current: dict[int, dict[str, StoredSlot]] = field(default_factory=dict)
    lent: dict[int, dict[str, StoredSlot]] = field(default_factory=dict)
    open_tasks: dict[int, set[int]] = field(default_factory=dict)  # by the first task of a wave: those that have not ended
    wave_of: dict[int, tuple[int, int]] = field(default_factory=dict)  # of such a task: first task and length of its wave
    in_ram: OrderedDict[int, StoredSlot] = field(default_factory=OrderedDict)  # by id, least recently used first
    ram_bytes: int = 0
    file: RecordFile | None = None

    # ---- what runtimes ask ---------------------------------------------------------------------------------------

    def slots_of(self, client: int) -> Slots:
        """What a client remembers now."""
        return {slot: self._tree(stored) for slot, stored in self.current.get(client, {}).items()}

    def slots_of_task(self, task: int) -> Slots:
        """What a task's client remembered when the task was sent."""
        return {slot: self._tree(stored) for slot, stored in self.lent.get(task, {}).items()}

    def advance(self, client: int, slots: Slots) -> None:
        """A report was folded: these slots are replaced, all others stay."""
        slots_now = dict(self.current.get(client, {}))
        for slot, tree in slots.items():
            stored = slots_now[slot] = StoredSlot(tree_nbytes(tree), tree)
            self.in_ram[id(stored)] = stored
            self.ram_bytes += stored.nbytes
        self.current[client] = slots_now
        self._spill()

    def lend(self, wave: Wave) -> None:
        """Note what each client of a wave remembers now."""
        if not self.current:
            return
        for slot, client in enumerate(wave.assignments.clients.tolist()):
            if client in self.current:
                self.lent[wave.first + slot] = self.current[client]
        self.expect(wave, range(wave.first, wave.first + len(wave)))

    def expect(self, wave: Wave, tasks: Iterable[int]) -> None:
        """These tasks of a wave have still to end."""
        for task in tasks:
            self.open_tasks.setdefault(wave.first, set()).add(task)
            self.wave_of[task] = wave.first, len(wave)

    def release_task(self, task: int) -> None:
        """This task has ended."""
        if task not in self.wave_of:
            return
        first, n = self.wave_of.pop(task)
        self.open_tasks[first].discard(task)
        if not self.open_tasks[first]:
            del self.open_tasks[first]
            for ended_task in range(first, first + n):
                self.lent.pop(ended_task, None)

    def move_to(self, folder: Path) -> None:
        """Keep the file in this folder, where checkpoints can refer to it."""
        if self.folder is not None:
            return
        self.folder, spilled = folder, self.file
        if spilled is not None:
            self.file = RecordFile(folder)
            for stored in self._live_slots():
                if stored.place is not None:
                    stored.place = self.file.append(spilled.read(stored.place))
            spilled.close()

    # ---- RAM and file --------------------------------------------------------------------------------------------

    def _tree(self, stored: StoredSlot) -> Tree:
        if stored.tree is not None:
            if id(stored) in self.in_ram:
                self.in_ram.move_to_end(id(stored))
            return stored.tree
        assert stored.place is not None and self.file is not None
        return tensors_from(self.file.read(stored.place))

    def _spill(self) -> None:
        """Move what was used least recently to the file until the rest fits; what is no longer referenced is dropped."""
        if self.ram_bytes <= self.limit:
            return
        live = {id(stored) for stored in self._live_slots()}
        for mark in [mark for mark in self.in_ram if mark not in live]:
            self.ram_bytes -= self.in_ram.pop(mark).nbytes
        # A little further than it must: else a memory at the limit would spill with every report.
        while self.ram_bytes > 0.9 * self.limit and self.in_ram:
            _, held = self.in_ram.popitem(last=False)
            self._write(held)
            held.tree = None
            self.ram_bytes -= held.nbytes

    def _write(self, stored: StoredSlot) -> None:
        if stored.place is None:
            if self.file is None:
                self.file = RecordFile(self.folder)
            assert stored.tree is not None
            # Leaves may still lie on an accelerator; asarray brings them here.
            stored.place = self.file.append(tensors_to({n: np.array(v, order="C") for n, v in stored.tree.items()}))

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], Tree]:
        """A checkpoint's part of it: everything is on the disk, and these facts and columns find it there."""
        if not self.current and not self.lent:
            return {}, {}
        for stored in self._live_slots():
            self._write(stored)
        self._compact()
        assert self.file is not None
        self.file.sync()
        names = sorted({slot for tree in (*self.current.values(), *self.lent.values()) for slot in tree})
        arrays = {f"memory/{n}": v for n, v in _columns(self.current, names).items()}
        arrays |= {f"lent/{n}": v for n, v in _columns(self.lent, names).items()}
        return {"generation": self.file.generation, "position": self.file.size, "slots": names}, arrays

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Go back to where a checkpoint was made; what was written since is cut off."""
        if not meta:
            return
        assert self.folder is not None
        self.file = RecordFile(self.folder, meta["generation"], meta["position"])
        for path in self.folder.glob("memory-*.bin"):
            if path.name > file_name(meta["generation"]):
                path.unlink()
        by_place: dict[tuple[int, int], StoredSlot] = {}
        self.current = _rows(arrays, "memory/", meta["slots"], by_place)
        self.lent = _rows(arrays, "lent/", meta["slots"], by_place)

    def check(self) -> None:
        """Read every record once, so that damage is found before anything is trained from it."""
        for stored in self._live_slots():
            if stored.place is not None and self.file is not None:
                self.file.read(stored.place)

    def release(self, generations: Iterable[int]) -> None:
        """Only these generations are still referred to by checkpoints, and the present one."""
        if self.folder is None or self.file is None:
            return
        kept_names = {file_name(g) for g in (*generations, self.file.generation)}
        for path in self.folder.glob("memory-*.bin"):
            if path.name not in kept_names:
                path.unlink()

    def _live_slots(self) -> list[StoredSlot]:
        return list({id(h): h for tree in (*self.current.values(), *self.lent.values()) for h in tree.values()}.values())

    def _compact(self) -> None:
        """Start the next generation when more than half of the file is dead."""
        file, live = self.file, self._live_slots()
        assert file is not None
        live_bytes = sum(held.place[1] + _HEAD.size for held in live if held.place is not None)
        if file.folder is None or file.size < self.compact_from or 2 * live_bytes > file.size:
            return
        fresh = RecordFile(file.folder, file.generation + 1)
        for stored in live:
            assert stored.place is not None
            stored.place = fresh.append(file.read(stored.place))
        file.close()
        self.file = fresh


def _columns(stored: Mapping[int, Mapping[str, StoredSlot]], names: list[str]) -> dict[str, Any]:
    order = {name: i for i, name in enumerate(names)}
    rows = [(number, order[slot], *h.place) for number, tree in stored.items() for slot, h in tree.items() if h.place]
    table = np.array(rows, np.int64).reshape(-1, len(_COLUMNS))
    return {name: table[:, i].copy() for i, name in enumerate(_COLUMNS)}


def _rows(
    arrays: Mapping[str, Any], prefix: str, names: list[str], by_place: dict[tuple[int, int], StoredSlot]
) -> dict[int, dict[str, StoredSlot]]:
    result: dict[int, dict[str, StoredSlot]] = {}
    for number, slot, offset, length in zip(*(arrays[prefix + n].tolist() for n in _COLUMNS), strict=True):
        stored = by_place.setdefault((offset, length), StoredSlot(length, place=(offset, length)))
        result.setdefault(number, {})[names[slot]] = stored
    return result
