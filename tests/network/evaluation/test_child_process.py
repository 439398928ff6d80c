"""The process of the judge: it loads no gRPC, answers a question after the other, and ends with its socket."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.evaluation.evaluators import LENGTHS, decode_head, decode_result, encode_message, evaluate_model
from tests.network.evaluation.courts import court

ROOT = Path(__file__).parents[3]
MODEL = {"w": np.arange(4, dtype=np.float32)}


@pytest.fixture
def child(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-m", "fedfleet.network.evaluation.child_process", str(theirs.fileno())]
    builder = "tests.network.evaluation.courts:court"
    with theirs:
        process = subprocess.Popen([*words, builder], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    with process, ours:
        yield ours, process
        process.kill()


def read(line):
    head, payload = LENGTHS.unpack(line.recv(LENGTHS.size, socket.MSG_WAITALL))
    said = decode_head(line.recv(head, socket.MSG_WAITALL))
    return said, line.recv(payload, socket.MSG_WAITALL) if payload else b""


def test_questions_in_pieces_are_answered_and_it_ends_with_its_socket(child, tmp_path):
    line, process = child
    path = tmp_path / "model"
    path.write_bytes(pack_tree(MODEL))
    asked = encode_message({}) + encode_message(
        {"number": 4, "version": 1, "path": str(path), "clients": True}, b"ignored"
    )
    for byte in asked:
        line.sendall(bytes([byte]))
    assert read(line)[0] == {"number": -1}
    result = decode_result(*read(line))
    assert result.score == evaluate_model(court({}), 1, MODEL, True).score
    path.write_bytes(b"no model")
    line.sendall(encode_message({"number": 5, "version": 1, "path": str(path), "clients": False}))
    said, _ = read(line)
    assert said["number"] == 5 and "safetensors" in said["failed"] and said["kind"] == "Refused"
    line.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""


def test_half_a_question_and_then_nothing_ends_it(child):
    line, process = child
    line.sendall(encode_message({})[:3])
    line.close()
    assert process.wait(60) == 0


def test_it_needs_neither_grpc_nor_torch_by_itself():
    code = "import sys, fedfleet.network.evaluation.child_process; print([m for m in ('grpc', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
