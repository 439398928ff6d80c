"""A bad line on loopback: a relay between device and server that cuts, stalls, delays or changes what passes through it.

Bytes are counted from device to server over all connections, so that a test can say "cut after 100,000 bytes of the upload" and
mean it. A cut is a reset, as of a phone that leaves the cell; a stall keeps the connection open and moves nothing.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random

import grpc
import pytest

from fedfleet.network.protocol import fleet_pb2 as fleet
from tests.network.puppet import PAUSE, Puppet, in_chunks

_PIECE = 1 << 14
_STALL = 0.3  # seconds
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for no time: closing sends a reset


class Trouble:
    """What goes wrong in one direction, at places that follow from a seed."""

    def __init__(self, rng: Random, gap: float) -> None:
        self._rng, self._gap = rng, gap
        self._left = self._next()

    def _next(self) -> int:
        return 1 + int(self._rng.expovariate(1.0 / self._gap))

    def spoilt(self, data: bytes) -> tuple[bytes, list[str]]:
        """These bytes with what goes wrong in them, and what that was."""
        result, kinds, at = bytearray(data), list[str](), self._left - 1
        while at < len(result):
            kind = self._rng.choices(("flip", "cut", "stall"), (90, 5, 5))[0]
            kinds.append(kind)
            if kind == "flip":
                result[at] ^= self._rng.randrange(1, 256)
            at += self._next()
        self._left = at - len(result) + 1
        return bytes(result), kinds


class Line:
    """An open relay. It owns sockets and threads: use `line`, which closes it."""

    def __init__(self, target: str, listener: socket.socket) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = listener
        self._lock = threading.Condition()
        self._open: list[tuple[socket.socket, socket.socket]] = []
        self._cut_at: int | None = None
        self._stall_at: int | None = None
        self._closed = False
        self.up = 0  # bytes that went from devices to the server
        self.delay_seconds = 0.0
        self.refuses = False
        self.cuts = 0
        self.taken = 0  # calls that came in
        self.mishaps: Counter[str] = Counter()  # by kind
        self._trouble: dict[bool, Trouble] = {}  # by direction: True is up

    @property
    def address(self) -> str:
        """Where devices call."""
        return "{}:{}".format(*self._listener.getsockname())

    def cut_after(self, more: int) -> None:
        """Cut everything once so many more bytes have gone up; what comes later passes again."""
        with self._lock:
            self._cut_at = self.up + more

    def stall_after(self, more: int) -> None:
        """Move nothing in any direction once so many more bytes have gone up, until `go_on`."""
        with self._lock:
            self._stall_at = self.up + more

    def go_on(self) -> None:
        """End a stall."""
        with self._lock:
            self._stall_at = None
            self._lock.notify_all()

    def spoil(self, seed: int, *, gap: float = 300.0) -> None:
        """From now on change a byte in either direction after so many on average; now and then cut or stall instead."""
        with self._lock:
            self._trouble = {up: Trouble(Random(f"{seed} {up}"), gap) for up in (True, False)}

    def heal(self) -> None:
        """Let everything pass as it is."""
        with self._lock:
            self._trouble = {}

    def cut(self) -> None:
        """Reset all connections now."""
        with self._lock:
            pairs, self._open = self._open, []
            self.cuts += 1
        for pair in pairs:
            for end in pair:
                _reset(end)

    def await_up(self, total: int, seconds: float = 60.0) -> None:
        """Wait until so many bytes have gone up since the line was opened."""
        with self._lock:
            if not self._lock.wait_for(lambda: self.up >= total, seconds):
                raise TimeoutError(f"only {self.up} of {total} bytes went up within {seconds} s")

    def accept(self) -> None:
        """Take calls until the line is closed; runs in a thread of its own."""
        while True:
            try:
                near, _ = self._listener.accept()
                self.taken += 1
            except OSError:  # closed
                return
            try:
                if self.refuses:
                    raise OSError
                far = socket.create_connection(self._target, 5.0)
            except OSError:
                _reset(near)
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.append((near, far))
            for source, sink, up in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pump, args=(source, sink, up), daemon=True).start()

    def close(self) -> None:
        """Cut everything and listen no more."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _pump(self, source: socket.socket, sink: socket.socket, up: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE):
                if self.delay_seconds:
                    time.sleep(self.delay_seconds)
                for part in self._passing(self._spoilt(data, up), up):
                    sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)

    def _spoilt(self, data: bytes, up: bool) -> bytes:
        """What comes out of the bad line of these bytes; a cut and a stall happen before them."""
        with self._lock:
            trouble = self._trouble.get(up)
            data, kinds = (data, []) if trouble is None else trouble.spoilt(data)
            self.mishaps.update(kinds)
        if "stall" in kinds:
            time.sleep(_STALL)
        if "cut" in kinds:
            self.cut()
        return data

    def _passing(self, data: bytes, up: bool) -> Iterator[bytes]:
        """What of this may pass, with the cut or the stall in its exact place."""
        while data:
            with self._lock:
                self._lock.wait_for(lambda: not self._stalled or self._closed)
                limits = [at - self.up for at in (self._cut_at, self._stall_at) if at is not None and up]
                part = data[: max(0, min(limits, default=len(data)))]
                data = data[len(part) :]
                if up:
                    self.up += len(part)
                    self._lock.notify_all()
                due = self._cut_at is not None and self.up >= self._cut_at
                if due:
                    self._cut_at = None
            yield part
            if due:
                self.cut()
                return

    @property
    def _stalled(self) -> bool:
        return self._stall_at is not None and self.up >= self._stall_at


@contextmanager
def line(target: str) -> Iterator[Line]:
    """A relay to this address, closed at the end."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    made = Line(target, listener)
    thread = threading.Thread(target=made.accept, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join(5)


def cut_until_held(bad: Line, puppet: Puppet, head: fleet.Report, payload: bytes, *, after: int) -> int:
    """Cut an upload after so many bytes; how much of it the server holds, which is something.

    A reset throws away what the server had not read yet, on a busy machine all of it: then the line breaks again. And the first
    question may still go down the line that was cut.
    """
    for _ in range(12):
        bad.cut_after(after)
        with pytest.raises(grpc.RpcError):
            puppet.hand_stream(head, in_chunks(payload, 1 << 16))
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            with suppress(grpc.RpcError):
                if held := puppet.held(head):
                    return held
            time.sleep(PAUSE)
    raise AssertionError("twelve broken uploads, and the server holds nothing of any")


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        end.close()
