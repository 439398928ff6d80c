"""Compressed bytes: repeatable, bounded when they are expanded, and what shuffling is worth."""

import gzip as python_gzip
import zlib
from importlib.util import find_spec

import numpy as np
import pytest

from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.learn.codecs.lossless import BYTES, deflate, gzip, zstd
from fedfleet.learn.codecs.messages import decode, encode, encode_bytes

NOISE = {"w": np.random.default_rng(0).normal(size=60_000).astype(np.float32)}


def test_gzip_is_gzip_and_deflate_is_deflate():
    inside = encode(gzip(), NOISE)[BYTES].tobytes()
    assert unpack_tree(python_gzip.decompress(inside))["w"].tobytes() == NOISE["w"].tobytes()
    assert zlib.decompress(encode(deflate(), NOISE)[BYTES].tobytes(), -15) == pack_tree(NOISE)
    assert len(encode(deflate(), NOISE)[BYTES]) == len(inside) - 18  # header and checksum


def test_what_gzip_saves_of_noise():
    """About 7 %, and 15 % where the bytes are shuffled: floats are hardly redundant."""
    plain = 1 - len(encode_bytes(gzip(), NOISE)) / NOISE["w"].nbytes
    shuffled = 1 - len(encode_bytes(gzip(shuffle=True), NOISE)) / NOISE["w"].nbytes
    assert 0.06 < plain < 0.09 and 0.13 < shuffled < 0.17


def test_a_bomb_is_refused_before_it_grows():
    huge = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = huge.compress(b"\0" * (1 << 26)) + huge.flush()
    with pytest.raises(Refused, match="expands to more than"):
        decode(gzip(), {BYTES: np.frombuffer(bomb, np.uint8)}, {"w": np.zeros(3, np.float32)})


@pytest.mark.parametrize("build", [gzip, deflate])
def test_bytes_that_are_cut_off_or_not_compressed_are_refused(build):
    whole = encode(build(), NOISE)[BYTES]
    for bad in (whole[:-9], whole[:10], np.concatenate([whole, whole[:1]]), np.zeros(50, np.uint8) + 255):
        with pytest.raises(Refused):
            decode(build(), {BYTES: bad}, NOISE)
    for tree in ({}, {BYTES: whole.astype(np.int64)}, {BYTES: whole, "more": whole}):
        with pytest.raises(Refused, match="holds no bytes"):
            decode(build(), tree, NOISE)


def test_without_its_package_zstd_says_how_to_get_it():
    if find_spec("zstandard") is None:
        with pytest.raises(BadInput, match=r'needs the package zstandard, .* pip install "fedfleet\[zstd\]"'):
            zstd()
        return
    whole = encode(zstd(), NOISE)[BYTES]
    assert len(whole) < NOISE["w"].nbytes
    for bad in (whole[:-9], np.zeros(50, np.uint8)):
        with pytest.raises(Refused):
            decode(zstd(), {BYTES: bad}, NOISE)
