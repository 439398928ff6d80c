"""Asking a server for its status: what it answers, and one sentence for everything that can go wrong."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.network.operations.metrics import Figures, status_json
from fedfleet.network.operations.status import MOST_REPLY, ask_status, format_status, parse_status
from fedfleet.network.protocol.fleet_pb2 import StatusReply, StatusRequest
from fedfleet.network.protocol.frames import SERVICE

GOOD = StatusReply(json=status_json(Figures("demo", 4, 3, 5, 5, running=2, waiting_for="client 7", accuracy=0.5)))


@contextmanager
def answering(reply):
    """A server that answers every Status with these bytes, or a function of request and context; its address."""

    def call(data, context):
        return reply(StatusRequest.FromString(data), context) if callable(reply) else reply

    server = grpc.server(ThreadPoolExecutor(1))
    handler = grpc.method_handlers_generic_handler(SERVICE, {"Status": grpc.unary_unary_rpc_method_handler(call)})
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


def test_an_answer_is_read():
    with answering(GOOD.SerializeToString()) as address:
        said = ask_status(address)
    assert (said["run"], said["round"], said["running"]) == ("demo", 4, 2)
    assert format_status(said).splitlines() == [
        "run demo, up for 0 s", "round 4, model 3, accuracy 0.500", "5 devices online, 2 tasks out", "waiting for client 7",
    ]  # fmt: skip


def test_a_token_is_shown():
    def guarded(request, context):
        if request.token != "right":
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        return GOOD.SerializeToString()

    with answering(guarded) as address:
        assert ask_status(address, token="right")["run"] == "demo"
        with pytest.raises(RunFailed, match=r"status\.token"):
            ask_status(address, token="wrong")


@pytest.mark.parametrize(("serving", "word"), [(True, "takes devices"), (False, "is stopping")])
def test_without_a_token_a_server_says_whether_it_takes_devices(serving, word):
    with (
        answering(StatusReply(json=json.dumps({"serving": serving})).SerializeToString()) as address,
        pytest.raises(RunFailed, match=rf"{word}.*; it gives its status only to callers with its token: give .*status\.token"),
    ):
        ask_status(address)


def test_nobody_there_is_one_sentence():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(RunFailed, match="no server runs there") as wrong:
        ask_status(address, seconds=2.0)
    assert "\n" not in str(wrong.value)


def test_somebody_silent_is_one_sentence():
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, pytest.raises(RunFailed, match="did not answer in time"):
        ask_status(f"127.0.0.1:{silent.getsockname()[1]}", seconds=0.5)


@pytest.mark.parametrize(
    "reply",
    [
        b"\xff\xff\xff", b"", StatusReply(json="[]").SerializeToString(), StatusReply(json="{}").SerializeToString(),
        StatusReply(json="[" * 60000).SerializeToString(), StatusReply(json="x" * MOST_REPLY).SerializeToString(),
    ],
)  # fmt: skip
def test_answers_that_are_none_are_refused(reply):
    with answering(reply) as address, pytest.raises(RunFailed):
        ask_status(address)


def test_text_of_a_server_is_escaped():
    evil = json.loads(GOOD.json) | {"waiting_for": "a\x1b[2J\nb", "uptime_seconds": "soon\n", "accuracy": "high"}
    said = parse_status("somewhere", StatusReply(json=json.dumps(evil)).SerializeToString())
    assert "\x1b" not in format_status(said) and len(format_status(said).splitlines()) == 4


def test_another_machine_is_asked_over_tls_only():
    with pytest.raises(BadInput, match="without TLS"):
        ask_status("192.0.2.1:50051")
    with pytest.raises(BadInput, match="HOST:PORT"):
        ask_status("nonsense")
