"""A device of a served run without FedFleet's device: numpy, gRPC, safetensors and the messages, by docs/reference/protocol.md.

python examples/device/plain.py HOST:PORT DATA.npz

It knows one method (fedavg with plain SGD) on one kind of model (logistic regression), declines everything else, and calls only a
server on this machine: a real one needs TLS, a store for its secret, and streams for large models.
"""

import hmac
import json
import os
import random
import struct
import sys
import time
from typing import Any

import google_crc32c
import grpc
import numpy as np
from safetensors.numpy import load, save

from fedfleet.network.protocol import fleet_pb2 as pb

AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED)


class Server:
    """One server; calls on raw bytes, tried again with growing pauses while it is out of reach."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)

    def call(self, name: str, data: bytes) -> bytes:
        pause = 0.1
        while True:
            try:
                return self._channel.unary_unary(f"/fedfleet.wire.Fleet/{name}")(data, timeout=120.0)
            except grpc.RpcError as wrong:
                if wrong.code() not in AGAIN:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, 10.0)

    def fetch(self, request: pb.FetchRequest) -> bytes:
        return b"".join(self._channel.unary_stream("/fedfleet.wire.Fleet/Fetch")(request.SerializeToString()))


def framed(head: Any, payload: bytes) -> bytes:
    said = head.SerializeToString()
    return struct.pack("<I", len(said)) + said + payload


def opened(data: bytes, kind: Any) -> tuple[Any, bytes]:
    (length,) = struct.unpack_from("<I", data)
    return kind.FromString(data[4 : 4 + length]), data[4 + length :]


def chances(weight: Any, bias: Any, x: Any) -> Any:
    scores = x @ weight.T + bias
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)


def trained(model: dict[str, Any], x: Any, y: Any, how: dict[str, Any]) -> dict[str, Any]:
    """What plain SGD changes of a logistic regression."""
    names = {leaf.ndim: name for name, leaf in model.items()}
    weight, bias = model[names[2]].copy(), model[names[1]].copy()
    for _ in range(how["epochs"]):
        order = np.random.default_rng().permutation(len(x))
        for rows in (order[a : a + how["batch"]] for a in range(0, len(x), how["batch"])):
            wrong = chances(weight, bias, x[rows])
            wrong[np.arange(len(rows)), y[rows]] -= 1.0
            weight -= how["lr"] / len(rows) * (wrong.T @ x[rows])
            bias -= how["lr"] / len(rows) * wrong.sum(0)
    return {names[2]: weight - model[names[2]], names[1]: bias - model[names[1]]}


def report(work: Any, model: bytes, x: Any, y: Any, sheet: dict[str, Any]) -> tuple[Any, bytes]:
    """The report of one piece of work; of a kind or method that is not known here, why it is declined."""
    head, how, test = pb.Report(task=work.task, nonce=work.nonce, kind=work.kind), sheet["algorithm"], len(x) // 5
    leaves = load(model)
    plain = how["use"] == "fedavg" and how["optimiser"] == "sgd" and not (how["momentum"] or how["weight_decay"] or how.get("up"))
    if not plain or sorted(leaf.ndim for leaf in leaves.values()) != [1, 2] or work.steps or work.share < 1.0:
        head.declined = "this device knows plain fedavg on a logistic regression only"
        return head, b""
    if work.kind == pb.TRAIN:
        payload = save(trained(leaves, x[test:], y[test:], how))
        head.weight = float(len(x) - test) if how["weigh"] == "samples" else 1.0
        head.nbytes, head.crc32c = len(payload), google_crc32c.value(payload)
        return head, payload
    rows = slice(0, test) if work.kind == pb.EVALUATE else slice(test, None)
    bias, weight = sorted(leaves.values(), key=np.ndim)
    found = chances(weight, bias, x[rows])
    right = found[np.arange(len(found)), y[rows]]
    head.correct, head.total, head.loss = (
        int((found.argmax(1) == y[rows]).sum()),
        len(found),
        float(-np.log(right).mean()),
    )
    return head, b""


def take_part(server: Server, x: Any, y: Any) -> str:
    """Enrol, then work until the run is over; the reason why it is."""
    asked = pb.EnrolRequest(protocol=4, samples=len(x) - len(x) // 5, test_samples=len(x) // 5, data="own", attempt=os.urandom(16))
    told = pb.EnrolReply.FromString(server.call("Enrol", asked.SerializeToString()))
    signature = hmac.digest(told.secret, b"fedfleet sheet 1\0" + told.sheet, "sha256")
    if not hmac.compare_digest(signature, told.signature):
        raise SystemExit("the sheet is not signed for this device")
    sheet, me = json.loads(told.sheet), pb.Caller(client=told.client, secret=told.secret)
    x = x.reshape(len(x), -1).astype(np.float32)
    answer, model = pb.Answer(), b""
    while True:
        what = answer.WhichOneof("what")
        if what == "over":
            return answer.over.reason
        if what != "work":
            time.sleep(answer.later.seconds)
            answer, model = opened(server.call("Check", pb.CheckIn(caller=me, hold=True).SerializeToString()), pb.Answer)
            continue
        work = answer.work
        if not work.inline or google_crc32c.value(model) != work.model.crc32c:
            model = server.fetch(pb.FetchRequest(caller=me, name=work.model.name))
        head, payload = report(work, model, x, y, sheet)
        head.caller.CopyFrom(me)
        receipt, model = opened(server.call("Hand", framed(head, payload)), pb.Receipt)
        while receipt.status in (pb.Receipt.BUSY, pb.Receipt.RETRY):  # the very same bytes: they cannot count twice
            time.sleep(max(receipt.seconds, 0.1))
            receipt, model = opened(server.call("Hand", framed(head, payload)), pb.Receipt)
        print(f"task {work.task}: {pb.Receipt.Status.Name(receipt.status)} {receipt.reason}", flush=True)
        answer = receipt.next


if __name__ == "__main__":
    with np.load(sys.argv[2], allow_pickle=False) as file:
        print("over:", take_part(Server(sys.argv[1]), file["x"], file["y"]))
