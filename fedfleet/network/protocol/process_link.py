"""What the processes of one server share: messages over a socket pair, whole and in order, and bytes in shared memory.

A blob is bytes that many devices get, written once by the server and sent from shared memory by every frontend."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import mmap
import os
import secrets
import shutil
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from google.protobuf.message import Message

from fedfleet.core.errors import RunFailed
from fedfleet.network.protocol.frames import crc32c

_LENGTH = struct.Struct("<I")
_BUFFER = 1 << 22
In = TypeVar("In", bound=Message)


class Link(asyncio.Protocol, Generic[In]):
    """One end: `heard` gets every message that comes, `lost` is called once when the other end is gone."""

    def __init__(self, kind: type[In], on_message: Callable[[In], None], on_lost: Callable[[], None]) -> None:
        self._kind, self._on_message, self._on_lost = kind, on_message, on_lost
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio calls it first."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_BUFFER)

    def data_received(self, data: bytes) -> None:
        """Hand on every message that is whole."""
        self._buffer += data
        offset, view = 0, memoryview(self._buffer)
        messages: list[In] = []
        while len(view) - offset >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(view, offset)
            if len(view) - offset - _LENGTH.size < length:
                break
            offset += _LENGTH.size
            messages.append(self._kind.FromString(bytes(view[offset : offset + length])))
            offset += length
        view.release()
        del self._buffer[:offset]
        for message in messages:
            self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other process ended, or was closed."""
        del exc
        self._transport = None
        self._on_lost()

    def send(self, message: Message) -> None:
        """Say something; nothing happens if nobody is there any more."""
        if self._transport is not None and not self._transport.is_closing():
            data = message.SerializeToString()
            self._transport.write(_LENGTH.pack(len(data)) + data)

    def close(self) -> None:
        """Let go."""
        if self._transport is not None:
            self._transport.close()


async def connect_link(end: socket.socket, link: Link[In]) -> Link[In]:
    """Let a link speak over this end of a socket pair."""
    end.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: link, end)
    return link


_SHARED = Path("/dev/shm")
_LOCK = ".lock"  # held as long as the server lives, however it dies: what nobody holds is nobody's memory
_lock_handles: dict[Path, int] = {}


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes by their content: what they are called, where they lie, how many they are, their CRC-32C."""

    name: str
    path: str
    nbytes: int
    crc32c: int


def make_shared_folder() -> Path:
    """A new folder of this server's processes, in shared memory where there is any; remove it at the end."""
    if not os.access(_SHARED, os.W_OK):
        return Path(tempfile.mkdtemp(prefix="fedfleet-"))
    _remove_orphans(_SHARED)
    folder = _SHARED / f"fedfleet-{os.getpid()}-{secrets.token_hex(4)}"
    draft = folder.with_suffix(".new")  # nobody sweeps it before its lock is held
    draft.mkdir(mode=0o700)
    handle = os.open(draft / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    draft.rename(folder)
    _lock_handles[folder] = handle
    return folder


def _remove_orphans(root: Path) -> None:
    """Give back the memory of servers that were killed."""
    for lock in root.glob(f"fedfleet-*/{_LOCK}"):
        if lock.parent.suffix:
            continue
        with suppress(OSError):  # somebody else's
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(handle)


def remove_folder(folder: Path) -> None:
    """Give the memory back."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder in _lock_handles:
        os.close(_lock_handles.pop(folder))


def write_blob(folder: Path, data: bytes) -> Blob:
    """Put bytes where all processes find them; the same bytes are written once."""
    name = hashlib.sha256(data).hexdigest()[:32]
    path = folder / f"{name}.blob"
    if not path.exists():
        try:
            draft = path.with_suffix(".part")
            draft.write_bytes(data)
            draft.replace(path)
        except OSError as error:
            raise RunFailed(f"a model of {len(data)} bytes does not fit into shared memory at {folder} ({error})") from error
    return Blob(name, str(path), len(data), crc32c(data))


def drop_blob(blob: Blob) -> None:
    """Nobody needs it any more; who is still sending it may finish."""
    Path(blob.path).unlink(missing_ok=True)


def map_blob(blob: Blob) -> memoryview:
    """The bytes of a blob, without a copy."""
    if not blob.nbytes:
        return memoryview(b"")
    with Path(blob.path).open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), blob.nbytes, access=mmap.ACCESS_READ))
