"""Whatever a device hands in, an honest retry counts, once: real processes on loopback, and at the end the journal is the proof."""

import contextlib
import threading
from dataclasses import replace

import grpc
import numpy as np
import pytest

from fedfleet.core.events import ReportRejected, ReportsGathered, ReportUnwanted, TaskArrived, TaskLost
from fedfleet.network.protocol import fleet_pb2 as fleet
from fedfleet.network.protocol.frames import PROTOCOL, crc32c, encode_frame
from tests.network.bench import UNTIL_STOPPED, bench, tree
from tests.network.puppet import Puppet, Status, in_chunks
from tests.network.toys import Toy

pytestmark = pytest.mark.slow

TOY = Toy(clients=64, buffer=1, rounds=UNTIL_STOPPED, width=16)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with bench(tmp_path_factory.mktemp("faults"), TOY) as made:
        yield made


def zeros(value, width=TOY.width, kind=np.float32):
    made = np.zeros(width, kind)
    made[-1] = value
    return made


# A whole report that cannot be folded: what it holds, with which weight, and a word of the reason.
UNUSABLE = {
    "NaN": (tree(w=zeros(np.nan)), 1.0, "finite"),
    "Inf": (tree(w=zeros(np.inf)), 1.0, "finite"),
    "out of bound": (tree(w=zeros(2.0**20)), 1.0, ""),
    "wrong shape": (tree(w=np.zeros((4, 4), np.float32)), 1.0, ""),
    "too long": (tree(w=np.zeros(TOY.width + 1, np.float32)), 1.0, ""),
    "wrong type": (tree(w=np.zeros(TOY.width, np.float64)), 1.0, ""),
    "wrong name": (tree(v=np.zeros(TOY.width, np.float32)), 1.0, ""),
    "one leaf too many": (tree(w=zeros(1), v=zeros(1)), 1.0, ""),
    "nothing": (b"", 1.0, ""),
    "no tensors": (b"not tensors at all", 1.0, ""),
    "no weight": (tree(w=zeros(0.5)), 0.0, "weigh"),
    "a negative weight": (tree(w=zeros(0.5)), -1.0, "weigh"),
    "a weight that is not a number": (tree(w=zeros(0.5)), float("nan"), "weigh"),
    "more weight than it has samples": (tree(w=zeros(0.5)), 1e6, "weigh"),
}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_a_report_that_cannot_be_folded_may_be_tried_again(fault, desk):
    puppet, errand, head, payload = desk.working()
    bad, weight, word = UNUSABLE[fault]
    receipt = desk.hand(puppet, puppet.report(errand.work, bad, weight=weight), bad)
    assert receipt.status == Status.RETRY
    assert receipt.reason
    assert word in receipt.reason
    assert desk.arrivals(head.task) == 0
    assert desk.hand(puppet, head, payload).status == Status.SAFE
    (arrived,) = desk.of_task(head.task, TaskArrived)
    assert arrived.client == puppet.client


def test_the_same_unusable_bytes_again_count_as_arrived_and_weigh_nothing(desk):
    puppet, errand, _, _ = desk.working()
    bad = tree(w=zeros(np.nan))
    head = puppet.report(errand.work, bad)
    assert desk.hand(puppet, head, bad).status == Status.RETRY
    assert desk.hand(puppet, head, bad).status == Status.REFUSED
    (rejected,) = desk.of_task(head.task, ReportRejected)
    assert "finite" in rejected.reason


def test_three_strikes_end_a_task_and_the_client_gets_another(desk):
    puppet, errand, honest, payload = desk.working()
    for n, status in enumerate((Status.RETRY, Status.RETRY, Status.REFUSED)):
        bad = tree(w=zeros(np.nan) + np.float32(n))
        assert desk.hand(puppet, puppet.report(errand.work, bad), bad).status == status
    desk.of_task(honest.task, ReportRejected)
    del desk.reports[honest.task]
    assert desk.hand(puppet, honest, payload).status == Status.UNWANTED
    other = puppet.await_work()
    assert other.work.task != honest.task
    assert desk.hand(puppet, *desk.honest(puppet, other)).status == Status.SAFE


