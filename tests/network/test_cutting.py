"""The bad line does what it says, against an echo."""

import contextlib
import socket
import threading
import time
from contextlib import contextmanager
from random import Random

import pytest

from tests.network.cutting import Trouble, line


@contextmanager
def echo():
    """An address that sends back what it gets, and how much it got."""
    got = bytearray()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(near):
        with near:
            try:
                while data := near.recv(1 << 14):
                    got.extend(data)
                    near.sendall(data)
            except OSError:
                pass

    def accept():
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(near,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield "{}:{}".format(*listener.getsockname()), got
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def call(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), 5.0)


def all_of(end, n):
    data = b""
    while len(data) < n:
        more = end.recv(n - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


def test_everything_passes_a_line_that_nobody_touched():
    with echo() as (there, _), line(there) as bad, call(bad.address) as end:
        said = bytes(range(256)) * 1000
        threading.Thread(target=end.sendall, args=(said,), daemon=True).start()
        assert all_of(end, len(said)) == said
        assert bad.up == len(said)


@pytest.mark.parametrize("after", [0, 1, 70_000])
def test_a_cut_falls_where_it_was_asked_for_and_the_next_call_passes(after):
    with echo() as (there, got), line(there) as bad:
        bad.cut_after(after)
        with call(bad.address) as end, pytest.raises(OSError):  # noqa: PT012
            end.sendall(bytes(200_000))
            all_of(end, 200_000)
        assert bad.cuts == 1
        assert bad.up == after
        assert len(got) <= after
        with call(bad.address) as end:
            end.sendall(b"again")
            assert all_of(end, 5) == b"again"


def test_a_stall_moves_nothing_until_it_ends():
    with echo() as (there, got), line(there) as bad, call(bad.address) as end:
        bad.stall_after(3)
        end.sendall(b"abcdef")
        bad.await_up(3)
        end.settimeout(0.05)
        with pytest.raises(TimeoutError):
            all_of(end, 6)
        assert bytes(got) in (b"", b"abc")
        bad.go_on()
        end.settimeout(5.0)
        while len(got) < 6:
            time.sleep(0.001)
        assert bytes(got) == b"abcdef"


def test_a_delay_holds_each_piece_back():
    with echo() as (there, _), line(there) as bad, call(bad.address) as end:
        bad.delay_seconds = 0.05
        start = time.monotonic()
        end.sendall(b"x")
        assert all_of(end, 1) == b"x"
        assert time.monotonic() - start >= 0.1  # there and back


def test_a_line_that_refuses_lets_nobody_in():
    with echo() as (there, _), line(there) as bad:
        bad.refuses = True
        with pytest.raises(OSError), call(bad.address) as end:
            all_of(end, 1)


def test_a_spoilt_line_changes_bytes_at_the_places_of_its_seed_until_it_is_healed():
    said = bytes(100_000)
    changed = []
    for seed in (1, 1, 2):
        trouble = Trouble(Random(seed), 300.0)
        pieces, kinds = [], []
        for at in range(0, len(said), 1700 + seed):  # wherever the bytes are divided
            out, more = trouble.spoilt(said[at : at + 1700 + seed])
            pieces.append(out)
            kinds += more
        changed.append([i for i, byte in enumerate(b"".join(pieces)) if byte])
        assert len(changed[-1]) == kinds.count("flip")
        assert 200 < len(changed[-1]) < 400
        assert {"cut", "stall"} < set(kinds)
    assert changed[0] == changed[1] != changed[2]
    with echo() as (there, _), line(there) as bad:
        bad.spoil(3, gap=50.0)
        with contextlib.suppress(OSError), call(bad.address) as end:
            end.sendall(bytes(1000))
            assert all_of(end, 1000) != bytes(1000)
        bad.heal()
        with call(bad.address) as end:
            end.sendall(bytes(1000))
            assert all_of(end, 1000) == bytes(1000)
        assert bad.mishaps["flip"]
