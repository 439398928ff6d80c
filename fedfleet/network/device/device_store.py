"""What a device remembers on its disk: who it is, what its tasks left behind, a report that is not handed in yet, frozen weights.

Everything is written whole or not at all, and carries a checksum, so that a device that is killed at any moment goes on where it
was. The folder is the device's own (0700), and one process uses it at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.core.json_text import parse_json
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import crc32c, decode_frame, encode_frame

if TYPE_CHECKING:  # tensors are for those who work; numpy is a third of the memory of a device that waits
    from fedfleet.core.records import Slots

_IDENTITY, _REPORT, _LOCK, _SAMPLES = "identity.json", "report.bin", "lock", "samples.bin"
_MEMORY = re.compile(r"(\d+)-([0-9a-f]{8})\.safetensors")
_NAME = re.compile(r"[0-9a-f]{8,128}")
_SLOTS = "|slots"  # a leaf with the names of the slots: one that is empty must not be forgotten


class DamagedMemory(Exception):
    """What is on the disk is not what was written, or not there."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this device is at which run: a client, and the secret that shows it."""

    server: str
    run: str
    client: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WaitingReport:
    """A report that is not handed in yet: its head, its bytes, and until when (Unix seconds) the server waits for it."""

    head: pb.Report
    payload: bytes
    until: float