# Bytes that never were a whole report of this device: they cost the caller a strike, and the task nothing.
DAMAGED = {
    "truncated": lambda p, e, head, payload: encode_frame(head, payload[:-3]),
    "nothing of it came": lambda p, e, head, payload: encode_frame(head, b""),
    "more than it says": lambda p, e, head, payload: encode_frame(head, payload + b"more"),
    "garbled": lambda p, e, head, payload: encode_frame(head, bytes([payload[0] ^ 1]) + payload[1:]),
    "a garbled head": lambda p, e, head, payload: b"\x07\0\0\0" + b"\xff" * 40,
    "a head longer than the message": lambda p, e, head, payload: b"\xff\xff\xff\xff" + b"x",
    "no bytes at all": lambda p, e, head, payload: b"",
    "wrong nonce": lambda p, e, head, payload: encode_frame(p.report(e.work, payload, nonce=b"0" * 16), payload),
    "no nonce": lambda p, e, head, payload: encode_frame(p.report(e.work, payload, nonce=b""), payload),
    "a task that nobody has": lambda p, e, head, payload: encode_frame(p.report(e.work, payload, task=1 << 50), payload),
    "wrong secret": lambda p, e, head, payload: encode_frame(
        p.report(e.work, payload, caller=fleet.Caller(client=p.client, secret=b"x" * 32)), payload
    ),
    "a client that does not exist": lambda p, e, head, payload: encode_frame(
        p.report(e.work, payload, caller=fleet.Caller(client=1 << 31, secret=p.secret)), payload
    ),
    "far too large": lambda p, e, head, payload: encode_frame(
        p.report(e.work, bytes(3 << 20)), bytes(3 << 20)
    ),
    "a length that no machine holds": lambda p, e, head, payload: encode_frame(
        p.report(e.work, payload, nbytes=1 << 62), payload
    ),
}  # fmt: skip


REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.NOT_FOUND,
)  # fmt: skip


def answered(call):
    """With which code a call broke, or what it brought."""
    try:
        return None, call()
    except grpc.RpcError as error:
        return error.code(), None


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_uploads_cost_a_strike_and_not_the_task(damage, desk):
    puppet, errand, head, payload = desk.working()
    said = DAMAGED[damage](puppet, errand, head, payload)
    code, receipt = answered(lambda: puppet.hand_raw(said))
    if receipt is None:
        assert code in REFUSALS
    else:
        assert receipt.status != Status.SAFE
        assert receipt.reason
    assert desk.arrivals(head.task) == 0
    assert desk.hand(puppet, head, payload).status == Status.SAFE
    assert len(desk.of_task(head.task, TaskArrived)) == 1


def test_a_report_for_somebody_elses_task_harms_nobody(desk):
    thief, _, _, _ = desk.working()
    puppet, errand, head, payload = desk.working()
    stolen = thief.report(errand.work, payload)  # with the right nonce, even
    with contextlib.suppress(grpc.RpcError):
        assert thief.hand(stolen, payload).status != Status.SAFE
    assert desk.hand(puppet, head, payload).status == Status.SAFE


def test_a_duplicate_is_acknowledged_again_and_counts_once(desk):
    puppet, _, head, payload = desk.working()
    for _ in range(3):
        assert desk.hand(puppet, head, payload).status == Status.SAFE
    desk.of_task(head.task, TaskArrived)
    assert desk.arrivals(head.task) == 1


def test_other_bytes_for_a_task_that_is_done_are_unwanted(desk):
    puppet, errand, head, payload = desk.working()
    assert desk.hand(puppet, head, payload).status == Status.SAFE
    other = tree(w=zeros(0.25))
    assert desk.hand(puppet, puppet.report(errand.work, other), other).status == Status.UNWANTED
    (told,) = desk.of_task(head.task, ReportUnwanted)
    assert told.reason == "again"


