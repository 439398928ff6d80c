"""The puppet and the crowd speak the protocol, against a desk of a few lines that commits whenever everybody has reported."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import numpy as np
import pytest

from fedfleet.core.errors import Refused
from fedfleet.core.records import Report
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.network.protocol import fleet_pb2 as fleet
from fedfleet.network.protocol.frames import crc32c, decode_frame, encode_frame, method_path
from tests.network.crowd import crowd
from tests.network.cutting import cut_until_held, line
from tests.network.puppet import Puppet, Status, in_chunks, puppets
from tests.network.toys import Toy, worked

TOY = Toy(clients=3, rounds=2)
MODEL = pack_tree({"w": np.zeros(TOY.width, np.float32)})


class TinyDesk:
    """One task for each client and round; reports are kept as they come."""

    def __init__(self, rounds, *, inline=True):
        self.rounds, self.inline = rounds, inline
        self.lock = threading.Lock()
        self.kept: dict[int, tuple[fleet.Report, bytes]] = {}
        self.round: dict[int, int] = {}
        self.partial = b""

    def work(self, client):
        n = self.round.get(client, 0)
        if n >= self.rounds:
            return fleet.Answer(over=fleet.Over(reason="rounds")), b""
        blob = fleet.Blob(name="m", nbytes=len(MODEL), crc32c=crc32c(MODEL))
        work = fleet.Work(task=n * 100 + client, nonce=b"n%d" % client, model=blob, inline=self.inline)
        return fleet.Answer(work=work), MODEL if self.inline else b""

    def enrol(self, data, context):
        asked = fleet.EnrolRequest.FromString(data)
        if asked.token == "bad":
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no such token")
        return fleet.EnrolReply(client=asked.client, secret=b"s%d" % asked.client).SerializeToString()

    def check(self, data, context):
        asked = fleet.CheckIn.FromString(data)
        assert asked.caller.secret == b"s%d" % asked.caller.client
        return encode_frame(*self.work(asked.caller.client))

    def take(self, report, payload):
        if crc32c(payload) != report.crc32c or len(payload) != report.nbytes:
            return encode_frame(fleet.Receipt(status=Status.RETRY, reason="garbled"))
        with self.lock:
            if report.task not in self.kept:
                self.kept[report.task] = (report, payload)
                self.round[report.caller.client] = self.round.get(report.caller.client, 0) + 1
        answer, model = self.work(report.caller.client)
        return encode_frame(fleet.Receipt(status=Status.SAFE, next=answer), model)

    def hand(self, data, context):
        try:
            report, payload = decode_frame(data, fleet.Report)
        except Refused as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return self.take(report, bytes(payload))

    def hand_stream(self, chunks, context):
        report, _ = decode_frame(next(chunks), fleet.Report)
        whole = bytearray(self.partial[: report.offset])
        try:
            for chunk in chunks:
                whole += chunk
        finally:
            self.partial = bytes(whole)
        return self.take(report, bytes(whole))

    def held(self, data, context):
        return fleet.HeldReply(offset=len(self.partial)).SerializeToString()

    def fetch(self, data, context):
        yield from in_chunks(MODEL[fleet.FetchRequest.FromString(data).offset :], 16)


@contextmanager
def tiny(desk):
    made = {
        "Enrol": grpc.unary_unary_rpc_method_handler(desk.enrol),
        "Check": grpc.unary_unary_rpc_method_handler(desk.check),
        "Hand": grpc.unary_unary_rpc_method_handler(desk.hand),
        "HandStream": grpc.stream_unary_rpc_method_handler(desk.hand_stream),
        "Held": grpc.unary_unary_rpc_method_handler(desk.held),
        "Fetch": grpc.unary_stream_rpc_method_handler(desk.fetch),
    }
    service = method_path("x").split("/")[1]
    server = grpc.server(ThreadPoolExecutor(8), handlers=[grpc.method_handlers_generic_handler(service, made)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


@pytest.mark.parametrize("inline", [True, False])
def test_a_crowd_does_all_the_work_of_a_run_and_keeps_its_receipts(inline):
    desk = TinyDesk(TOY.rounds, inline=inline)
    with tiny(desk) as address, crowd(TOY, address) as people:
        for _ in range(500):
            if len(people.over) == TOY.clients:
                break
            threading.Event().wait(0.01)
    assert people.errors == []
    assert sorted(r.task for r in people.receipts) == sorted(desk.kept) == [0, 1, 2, 100, 101, 102]
    for task, (_, payload) in desk.kept.items():
        assert np.array_equal(unpack_tree(payload)["w"], people.reports[task].update["w"])


def test_a_puppet_sends_what_it_was_told_to_send():
    desk = TinyDesk(1)
    with tiny(desk) as address, puppets(address, [0]) as (puppet,):
        errand = puppet.await_work()
        head, payload = puppet.honest(TOY, errand)
        assert puppet.hand(head, payload[:-1]).status == Status.RETRY
        with pytest.raises(grpc.RpcError) as broken:
            puppet.hand_raw(b"\xff")
        assert broken.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert puppet.hand(head, payload).status == Status.SAFE
        said = worked(TOY, 0, 0, errand.model)
        assert isinstance(said, Report)
        assert desk.kept[0][0].weight == said.weight


def test_a_stream_that_is_cut_goes_on_where_it_broke():
    desk = TinyDesk(1)
    with tiny(desk) as address, line(address) as bad, puppets(bad.address, [1]) as (puppet,):
        work = puppet.await_work().work
        payload = bytes(range(256)) * 4096
        head = puppet.report(work, payload)
        offset = cut_until_held(bad, puppet, head, payload, after=400_000)
        assert 0 < offset < len(payload)
        head.offset = offset
        assert puppet.hand_stream(head, in_chunks(payload[offset:], 1 << 16)).status == Status.SAFE
        assert desk.kept[1][1] == payload


def test_a_refused_enrolment_is_the_tests_business():
    with tiny(TinyDesk(1)) as address:
        puppet = Puppet(address, 0)
        with pytest.raises(grpc.RpcError) as refused:
            puppet.enrol(token="bad")
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        puppet.close()
