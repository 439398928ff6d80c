"""Uploads that broke: what came is found again, only for the very same report, and there is a bound on all of it."""

from __future__ import annotations

import os
from pathlib import Path

from fedfleet.network.frontend.partial_uploads import PartialUploads
from fedfleet.network.protocol import fleet_pb2 as pb


def head(task: int = 1, nbytes: int = 10, crc: int = 7, offset: int = 0) -> pb.Report:
    return pb.Report(task=task, nbytes=nbytes, crc32c=crc, offset=offset)


def test_what_came_is_there_for_whoever_resumes_the_same_report(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path / "p", 100)
    partials.keep(head(), memoryview(b"abcd"))
    other = PartialUploads(tmp_path / "p", 100)  # another transmitter
    assert other.stored_bytes(1, 7, 10) == 4
    assert other.start_upload(head(offset=4)) == (bytearray(b"abcd" + bytes(6)), 4)
    assert other.start_upload(head()) == (bytearray(10), 0)  # it begins anew
    assert other.stored_bytes(1, 8, 10) == other.stored_bytes(2, 7, 10) == other.stored_bytes(1, 7, 11) == 0
    assert other.start_upload(head(crc=8, offset=4)) == (bytearray(10), 0)
    other.forget(head())
    assert partials.stored_bytes(1, 7, 10) == 0


def test_less_than_what_is_there_is_not_kept(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 100)
    partials.keep(head(), memoryview(b"abcdef"))
    partials.keep(head(), memoryview(b"abc"))
    assert partials.stored_bytes(1, 7, 10) == 6


def test_the_oldest_goes_when_there_is_too_much(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 10)
    for task in range(4):
        partials.keep(head(task), memoryview(b"abcd"))
        os.utime(partials._path(task, 7, 10), ns=(task, task))
    assert [partials.stored_bytes(task, 7, 10) for task in range(4)] == [0, 0, 4, 4]
    partials.keep(head(9, nbytes=20), memoryview(bytes(11)))
    assert partials.stored_bytes(9, 7, 20) == 0


def test_a_file_that_claims_more_than_the_report_has_harms_nobody(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 100)
    partials._path(1, 7, 10).write_bytes(bytes(50))
    assert partials.stored_bytes(1, 7, 10) == 10
    buffer, have = partials.start_upload(head(offset=10))
    assert len(buffer) == have == 10
