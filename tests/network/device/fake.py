"""A tiny server of our own that speaks the protocol, is scripted, and can be as bad as a network is."""

import threading
import time
from collections import deque
from concurrent import futures

import grpc
import numpy as np

from fedfleet.core.parts import Algorithm
from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.device_process import Trust, line_to
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.retries import RetryPolicy
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import (
    CHANNEL_OPTIONS,
    INLINE_BYTES,
    PROTOCOL,
    SERVICE,
    crc32c,
    decode_frame,
    encode_frame,
    encode_message,
    parse_message,
)
from fedfleet.network.security.secrets import sign_config

SECRET = b"s" * 32
CHUNK_BYTES = 1 << 16
SHEET = b'{"form": 1}'


class Fake:
    """One client's server. Scripts are lists that calls take from the front; when they are empty all goes well."""

    def __init__(self, sheet=SHEET, *, largest_unary=INLINE_BYTES, credentials=None):
        self.sheet, self.secret, self.client = sheet, SECRET, 4
        self.calls, self.reports, self.declined, self.enrolments = [], [], [], []
        self.works = deque()  # (Work, inline payload); the front one is handed out until it is reported
        self.blobs = {}
        self.receipts = deque()  # (status, seconds) before the honest answer
        self.failures = deque()  # (method, code): the next call of that method fails so
        self.cut_after = deque()  # of a HandStream: break after so many bytes
        self.cut_fetch = deque()
        self.held = {}  # bytes of broken uploads
        self.left = 0
        self.over = "that was all"
        self.idle = None  # seconds to come back after, instead of being over
        self.credentials, self.port = credentials, 0
        self.lock = threading.Lock()
        self.start()

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self):
        self.server = grpc.server(
            futures.ThreadPoolExecutor(4),
            options=(*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", INLINE_BYTES + (1 << 18))),
        )
        unary = {
            "Enrol": self.enrol,
            "Check": self.check,
            "Hand": self.hand,
            "Held": self.ask_held,
            "Leave": self.leave,
        }
        methods = {n: grpc.unary_unary_rpc_method_handler(self.noted(n, m)) for n, m in unary.items()}
        methods["Fetch"] = grpc.unary_stream_rpc_method_handler(self.fetch)
        methods["HandStream"] = grpc.stream_unary_rpc_method_handler(self.noted("HandStream", self.hand_stream))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        where = f"127.0.0.1:{self.port}"
        if self.credentials is None:
            self.port = self.server.add_insecure_port(where)
        else:
            self.port = self.server.add_secure_port(where, self.credentials)
        self.server.start()

    def stop(self):
        self.server.stop(None).wait()

    def restart(self):
        self.stop()
        self.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        """How a device calls it."""
        return self.address

    def noted(self, name, method):
        def call(data, context):
            self.calls.append(name)
            if self.failures and self.failures[0][0] == name:
                _, code, *said = self.failures.popleft()
                context.abort(code, said[0] if said else "on purpose")
            return method(data, context)

        return call

    # ---- work ------------------------------------------------------------------------------------------------------

    def give(self, tree, *, inline=True, kind=pb.TRAIN, task=None, **more):
        data = tree if isinstance(tree, bytes) else pack_tree(tree)
        number = len(self.works) + len(self.reports) if task is None else task
        blob = self.add_blob(data)
        work = pb.Work(
            kind=kind, task=number, nonce=b"n%d" % number, model=blob, inline=inline, share=1.0,
            **{"memory_task": -1, "lease_seconds": 20.0, **more},
        )  # fmt: skip
        self.works.append((work, data if inline else b""))
        return work

    def add_blob(self, data):
        name = f"{crc32c(data):08x}" * 8
        self.blobs[name] = data
        return pb.Blob(name=name, nbytes=len(data), crc32c=crc32c(data))

    def next_answer(self):
        if self.works:
            work, payload = self.works[0]
            return pb.Answer(work=work), payload
        if self.idle is not None:
            return pb.Answer(later=pb.Later(seconds=self.idle)), b""
        return pb.Answer(over=pb.Over(reason=self.over)), b""

    # ---- the methods -----------------------------------------------------------------------------------------------

    def known(self, caller, context):
        if (caller.client, caller.secret) != (self.client, self.secret):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")

    def enrol(self, data, context):
        request = parse_message(data, pb.EnrolRequest)
        self.enrolments.append(request)
        if request.protocol != PROTOCOL:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "another protocol")
        if request.token == "bad":
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the token is unknown\x1b[2J; ask for a new one")
        signature = sign_config(self.secret, self.sheet)
        return encode_message(
            pb.EnrolReply(client=self.client, secret=self.secret, sheet=self.sheet, signature=signature, run="tiny")
        )

    def check(self, data, context):
        self.known(parse_message(data, pb.CheckIn).caller, context)
        answer, payload = self.next_answer()
        return encode_frame(answer, payload)

    def fetch(self, data, context):
        self.calls.append("Fetch")
        request = parse_message(data, pb.FetchRequest)
        self.known(request.caller, context)
        if request.name not in self.blobs:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such blob")
        blob, cut = self.blobs[request.name], self.cut_fetch.popleft() if self.cut_fetch else None
        for a in range(request.offset, len(blob), CHUNK_BYTES):
            if cut is not None and a - request.offset >= cut:
                context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
            yield blob[a : a + CHUNK_BYTES]

    def hand(self, data, context):
        head, payload = decode_frame(data, pb.Report)
        return self.take(head, bytes(payload), context)

    def hand_stream(self, requests, context):
        head, _ = decode_frame(next(requests), pb.Report)
        self.known(head.caller, context)
        have = self.held.get(head.crc32c, b"")
        if head.offset != len(have):
            return encode_frame(pb.Receipt(status=pb.Receipt.BUSY, reason="go on from where it is"))
        cut = self.cut_after.popleft() if self.cut_after else None
        for chunk in requests:
            have += chunk
            if cut is not None and len(have) >= cut:
                self.held[head.crc32c] = have
                context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
        self.held.pop(head.crc32c, None)
        return self.take(head, have, context)

    def take(self, head, payload, context):
        self.known(head.caller, context)
        if self.receipts:
            status, seconds = self.receipts.popleft()
            if status in (pb.Receipt.BUSY, pb.Receipt.RETRY):
                return encode_frame(pb.Receipt(status=status, seconds=seconds, reason="scripted"))
        else:
            status = pb.Receipt.SAFE
        assert len(payload) == head.nbytes and crc32c(payload) == head.crc32c
        with self.lock:
            (self.declined if head.declined else self.reports).append((head, payload))
            if self.works and self.works[0][0].task == head.task:
                self.works.popleft()
        answer, more = self.next_answer()
        return encode_frame(pb.Receipt(status=status, reason="scripted", next=answer), more)

    def ask_held(self, data, context):
        request = parse_message(data, pb.HeldRequest)
        self.known(request.caller, context)
        return encode_message(pb.HeldReply(offset=len(self.held.get(request.crc32c, b""))))

    def leave(self, data, context):
        self.known(parse_message(data, pb.LeaveRequest).caller, context)
        self.left += 1
        return encode_message(pb.LeaveReply())


class ToyExecutor:
    """Trains without torch: an update is the model times a factor of the task, plus what was remembered."""

    def train(self, jobs):
        from fedfleet.core.records import Report

        for job in jobs:
            if job.settings.get("fail"):
                raise ValueError("it cannot be trained")
            before = job.memory.get("slot", {}).get("w", np.float32(0))
            update = {n: (v * np.float32(job.task + 1) + before).astype(np.float32) for n, v in job.offer.params.items()}
            memory = {"slot": {"w": np.float32(before + job.task + 1)}, "empty": {}}
            yield Report(job.task, job.client, update, 5.0, {"loss": 0.5, "odd": float("nan"), "samples": 5.0}, memory)

    def evaluate(self, trials):
        from fedfleet.core.records import Score

        for trial in trials:
            yield Score(int(trial.params["w"][0]), len(trial.rows), 0.25)


def toy_kit(sheet=SHEET, fetch=None, *, remembers=True):
    """A kit whose clients remember, and that needs no torch."""
    from fedfleet.core.parts import Dataset, Executor, Task
    from fedfleet.core.passes import BatchPlan, LocalPass, Optimiser, Slot
    from fedfleet.network.device.client_runtime import ClientRuntime

    half = LocalPass(
        Optimiser(lambda p: None, lambda p, g, s, r: (p, s)),
        BatchPlan(2, 1),
        slots=(Slot("slot", lambda model: {"w": np.float32(0)}),) if remembers else (),
    )
    algorithm = Algorithm("toy", init=None, offer=None, local=lambda client, settings: half, fold=None, apply=None)
    dataset = Dataset(np.zeros((9, 1), np.float32), np.zeros(9, np.int64), 2)
    task = Task("toy", dataset, np.zeros(0, np.int64), build=None, init=None)
    toy = ToyExecutor()
    params = {"w": np.zeros(3, np.float32)}
    return ClientRuntime(4, 1, 0, algorithm, task, params, np.arange(5), np.arange(5, 9), Executor("toy", toy.train, toy.evaluate))


def swift():
    """Patience that pauses a hundredth of what it would."""
    return RetryPolicy(sleep=lambda seconds: time.sleep(min(seconds, 1.0) / 100), chance=lambda: 0.5)


def device(fake, folder, *, make=toy_kit, said=None, check_samples=None, **wishes):
    """A device at a fake server; close its store by leaving `attended`."""
    said = [] if said is None else said
    line = line_to(fake.url, Trust())
    return Device(line, DeviceStore(folder), DeviceOptions(**wishes), make, said.append, swift(), check_samples)


def attended(fake, folder, **more):
    """Take part until the run is over."""
    one = device(fake, folder, **more)
    try:
        return one.run()
    finally:
        one.connection.close()
        one.store.close()
