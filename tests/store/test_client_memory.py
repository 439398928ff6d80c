"""Clients' memory: slots side by side, the same bytes in RAM and on disk, and a file that no kill can spoil."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import RunFailed
from fedfleet.core.records import Cost, ServerState, Wave, whole_work
from fedfleet.core.trees import content_hash
from fedfleet.store.client_memory import ClientMemory, file_name

KB = 1024


def tree(value, n=64):
    return {"w": np.full(n, value, np.float32), "n": np.array(value)}


def wave(first, *clients):
    ids = np.array(clients, np.int64)
    zeros = np.zeros(len(ids))
    cost = Cost(zeros, zeros, zeros)
    return Wave(first, 0, 0, 0.0, whole_work(ids), ids.astype(np.uint64), cost, ServerState({}))


def shown(memory):
    return {c: {s: content_hash(t) for s, t in memory.slots_of(c).items()} for c in sorted(memory.current)}


def test_a_report_replaces_its_own_slots_and_no_other():
    memory = ClientMemory()
    memory.advance(3, {"kept": tree(1), "residual": tree(2)})
    memory.advance(3, {"residual": tree(5)})
    result = memory.slots_of(3)
    assert (result["kept"]["w"][0], result["residual"]["w"][0]) == (1.0, 5.0)
    assert memory.slots_of(4) == {}


def test_a_task_sees_what_its_client_remembered_when_it_was_sent():
    memory = ClientMemory()
    memory.advance(0, {"a": tree(1)})
    memory.lend(wave(10, 0, 1))
    memory.advance(0, {"a": tree(2)})
    assert memory.slots_of_task(10)["a"]["w"][0] == 1.0
    assert memory.slots_of_task(11) == {}
    memory.release_task(11)
    assert memory.slots_of_task(10), "edges are weighed against all others of their wave, so it stays until the last has ended"
    memory.release_task(10)
    assert memory.slots_of_task(10) == {}
    assert memory.slots_of(0)["a"]["w"][0] == 2.0


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.integers(0, 99)), max_size=40), st.integers(0, 4))
def test_in_ram_and_on_disk_are_the_same_bytes(tmp_path_factory, writes, kilobytes):
    folder = tmp_path_factory.mktemp("run")
    rich, poor, homeless = ClientMemory(), ClientMemory(folder, kilobytes * KB), ClientMemory(None, kilobytes * KB)
    for client, slot, value in writes:
        for memory in (rich, poor, homeless):
            memory.advance(client, {slot: tree(value)})
            assert memory.ram_bytes <= max(memory.limit, 0) or memory is rich
    assert shown(rich) == shown(poor) == shown(homeless)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), min_size=1, max_size=30), st.data())
def test_resuming_goes_back_to_the_checkpoint_whatever_came_after(tmp_path_factory, writes, data):
    folder = tmp_path_factory.mktemp("run")
    memory, kept = ClientMemory(folder, 2 * KB, compact_from=2 * KB), []
    for i, (client, value) in enumerate(writes):
        memory.advance(client, {"a": tree(value)})
        if i % 7 == 3:
            memory.lend(wave(100 * i, client, 9))
        if data.draw(st.booleans()):
            meta, arrays = memory.save()
            kept = [
                *kept[-1:],
                (meta, arrays, shown(memory), {t: content_hash(memory.slots_of_task(t)["a"]) for t in memory.lent}),
            ]
            memory.release(meta["generation"] for meta, *_ in kept)
    for meta, arrays, then, lent in kept[::-1]:  # the newest, and the one before it
        again = ClientMemory(folder, 2 * KB)
        again.restore(meta, arrays)
        assert shown(again) == then
        assert {t: content_hash(again.slots_of_task(t)["a"]) for t in again.lent} == lent
        again.file.close()


def test_tidying_starts_a_new_file_and_old_ones_go_when_no_checkpoint_needs_them(tmp_path):
    memory = ClientMemory(tmp_path, 0, compact_from=KB)
    memory.advance(1, {"a": tree(7, 1000)})
    for value in range(30):
        memory.advance(0, {"a": tree(value, 1000)})
    first, _ = memory.save()
    assert first["generation"] == 1, "more than half was dead"
    memory.release([0, 1])
    assert {p.name for p in tmp_path.glob("memory-*")} == {file_name(0), file_name(1)}
    memory.release([1])
    assert {p.name for p in tmp_path.glob("memory-*")} == {file_name(1)}
    assert (memory.slots_of(0)["a"]["w"][0], memory.slots_of(1)["a"]["w"][0]) == (29.0, 7.0)


def test_a_damaged_record_is_found_before_it_is_used(tmp_path):
    memory = ClientMemory(tmp_path, 0)
    memory.advance(0, {"a": tree(1, 500)})
    meta, arrays = memory.save()
    path = tmp_path / file_name(0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    again = ClientMemory(tmp_path, 0)
    again.restore(meta, arrays)
    with pytest.raises(RunFailed, match="damaged at byte 0"):
        again.slots_of(0)
    path.write_bytes(data[:-10])
    with pytest.raises(RunFailed, match="shorter than its checkpoint"):
        ClientMemory(tmp_path, 0).restore(meta, arrays)


def test_a_folder_adopts_what_had_spilled(tmp_path):
    memory = ClientMemory(None, 0)
    memory.advance(0, {"a": tree(3)})
    memory.move_to(tmp_path)
    meta, arrays = memory.save()
    again = ClientMemory(tmp_path)
    again.restore(meta, arrays)
    assert again.slots_of(0)["a"]["w"][0] == 3.0


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    memory = ClientMemory(tmp_path, 0)
    memory.advance(0, {"a": tree(1)})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(memory.file, "_file", type("Full", (), {"seek": lambda *_: 0, "write": full})())
    with pytest.raises(RunFailed, match="then resume"):
        memory.advance(1, {"a": tree(1)})
