"""Entries and records: what was written comes back, whatever is damaged is told apart."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from google_crc32c import value
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import Refused
from fedfleet.network.frontend.report_log import (
    LogEntry,
    checksum,
    entry_from_bytes,
    entry_to_bytes,
    record_head,
    records,
)

NAME = st.text(st.characters(codec="utf-8"), max_size=20)
LONG = st.integers(0, 2**64 - 1)
NUMBER = st.floats(allow_nan=False)


@st.composite
def entries(draw: st.DrawFn) -> LogEntry:
    said = draw(st.lists(st.tuples(NAME, NUMBER), max_size=20))
    short = st.integers(0, 2**32 - 1)
    return LogEntry(
        draw(LONG), draw(short), draw(LONG), draw(NUMBER), draw(NUMBER), draw(NUMBER), draw(NAME), draw(short), draw(LONG),
        tuple(n for n, _ in said), tuple(v for _, v in said), draw(st.integers(0, len(said))),
    )  # fmt: skip


PLAIN = LogEntry(1, 2, 3, 0.5, 10.0, 1.0, "", 7, 99, ("loss", "train"), (0.25, 3.0), 1)


@given(entry=entries())
def test_an_entry_comes_back_as_it_was(entry: LogEntry) -> None:
    assert entry_from_bytes(entry_to_bytes(entry)) == entry


def test_an_ordinary_entry_takes_about_a_hundred_bytes() -> None:
    assert len(entry_to_bytes(PLAIN)) < 100


@given(data=st.binary(max_size=200))
def test_other_bytes_are_refused_and_nothing_worse(data: bytes) -> None:
    try:
        back = entry_from_bytes(data)
    except Refused:
        return
    assert len(data) == len(entry_to_bytes(back))


@given(entry=entries(), cut=st.integers(1, 30))
def test_a_torn_entry_is_refused(entry: LogEntry, cut: int) -> None:
    with pytest.raises(Refused):
        entry_from_bytes(entry_to_bytes(entry)[:-cut])


@pytest.mark.parametrize(
    "odd",
    [
        PLAIN._replace(names=("a",) * 65, values=(0.0,) * 65),
        PLAIN._replace(names=("a",)),
        PLAIN._replace(sum="s" * 256),
        PLAIN._replace(names=("é" * 128, "b")),
        PLAIN._replace(task=-1),
        PLAIN._replace(client=2**32),
        PLAIN._replace(stats=3),
    ],
)
def test_what_is_out_of_bounds_is_refused(odd: LogEntry) -> None:
    with pytest.raises(Refused):
        entry_to_bytes(odd)


def test_checksums_are_crc32c_of_any_buffer_in_pieces() -> None:
    data = np.random.default_rng(0).bytes(5 << 18)
    assert checksum(data) == checksum(memoryview(bytearray(b"x" + data))[1:]) == value(data)
    assert checksum(np.frombuffer(data, np.int64)) == value(data)
    assert checksum(data[7:], checksum(data[:7])) == value(data)


def stored(path: Path, data: bytes) -> list[tuple[int, bytes | None, bytes]]:
    path.write_bytes(data)
    handle = os.open(path, os.O_RDONLY)
    try:
        return [(result.bucket, result.entry, result.payload) for result in records(handle, len(data))]
    finally:
        os.close(handle)


def test_records_end_at_the_torn_one_and_skip_a_damaged_content(tmp_path: Path) -> None:
    said = entry_to_bytes(PLAIN)
    one = [record_head(b, said, b"abc") + said + b"abc" for b in range(3)]
    good = [(b, said, b"abc") for b in range(3)]
    assert stored(tmp_path / "r", b"".join(one)) == good
    for cut in range(1, len(one[0]) + 1):
        assert stored(tmp_path / "r", b"".join(one)[:-cut]) == good[:2]
    middle = len(one[0])
    for at in range(middle):
        data = bytearray(b"".join(one))
        data[middle + at] ^= 0x10
        result = stored(tmp_path / "r", bytes(data))
        assert result[:1] == good[:1] and good[1] not in result
        assert result in (good[:1], [good[0], (1, None, b""), good[2]])
