"""Snapshots: whatever byte is damaged, torn or missing, a whole older one is used, and it is said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.network.frontend.report_log import LogEntry, entry_to_bytes, record_head
from fedfleet.network.frontend.snapshots import LogPosition, SnapshotStore, SumImage
from fedfleet.network.security.sum_cipher import cipher_of

SIZE = 3


def record(bucket: int, task: int) -> bytes:
    said = entry_to_bytes(LogEntry(task, 1, task, 0.0, 1.0, 1.0, "", 0, 0, (), (), 0))
    return record_head(bucket, said) + said


def opened(folder: Path) -> SnapshotStore:
    return SnapshotStore(folder, size=SIZE, layout_crc=7)


def wrote(shelf: SnapshotStore, number: int) -> None:
    """Snapshot n of a shelf in which bucket 0 got one report before each snapshot."""
    size = len(record(0, 0))
    image = SumImage(0, "", number << 60, number, np.full(SIZE, 10 * number, np.int64))
    shelf.write(number, record(0, number), size * (number - 1), LogPosition(0, 0, size * number), [image])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shelf = opened(tmp_path / "t0")
    wrote(shelf, 1)
    wrote(shelf, 2)
    shelf.close()
    return tmp_path / "t0"


def found(folder: Path) -> tuple[int, list[int], int, tuple[str, ...]]:
    """Number, sums, count of entries of what is loaded (0 if nothing), and what was damaged."""
    shelf = opened(folder)
    shelf.close()
    if shelf.loaded is None:
        return 0, [], 0, shelf.damages
    (image,) = shelf.loaded.images
    assert image.weight == shelf.loaded.number << 60
    return shelf.loaded.number, image.flat.tolist(), len(shelf.loaded.entries[0]), shelf.damages


def test_the_newest_is_loaded_with_its_entries(folder: Path) -> None:
    assert found(folder) == (2, [20] * 3, 2, ())
    assert found(folder / "nothing yet") == (0, [], 0, ())


def each(folder: Path, path: Path, change: Callable[[bytearray, int], object], step: int = 1) -> None:
    """Every damage of one kind to the newest snapshot falls back to the one before."""
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    for at in range(0, path.stat().st_size, step):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        data = bytearray(path.read_bytes())
        change(data, at)
        path.write_bytes(data)
        number, sums, count, damages = found(folder)
        assert (number, sums, count) == (1, [10] * 3, 1), at
        assert "cannot be used" in damages[0] and "snapshot 1 is used instead" in damages[-1]
        assert found(folder) == (1, [10] * 3, 1, ())  # said once: what was damaged is gone


def test_every_flipped_byte_of_a_snapshot_is_noticed(folder: Path) -> None:
    each(folder, folder / "a.snap", lambda data, at: data.__setitem__(at, data[at] ^ 1 << at % 8))


def test_a_snapshot_torn_anywhere_is_noticed(folder: Path) -> None:
    def torn(data: bytearray, at: int) -> None:
        data[at:] = bytes(len(data) - at) if at % 2 else b""

    path = folder / "a.snap"
    whole = path.read_bytes()
    for at in range(1, len(whole)):
        data = bytearray(whole)
        torn(data, at)
        if data == whole:
            continue
        path.write_bytes(data)
        assert found(folder)[:3] == (1, [10] * 3, 1), at
        wrote_again(folder)


def wrote_again(folder: Path) -> None:
    shelf = opened(folder)
    wrote(shelf, 2)
    shelf.close()
    assert found(folder) == (2, [20] * 3, 2, ())


def test_every_flipped_byte_of_the_newer_half_of_the_log_is_noticed(folder: Path) -> None:
    kept, half = folder.with_name("kept"), len(record(0, 0))
    shutil.copytree(folder, kept)
    for at in range(half, 2 * half):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        data = bytearray((folder / "0.log").read_bytes())
        data[at] ^= 0x40
        (folder / "0.log").write_bytes(data)
        number, _, count, damages = found(folder)
        assert (number, count) == (1, 1) and "log" in damages[0]
        wrote_again(folder)


def test_both_damaged_finds_nothing_and_says_so(folder: Path) -> None:
    for name in ("a.snap", "b.snap"):
        data = bytearray((folder / name).read_bytes())
        data[-1] ^= 1
        (folder / name).write_bytes(data)
    number, _, _, damages = found(folder)
    assert number == 0 and len(damages) == 3 and "nothing was found" in damages[-1]
    shelf = opened(folder)
    assert not shelf.damages
    wrote(shelf, 1)
    shelf.close()
    assert found(folder) == (1, [10] * 3, 1, ())


def test_a_log_that_is_gone_or_short_is_noticed(folder: Path) -> None:
    (folder / "0.log").unlink()
    assert "missing" in found(folder)[3][0]
    assert found(folder)[0] == 0


def test_what_the_log_has_beyond_the_snapshot_does_not_count(folder: Path) -> None:
    with (folder / "0.log").open("ab") as file:
        file.write(record(0, 99))
    (folder / "1.log").write_bytes(record(0, 98))
    assert found(folder) == (2, [20] * 3, 2, ())
    assert (folder / "0.log").stat().st_size == 2 * len(record(0, 0)) and not (folder / "1.log").exists()


def test_sums_of_another_model_are_not_taken(folder: Path) -> None:
    shelf = SnapshotStore(folder, size=SIZE, layout_crc=8)
    assert shelf.loaded is None and "another model" in shelf.damages[0]
    shelf.close()


def test_files_are_private(folder: Path) -> None:
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailed, match="cannot be opened"):
        opened(tmp_path / "file" / "t0")


def test_a_long_file_is_cut_when_little_is_left(tmp_path: Path) -> None:
    shelf = SnapshotStore(tmp_path, size=1 << 18, layout_crc=7)
    image = SumImage(0, "", 0, 0, np.zeros(1 << 18, np.int64))
    shelf.write(1, b"", 0, LogPosition(0, 0, 0), [image, image])
    shelf.write(3, b"", 0, LogPosition(0, 0, 0), [])
    assert (tmp_path / "b.snap").stat().st_size < 1000
    shelf.close()


def test_sums_are_encrypted_where_there_is_a_cipher_and_come_back_with_the_same_key_alone(tmp_path: Path) -> None:
    def shelf_of(key: bytes | None) -> SnapshotStore:
        return SnapshotStore(tmp_path / "t0", size=SIZE, layout_crc=7, cipher=cipher_of(key))

    plain = np.full(SIZE, 20, np.int64).tobytes()
    shelf = shelf_of(b"key" * 11)
    wrote(shelf, 1)
    wrote(shelf, 2)
    shelf.close()
    stored = [path.read_bytes() for path in (tmp_path / "t0").iterdir()]
    assert not any(plain in data or plain[:8] * 2 in data for data in stored)
    for key, expected in ((b"key" * 11, [20] * SIZE), (b"other" * 7, None), (None, None)):
        copy = shutil.copytree(tmp_path / "t0", tmp_path / f"copy {key!r}")
        found = SnapshotStore(copy, size=SIZE, layout_crc=7, cipher=cipher_of(key))
        assert (found.loaded.images[0].flat.tolist() if found.loaded else None) == expected
        assert ("another secret" in " ".join(found.damages)) is (expected is None)
        found.close()


def test_sums_of_a_server_that_did_not_encrypt_yet_are_taken_up(folder: Path) -> None:
    shelf = SnapshotStore(folder, size=SIZE, layout_crc=7, cipher=cipher_of(bytes(32)))
    assert shelf.loaded is not None and shelf.loaded.images[0].flat.tolist() == [20] * SIZE
    wrote(shelf, 3)
    shelf.close()
    again = SnapshotStore(folder, size=SIZE, layout_crc=7, cipher=cipher_of(bytes(32)))
    assert again.loaded is not None and again.loaded.images[0].flat.tolist() == [30] * SIZE
