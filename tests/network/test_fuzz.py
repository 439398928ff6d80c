"""Malformed messages at the decoders: refused or harmless, soon, in little memory, and nothing is ever carried out."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.errors import Refused
from fedfleet.core.parts import Offer
from fedfleet.core.tensor_format import pack_tree, view_tree
from fedfleet.learn.codecs.lossless import BYTES, deflate, gzip
from fedfleet.learn.codecs.messages import decode_bytes
from fedfleet.network.protocol import fleet_pb2
from fedfleet.network.protocol.frames import MAX_HEAD_BYTES, decode_frame, offer_to_bytes
from tests.network.fuzzing import LIKE, SLOW, Target, run, targets, tried

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MESSAGES = 8_000


def fuzzed(seed, messages):
    """What a process with little memory says of so many malformed messages; whatever it only warns of is an error there."""
    words = [sys.executable, "-W", "error", "-m", "tests.network.fuzzing", str(seed), str(messages)]
    done = subprocess.run(words, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return json.loads(done.stdout)


def check(result, messages):
    """No message may do what none may do."""
    assert result["broken"] == []
    assert result["acts"] == {}  # nothing was opened, imported, compiled or started
    assert sum(result["outcomes"].values()) == messages == result["messages"]
    assert result["outcomes"]["refused"] > 0.7 * messages  # they are malformed indeed ..
    assert result["outcomes"]["taken"] > 0.05 * messages  # .. and reach what lies behind the first check
    assert result["slowest"] < SLOW, result["slowest_name"]
    assert result["grown_kb"] < 32_000
    assert result["peak"] < 4 << 20, result["peak_name"]


@pytest.mark.slow
def test_malformed_messages_at_every_decoder():
    result = fuzzed(1, MESSAGES)
    check(result, MESSAGES)
    assert result["targets"] > 70


def test_the_fuzzer_sees_what_a_decoder_must_not_do():
    """A decoder that fails in its own way on one message in a thousand is found, and the message is there to be repeated."""

    def careless(data):
        if len(data) % 64 == 3:
            raise KeyError("w")
        raise Refused("no")

    result = run(1, 3000, [Target("careless", [pack_tree(LIKE)], careless)])
    assert result.broken[0]["what"] == "KeyError: 'w'"
    assert tried(Target("careless", [], careless), bytes.fromhex(result.broken[0]["data"])) == "KeyError: 'w'"


@pytest.mark.soak
def test_the_same_seed_makes_the_same_messages():
    every = targets()[::7]
    assert run(5, 200, every).outcomes == run(5, 200, every).outcomes
    assert [t.malformed(_random(3), [b"x"]) for t in every] == [t.malformed(_random(3), [b"x"]) for t in every]


def _random(seed):
    from random import Random

    return Random(seed)


# ---- what the fuzzer has found, by name --------------------------------------------------------------------------


def tensors(header, body=b""):
    said = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(said)) + said + body


ONE = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            tensors(
                {
                    "w": {"dtype": "F32", "shape": [0] + [8] * 31, "data_offsets": [0, 0]},
                    "b": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
                },
                bytes(8),
            ),
            id="an empty leaf whose other dimensions overflow",
        ),
        pytest.param(tensors(ONE.decode().encode("utf-16"), b"x"), id="a header in UTF-16"),
        pytest.param(tensors(ONE.replace(b"w", b"\\ud800"), b"x"), id="a name that is no text"),
        pytest.param(tensors(ONE.replace(b"[1]", b"[" * 100_000), b"x"), id="lists in lists"),
        pytest.param(tensors(ONE.replace(b"[1]", b"[" + b"9" * 5000 + b"]"), b"x"), id="a number of 5,000 digits"),
    ],
)
def test_headers_that_are_refused(data):
    with pytest.raises(Refused):
        view_tree(data)


def as_bytes(data):
    return pack_tree({BYTES: np.frombuffer(data, np.uint8)})


@pytest.mark.parametrize("length", range(8))
def test_few_bytes_of_zstd_are_refused(length):
    zstandard = pytest.importorskip("zstandard")
    from fedfleet.learn.codecs.lossless import zstd

    with pytest.raises(Refused):
        decode_bytes(zstd(), as_bytes(zstandard.ZstdCompressor().compress(pack_tree(LIKE))[:length]), LIKE)


def test_a_window_of_zstd_that_no_model_needs_is_refused_before_it_is_made():
    zstandard = pytest.importorskip("zstandard")
    from fedfleet.learn.codecs.lossless import zstd

    wide = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=0)
    worker = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    data = worker.compress(pack_tree(LIKE)) + worker.flush()
    with pytest.raises(Refused, match="zstd"):
        decode_bytes(zstd(), as_bytes(data), LIKE)


@pytest.mark.parametrize("effort", [1, 3, 19, 22])
def test_honest_zstd_of_every_effort_is_taken(effort):
    pytest.importorskip("zstandard")
    from fedfleet.learn.codecs.lossless import zstd
    from fedfleet.learn.codecs.messages import encode_bytes

    large = {"w": np.random.default_rng(0).normal(size=600_000).astype(np.float32)}
    codec = zstd(effort=effort)
    assert decode_bytes(codec, encode_bytes(codec, large), large)["w"].tobytes() == large["w"].tobytes()


@pytest.mark.parametrize("build", [gzip, deflate])
def test_a_bomb_in_a_bomb_is_refused(build):
    """What was packed twice is unpacked once: the inside is no tensor."""
    from fedfleet.learn.codecs.messages import encode_bytes

    once = encode_bytes(build(), {"w": np.zeros(1 << 22, np.float32)})
    with pytest.raises(Refused):
        decode_bytes(build(), encode_bytes(build(), {"w": np.frombuffer(once, np.uint8)}), LIKE)


def test_a_head_that_claims_more_than_may_be_is_refused_unread():
    frame = struct.pack("<I", MAX_HEAD_BYTES + 1) + bytes(MAX_HEAD_BYTES + 1)
    with pytest.raises(Refused, match="claims"):
        decode_frame(frame, fleet_pb2.Report)


def test_groups_in_groups_are_refused():
    with pytest.raises(Refused):
        decode_frame(struct.pack("<I", 5000) + b"\x0b" * 5000, fleet_pb2.Report)


def test_the_valid_messages_are_taken():
    """Else nothing behind the first check would be tried."""
    for target in targets():
        for data in target.valid:
            assert tried(target, data) == "taken", target.name
    assert offer_to_bytes(Offer(LIKE)) == pack_tree(LIKE)