def test_a_retry_at_another_transmitter_cannot_count_twice(desk):
    puppet, _, head, payload = desk.working()
    others = [desk.again(puppet) for _ in range(8)]  # so many connections meet both transmitters
    result = []

    def hand(other):
        result.append(desk.hand(other, head, payload).status)

    threads = [threading.Thread(target=hand, args=(other,)) for other in (puppet, *others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert result == [Status.SAFE] * 9
    assert desk.arrivals(head.task) == 1


def test_a_device_that_reconnects_gets_the_same_work_and_may_finish_it(desk):
    puppet, errand, head, payload = desk.working()
    puppet.close()
    back = desk.again(puppet)
    assert back.enrol().client == puppet.client
    assert back.await_work().work.task == errand.work.task
    assert desk.hand(back, head, payload).status == Status.SAFE


def test_a_device_that_says_that_it_is_at_work_gets_no_other_work(desk):
    puppet, errand, head, payload = desk.working()
    answer, _ = puppet.check(busy=errand.work.task)
    assert answer.WhichOneof("what") == "later"
    assert desk.hand(puppet, head, payload).status == Status.SAFE


def test_of_two_devices_with_one_identity_one_report_counts(desk):
    first, errand, head, payload = desk.working()
    second = desk.again(first)
    assert second.await_work().work.task == errand.work.task
    other = tree(w=zeros(0.125))
    statuses = {
        desk.hand(first, head, payload).status,
        desk.hand(second, second.report(errand.work, other), other).status,
    }
    assert statuses == {Status.SAFE, Status.UNWANTED}
    assert desk.arrivals(head.task) == 1


def test_a_device_may_decline_and_the_task_is_lost_with_its_reason(desk):
    puppet, errand, head, _ = desk.working()
    del desk.reports[head.task]
    puppet.hand(puppet.report(errand.work, b"", declined="my battery is low\x1b[31m\n"), b"")
    (lost,) = desk.of_task(head.task, TaskLost)
    assert "my battery is low" in lost.reason
    assert "\x1b" not in lost.reason
    assert "\n" not in lost.reason


def test_statistics_that_are_not_numbers_never_reach_the_journal(desk):
    puppet, errand, head, payload = desk.working()
    odd = puppet.report(errand.work, payload, weight=head.weight, stats={"loss": float("nan"), "\x1b[31m": 1.0})
    receipt = desk.hand(puppet, odd, payload)
    if receipt.status != Status.SAFE:
        assert desk.hand(puppet, head, payload).status == Status.SAFE
    desk.of_task(head.task, TaskArrived)
    for event in desk.ground.events():
        if isinstance(event, ReportsGathered) and head.task in event.tasks.tolist():
            assert "\x1b[31m" not in event.stats
            assert all(np.isfinite(column).all() for column in event.stats.values())


def test_another_protocol_is_told_so(desk):
    puppet = Puppet(desk.ground.address, 63)
    with pytest.raises(grpc.RpcError) as refused:
        puppet.enrol(protocol=PROTOCOL + 1)
    assert "protocol" in refused.value.details() or "version" in refused.value.details()
    puppet.close()


def test_who_does_not_know_its_secret_gets_nothing(desk):
    puppet, _, head, payload = desk.working()
    liar = Puppet(desk.ground.address, puppet.client, b"0" * 32)
    for call in (liar.check, liar.leave, lambda: liar.held(head), lambda: liar.fetch("0" * 64)):
        with pytest.raises(grpc.RpcError) as refused:
            call()
        assert refused.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    liar.close()
    assert desk.hand(puppet, head, payload).status == Status.SAFE


def test_a_device_that_leaves_is_not_asked_until_it_comes_back(desk):
    puppet = desk.newcomer()
    errand = puppet.await_work()
    assert desk.hand(puppet, *desk.honest(puppet, errand)).status == Status.SAFE
    puppet.leave()
    errand = puppet.await_work()
    assert desk.hand(puppet, *desk.honest(puppet, errand)).status == Status.SAFE


def test_the_server_is_still_there_and_says_nothing_of_errors(desk):
    assert desk.ground.server.poll() is None
    assert "Traceback" not in desk.ground.said


# ---- large reports ------------------------------------------------------------------------------------------------

WIDE = replace(TOY, clients=16, width=1_000_000)  # four megabytes: streamed


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    with bench(tmp_path_factory.mktemp("wide"), WIDE) as made:
        yield made


def test_a_large_report_is_streamed_and_the_model_fetched(wide):
    puppet, errand, head, payload = wide.working()
    assert not errand.work.inline
    receipt = puppet.hand_stream(head, in_chunks(payload))
    wide.note(head, receipt)
    assert receipt.status == Status.SAFE


def test_an_upload_that_the_network_cuts_is_resumed_where_it_broke(wide):
    from tests.network.cutting import cut_until_held, line

    with line(wide.ground.address) as bad:
        puppet = wide.newcomer(bad.address)
        errand = puppet.await_work()
        head, payload = wide.honest(puppet, errand)
        offset = cut_until_held(bad, puppet, head, payload, after=2_500_000)
        before = bad.up
        assert 0 < offset <= 2_500_000
        head.offset = offset
        receipt = puppet.hand_stream(head, in_chunks(payload[offset:]))
        wide.note(head, receipt)
        assert receipt.status == Status.SAFE
        assert bad.up - before < len(payload) - offset + 500_000  # the first part did not travel again


def test_half_a_stream_then_silence_costs_the_others_nothing(wide):
    from tests.network.cutting import line

    with line(wide.ground.address) as bad:
        stuck = wide.newcomer(bad.address)
        errand = stuck.await_work()
        head, payload = wide.honest(stuck, errand)
        bad.stall_after(1_000_000)
        ended = []
        thread = threading.Thread(target=lambda: ended.append(_outcome(stuck, head, payload)))
        thread.start()
        bad.await_up(bad.up + 1)
        puppet, _, other, whole = wide.working()
        receipt = puppet.hand_stream(other, in_chunks(whole))
        wide.note(other, receipt)
        assert receipt.status == Status.SAFE
        assert not ended
        bad.go_on()
        thread.join(60)
        assert ended == [Status.SAFE]
        wide.note(head, fleet.Receipt(status=Status.SAFE))


def _outcome(puppet, head, payload):
    puppet.wait = 30.0
    return puppet.hand_stream(head, in_chunks(payload)).status


STREAMS = {
    "half of it": (lambda payload: in_chunks(payload[: len(payload) // 2]), "short"),
    "more than it says": (lambda payload: in_chunks(payload + bytes(1 << 21)), "long"),
    "garbled": (lambda payload: in_chunks(payload[:-1] + bytes([payload[-1] ^ 1])), "garbled"),
    "chunks that are too large": (lambda payload: iter([payload, payload]), "large"),
    "endless": (lambda payload: (bytes(1 << 20) for _ in range(64)), "endless"),
}


@pytest.mark.parametrize("damage", STREAMS)
def test_damaged_streams_cost_a_strike_and_not_the_task(damage, wide):
    puppet, _, head, payload = wide.working()
    make, _ = STREAMS[damage]
    try:
        receipt = puppet.hand_stream(head, make(payload))
    except grpc.RpcError:
        pass
    else:
        assert receipt.status not in (Status.SAFE, Status.REFUSED)
    offset = puppet.held(head)
    head.offset = offset
    receipt = puppet.hand_stream(head, in_chunks(payload[offset:]))
    if receipt.status != Status.SAFE:  # what was there already was the garbled part
        head.offset = 0
        receipt = puppet.hand_stream(head, in_chunks(payload))
    wide.note(head, receipt)
    assert receipt.status == Status.SAFE


def test_an_offset_beyond_what_is_there_is_refused(wide):
    puppet, errand, head, payload = wide.working()
    lying = puppet.report(errand.work, payload, weight=head.weight, offset=3_000_000)
    with contextlib.suppress(grpc.RpcError):
        assert puppet.hand_stream(lying, in_chunks(payload[3_000_000:])).status != Status.SAFE
    receipt = puppet.hand_stream(head, in_chunks(payload))
    wide.note(head, receipt)
    assert receipt.status == Status.SAFE
    assert crc32c(payload) == head.crc32c
