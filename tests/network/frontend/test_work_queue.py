"""Errands: who has to do what, whatever comes in whatever order; and nothing is remembered of what is done."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.network.frontend.work_queue import (
    DownloadGate,
    Invitations,
    WorkQueue,
    blob_name,
    hold_call,
    wake,
    work_message,
)
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.process_link import Blob

BLOB = Blob("ab", "/nowhere", 4, 7)


def wave(first: int, *clients: int, **said: object) -> inside.Wave:
    columns = {"clients": np.array(clients, np.uint32).tobytes(), "heaviest": np.ones(len(clients)).tobytes()}
    return inside.Wave(first=first, **{"blobs": ["ab"], **columns, **said})  # type: ignore[arg-type]


def test_a_wave_gives_each_client_its_task_until_it_is_done() -> None:
    errands = WorkQueue(5)
    assert errands.add(wave(10, 3, 1)) == [3, 1]
    assert [e.task if (e := errands.next_item(c)) else None for c in range(5)] == [None, 11, None, 10, None]
    errands.end([10, 99])
    assert errands.next_item(3) is None and errands.find(10) is None
    assert errands.find(11) is not None and errands.find(12) is None and errands.find(9) is None
    errands.end([11])
    assert len(errands) == 0


def test_a_task_that_another_was_put_before_has_its_turn_again() -> None:
    errands = WorkQueue(2)
    errands.add(wave(0, 0, 1))
    errands.add(wave(1 << 40, 0))
    assert errands.next_item(0).task == 1 << 40  # type: ignore[union-attr]
    assert errands.find(0) is not None
    errands.end([1 << 40])
    assert errands.next_item(0).task == 0  # type: ignore[union-attr]
    assert len(errands) == 1


def test_a_task_withdrawn_after_its_client_got_another_leaves_the_other_alone_and_nothing_behind() -> None:
    errands = WorkQueue(2)
    errands.add(wave(0, 0))
    errands.add(wave(5, 0))  # in one message waves come before what is withdrawn
    errands.end([0])
    assert errands.next_item(0).task == 5  # type: ignore[union-attr]
    errands.end([5])
    assert errands.next_item(0) is None and len(errands) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_any_history_leaves_exactly_what_is_wanted(history: list[tuple[bool, int]]) -> None:
    """Against a list by client: the newest that is wanted is next, and waves without wanted tasks are gone."""
    errands, wanted, first = WorkQueue(3), {c: list[int]() for c in range(3)}, 0
    for new, which in history:
        if new:
            clients = sorted({which % 3, (which + which // 3) % 3})
            errands.add(wave(first, *clients))
            for n, client in enumerate(clients):
                wanted[client].append(first + n)
            first += len(clients) + which
        else:
            live = sorted(t for tasks in wanted.values() for t in tasks)
            if live:
                task = live[which % len(live)]
                errands.end([task, task])
                for tasks in wanted.values():
                    if task in tasks:
                        tasks.remove(task)
    for client, tasks in wanted.items():
        result = errands.next_item(client)
        assert (result.task if result else None) == (tasks[-1] if tasks else None)
        assert all(errands.find(task) is not None for task in tasks)
    if not any(wanted.values()):
        assert len(errands) == 0


def test_work_says_what_the_columns_say() -> None:
    errands = WorkQueue(4)
    errands.add(
        wave(
            7, 2, 3, kind=pb.EVALUATE, steps=np.array([0, 5], np.uint32).tobytes(), share=np.array([1.0, 0.5]).tobytes(),
            memory_task=np.array([-1, 4], np.int64).tobytes(), settings=["portion"], columns=[np.array([0.25, 0.75]).tobytes()],
            blobs=["ab", "cd"], blob=np.array([0, 1], np.uint16).tobytes(), lease_seconds=9.0, seed=11,
            rows=[np.array([1], np.uint32).tobytes(), np.array([2, 3], np.uint32).tobytes()],
        )
    )  # fmt: skip
    errand = errands.next_item(3)
    assert errand is not None and blob_name(errand) == "cd"
    work = work_message(errand, b"nonce", BLOB, BLOB, 1.5, inline=True)
    assert (work.kind, work.task, work.steps, work.share, work.memory_task) == (pb.EVALUATE, 8, 5, 0.5, 4)
    assert dict(work.settings) == {"portion": 0.75} and list(work.rows) == [2, 3]
    assert (work.lease_seconds, work.seed, work.held_seconds, work.frozen.name) == (9.0, 11, 1.5, "ab")
    plain = WorkQueue(4)
    plain.add(wave(0, 1))
    bare = work_message(plain.next_item(1), b"n", BLOB, None, 0.0, inline=False)  # type: ignore[arg-type]
    assert (bare.steps, bare.share, bare.memory_task, bare.HasField("frozen")) == (0, 1.0, -1, False)


def held(play):
    """What a play on a line leaves: who waits still, and who was said to be gone."""

    async def run():
        waiters, gone = {}, []
        await asyncio.wait_for(play(waiters, gone), 5)
        return waiters, gone

    return asyncio.run(run())


def test_who_is_woken_goes_on():
    async def play(waiters, gone):
        call = asyncio.create_task(hold_call(waiters, 7, 60.0, gone.append))
        await asyncio.sleep(0)
        assert list(waiters) == [7]
        wake(waiters, 8)
        await asyncio.sleep(0)
        assert not call.done()
        wake(waiters, 7)
        await call

    assert held(play) == ({}, [])


def test_time_ends_the_wait():
    async def play(waiters, gone):
        await hold_call(waiters, 7, 0.01, gone.append)

    assert held(play) == ({}, [])


def test_who_hangs_up_is_gone():
    async def play(waiters, gone):
        call = asyncio.create_task(hold_call(waiters, 7, 60.0, gone.append))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert held(play) == ({}, [7])


def test_a_second_call_of_a_client_takes_the_line_over():
    async def play(waiters, gone):
        first = asyncio.create_task(hold_call(waiters, 7, 60.0, gone.append))
        await asyncio.sleep(0)
        second = asyncio.create_task(hold_call(waiters, 7, 60.0, gone.append))
        await asyncio.sleep(0)
        first.cancel()  # its end says nothing about the device, which is on the other
        await asyncio.gather(first, return_exceptions=True)
        assert (list(waiters), gone) == ([7], [])
        wake(waiters, 7)
        await second

    assert held(play) == ({}, [])


class Call:
    """A call that ends when it is told to."""

    def __init__(self):
        self.after = []

    def add_done_callback(self, callback):
        self.after.append(callback)

    def end(self):
        for callback in self.after:
            callback(self)


def test_what_fits_passes_at_once_and_the_rest_in_the_order_of_its_coming():
    async def run():
        gate, calls, passed = DownloadGate(100), [Call() for _ in range(4)], []

        async def one(i):
            await gate.acquire(50, calls[i])
            passed.append(i)

        tasks = [asyncio.create_task(one(i)) for i in range(4)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (passed, gate.nbytes) == ([0, 1], 100)
        for i in range(4):
            calls[i].end()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert (passed, gate.nbytes) == ([0, 1, 2, 3], 0)
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_one_that_is_larger_than_the_gate_passes_alone():
    async def run():
        gate, large, small = DownloadGate(10), Call(), Call()
        await gate.acquire(1000, large)
        waiting = asyncio.create_task(gate.acquire(1, small))
        await asyncio.sleep(0)
        assert not waiting.done()
        large.end()
        await waiting
        assert gate.nbytes == 1

    asyncio.run(run())


def test_a_call_that_ends_in_line_takes_no_room():
    async def run():
        gate, first, second = DownloadGate(10), Call(), Call()
        await gate.acquire(10, first)
        waiting = asyncio.create_task(gate.acquire(10, second))
        await asyncio.sleep(0)
        second.end()
        first.end()
        await waiting
        assert gate.nbytes == 0

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["end", "cancel", "both"])), max_size=30), st.randoms())
def test_nothing_is_lost_or_kept_whatever_becomes_of_the_calls(asked, random):
    async def run():
        gate, calls, tasks = DownloadGate(50), [], []
        for nbytes, _ in asked:
            call = Call()
            calls.append(call)
            tasks.append(asyncio.create_task(gate.acquire(nbytes, call)))
            await asyncio.sleep(0)
            assert gate.nbytes <= 50
        order = list(range(len(asked)))
        random.shuffle(order)
        for i in order:
            if asked[i][1] != "end":
                tasks[i].cancel()
            await asyncio.sleep(0)
            calls[i].end()  # gRPC tells of the end of cancelled calls too
            await asyncio.sleep(0)
            assert gate.nbytes <= 50
        await asyncio.gather(*tasks, return_exceptions=True)
        assert gate.nbytes == 0

    asyncio.run(run())


def test_a_place_on_the_line_is_kept_until_its_device_calls_or_for_a_moment() -> None:
    invitations = Invitations()
    for client in range(5):
        invitations.add(client, float(client))
    assert invitations.count(1.9) == 5
    assert invitations.count(2.0) == 4  # that of client 0 is over
    invitations.remove(3)
    invitations.remove(77)
    assert invitations.count(2.0) == 3
    invitations.add(1, 2.5)  # again, and so later than the others
    assert invitations.count(4.2) == 2
    assert invitations.count(99.0) == 0