class DeviceStore:
    """The folder of one device; a resource, to be closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
            for inner in ("memory", "blobs"):
                (folder / inner).mkdir(exist_ok=True, mode=0o700)
            self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInput(f"--store: {folder} cannot be used ({error.strerror}); name a folder of your own") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise BadInput(f"--store: another device uses {folder}; give each device a folder of its own") from None
        for part_file in folder.rglob("*.part"):  # of a write that was cut off
            part_file.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others use the folder."""
        os.close(self._lock)

    # ---- who it is ------------------------------------------------------------------------------------------------

    def identity(self) -> Identity | None:
        """Who this device was the last time; None if it was nobody, or if that cannot be read any more."""
        try:
            table = parse_json((self.folder / _IDENTITY).read_bytes())
            return Identity(table["server"], table["run"], int(table["client"]), bytes.fromhex(table["secret"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def attempt(self) -> bytes:
        """Random bytes that name this device's try to enrol, the same until it has worked."""
        path = self.folder / "attempt"
        with suppress(OSError):
            saved = path.read_bytes()
            if len(saved) == 16:
                return saved
        fresh = os.urandom(16)
        self._write(path, fresh)
        return fresh

    def set_identity(self, identity: Identity) -> None:
        """Remember who this device is now. What it remembers of another life is of no use here."""
        before = self.identity()
        if before is not None and (before.client, before.secret) != (identity.client, identity.secret):
            self.forget()
        table = {"server": identity.server, "run": identity.run, "client": identity.client, "secret": identity.secret.hex()}
        self._write(self.folder / _IDENTITY, json.dumps(table).encode())
        (self.folder / "attempt").unlink(missing_ok=True)

    def forget(self) -> None:
        """Forget what tasks left behind, and samples of other devices."""
        self.drop_report()
        (self.folder / _SAMPLES).unlink(missing_ok=True)
        for path in (self.folder / "memory").iterdir():
            path.unlink(missing_ok=True)

    # ---- memory ---------------------------------------------------------------------------------------------------

    def remember(self, task: int, slots: Slots) -> None:
        """Keep what the client will remember if the report of this task is folded."""
        import numpy as np

        from fedfleet.core.tensor_format import pack_tree

        flat = {f"{slot}|{name}": leaf for slot, tree in slots.items() for name, leaf in tree.items()}
        names: Any = np.frombuffer(json.dumps(list(slots)).encode(), np.uint8)
        data = pack_tree({**flat, _SLOTS: names})
        before = self._memory_files().get(task, [])
        self._write(self.folder / "memory" / _memory_name(task, data), data)
        for old in before:
            if old.name != _memory_name(task, data):  # the same task trained once more, with another end
                old.unlink(missing_ok=True)

    def memory(self, task: int) -> Slots:
        """What the client remembers, if the report of this task was the last one that was folded (-1: none was); what is older
        goes. `DamagedMemory` if it is not here whole."""
        files = self._memory_files()
        for number in [n for n in files if n < task]:
            for path in files[number]:
                path.unlink(missing_ok=True)
        if task < 0:
            return {}
        for path in files.get(task, []):
            with suppress(OSError, Refused, ValueError):
                data = path.read_bytes()
                if path.name == _memory_name(task, data):
                    return _slots(data)
        raise DamagedMemory(f"what this client remembers of task {task} is {'damaged' if task in files else 'missing'} here")

    def _memory_files(self) -> dict[int, list[Path]]:
        result: dict[int, list[Path]] = {}
        newest_first = sorted((self.folder / "memory").iterdir(), key=lambda p: -p.stat().st_mtime_ns)
        for path in newest_first:
            match = _MEMORY.fullmatch(path.name)
            if match is not None:
                result.setdefault(int(match[1]), []).append(path)
        return result

    # ---- a report that is not handed in yet ------------------------------------------------------------------------

    def keep_report(self, waiting: WaitingReport) -> None:
        """Keep a report until there is a receipt; who it is from is left out, because that stands elsewhere."""
        head = pb.Report()
        head.CopyFrom(waiting.head)
        head.ClearField("caller")
        body = json.dumps({"until": waiting.until}).encode() + b"\n" + encode_frame(head, waiting.payload)
        self._write(self.folder / _REPORT, crc32c(body).to_bytes(4, "little") + body)

    def report(self) -> WaitingReport | None:
        """The report that was kept; None if there is none, or if it is damaged."""
        try:
            data = (self.folder / _REPORT).read_bytes()
            if int.from_bytes(data[:4], "little") != crc32c(data[4:]):
                return None
            first, _, rest = data[4:].partition(b"\n")
            head, payload = decode_frame(rest, pb.Report)
            return WaitingReport(head, bytes(payload), float(parse_json(first)["until"]))
        except (OSError, ValueError, KeyError, TypeError, Refused):
            return None

    def drop_report(self) -> None:
        """There is a receipt, or nobody wants the report any more."""
        (self.folder / _REPORT).unlink(missing_ok=True)

    # ---- samples of other devices -----------------------------------------------------------------------------------

    def keep_samples(self, data: bytes) -> None:
        """Keep samples that other devices of the same person gave, in place of those before."""
        self._write(self.folder / _SAMPLES, crc32c(data).to_bytes(4, "little") + data)

    def samples(self) -> bytes | None:
        """The samples that were kept; None if there are none. `DamagedMemory` if they are not as they were written."""
        try:
            data = (self.folder / _SAMPLES).read_bytes()
        except FileNotFoundError:
            return None
        if int.from_bytes(data[:4], "little") != crc32c(data[4:]):
            raise DamagedMemory("the samples that other devices gave to this one are damaged")
        return data[4:]

    # ---- frozen weights --------------------------------------------------------------------------------------------

    def blob(self, name: str, nbytes: int, checksum: int) -> bytes | None:
        """The bytes of this name, if they are here whole."""
        with suppress(OSError):
            data = self._blob(name).read_bytes()
            if len(data) == nbytes and crc32c(data) == checksum:
                return data
        return None

    def keep_blob(self, name: str, data: bytes) -> None:
        """Keep bytes that are fetched once."""
        self._write(self._blob(name), data)

    def _blob(self, name: str) -> Path:
        if _NAME.fullmatch(name) is None:
            raise Refused("the name of a blob is not its content hash")
        return self.folder / "blobs" / name

    def _write(self, path: Path, data: bytes) -> None:
        """Whole or not at all, on the disk when this returns, and for nobody else to read."""
        draft = path.with_name(f"{path.name}.part")
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise RunFailed(f"{path.parent} cannot be written ({error.strerror}); free some space, then start again") from None


def _memory_name(task: int, data: bytes) -> str:
    return f"{task}-{crc32c(data):08x}.safetensors"


def _slots(data: bytes) -> Slots:
    from fedfleet.core.tensor_format import unpack_tree

    tree = unpack_tree(data)
    slots: dict[str, dict[str, Any]] = {slot: {} for slot in parse_json(tree.pop(_SLOTS).tobytes())}
    for name, leaf in tree.items():
        slot, _, rest = name.partition("|")
        slots[slot][rest] = leaf
    return slots
