"""Valid messages made malformed: bits, cuts, lies about lengths, nesting, numbers that are none; each by a seed, to be repeated."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from random import Random

Mutation = Callable[[Random, bytearray, Sequence[bytes]], bytearray]

LENGTHS = (0, 1, 2, 7, 8, 100, 2**16, 2**16 + 1, 2**31 - 1, 2**31, 2**32 - 1)
WIDE = (*LENGTHS, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
ODD_FLOATS = (b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\0\0\x80\xff", b"\xff\xff\x7f\x7f", b"\x01\0\0\0")
ODD_DOUBLES = tuple(struct.pack("<d", v) for v in (float("nan"), float("inf"), float("-inf"), 1.7e308, 5e-324, -0.0))
VARINTS = (
    b"\xff" * 9 + b"\x01",
    b"\xff" * 10,
    b"\x80" * 12,
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
)
NUMBERS = (
    "-1", "0", "1", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e400", "-0", "1.5",
    "1e3", "NaN", "null", "true", '"3"', "[]", "{}", "9" * 400, "9" * 5000,
)  # fmt: skip
WORDS = (
    "BF16",
    "F8_E4M3",
    "F64",
    "I64",
    "U8",
    "BOOL",
    "",
    "x" * 300,
    "\\ud800",
    "\\u0000",
    "../../etc",
    "__metadata__",
    "w",
)


def flipped(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """Some bits turned round."""
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def overwritten(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """A few bytes replaced by others of the same number."""
    if data:
        at, n = rng.randrange(len(data)), rng.choice((1, 2, 4, 8, 32))
        data[at : at + n] = rng.randbytes(len(data[at : at + n])) if rng.random() < 0.7 else bytes(len(data[at : at + n]))
    return data


def cut(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """The end, the beginning or something in the middle is missing."""
    most = min(len(data), rng.choice((9, len(data))))  # few bytes are where decoders have not yet seen anything to doubt
    a, b = sorted((rng.randrange(most + 1), rng.randrange(len(data) + 1)))
    return rng.choice((data[:a], data[b:], data[:a] + data[b:]))


def inserted(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """Something is there that should not be: noise, zeros, a piece of itself or of another message."""
    at, other = rng.randrange(len(data) + 1), rng.choice(others)
    a = rng.randrange(len(other) + 1)
    piece = rng.choice((rng.randbytes(rng.randrange(1, 40)), bytes(rng.randrange(1, 200)), other[a : a + 100], bytes(data[:at])))
    return data[:at] + piece + data[at:]


def spliced(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """It begins as itself and goes on as another."""
    other = rng.choice(others)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def length_lied(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """A length is not what follows: of a frame, of a safetensors header, or anywhere."""
    kind, values = rng.choice((("<I", LENGTHS), ("<Q", WIDE)))
    size = struct.calcsize(kind)
    near = (len(data) - size, len(data) - size + 1, max(0, len(data) - size - 1))
    value = max(0, rng.choice((*values, *near))) % 2 ** (8 * size)
    at = 0 if rng.random() < 0.7 else rng.randrange(max(1, len(data) - size))
    data[at : at + size] = struct.pack(kind, value)
    return data


def huge_varint(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """A number of protobuf that is too long, too large, or the length of what is not there."""
    at, tag = rng.randrange(len(data) + 1), bytes([rng.randrange(1, 18) << 3 | rng.randrange(6)])
    return data[:at] + rng.choice((b"", tag)) + rng.choice(VARINTS) + data[at:]


def nested(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """Messages in messages, groups in groups, or lists in lists, many deep."""
    depth, at = rng.choice((2, 20, 99, 101, 1000, 5000)), rng.randrange(len(data) + 1)
    match rng.randrange(3):
        case 0:
            field = bytes([rng.randrange(1, 16) << 3 | 3])
            return data[:at] + field * depth + data[at:]
        case 1:
            inner, tag = bytes(data), bytes([rng.randrange(1, 16) << 3 | 2])
            for _ in range(min(depth, 200)):
                inner = tag + _varint(len(inner)) + inner
            return bytearray(inner)
        case _:
            return data[:at] + rng.choice((b"[", b'{"a":')) * depth + data[at:]


def not_finite(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """Numbers that are none, or hardly any, where numbers stand."""
    odd = rng.choice((*ODD_FLOATS, *ODD_DOUBLES))
    at = max(0, len(data) - 4 * rng.randrange(1, 64))
    data[at : at + len(odd)] = odd
    return data


def header_changed(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """A safetensors header with other numbers, types or names, and a length that is right again: a later check must catch it."""
    if len(data) < 8:
        return data
    (length,) = struct.unpack("<Q", data[:8])
    if length > len(data) - 8:
        return flipped(rng, data, others)
    text = bytes(data[8 : 8 + length]).decode(errors="surrogateescape")
    for _ in range(rng.choice((1, 1, 2, 5))):
        text = _edited(rng, text)
    said = text.encode(errors="surrogateescape")
    return bytearray(struct.pack("<Q", len(said)) + said + data[8 + length :])


def header_made(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """A header out of thin air: leaves that overlap, are nothing, or have more dimensions than there are."""
    body, leaves = bytes(rng.choice((0, 4, 8, 64))), {}
    sizes = rng.choice(((0, len(body)), (0, 1, 2, len(body)), (0, 1, 2, len(body), 2**31, 2**40)))
    for i in range(rng.choice((1, 1, 2, 50))):
        shape = [rng.choice(sizes) for _ in range(rng.choice((0, 1, 2, 5, 31, 33, 70)))]
        offsets = [rng.choice((0, len(body), 4, -4, 2**63)), rng.choice((0, len(body), 4, 2**63))]
        if math.prod(shape) == 0 or rng.random() < 0.3:  # offsets that fit, so that the shape itself is looked at
            offsets = [0, 0 if math.prod(shape) == 0 else len(body)]
        leaves[f"w{i}"] = {
            "dtype": rng.choice(("F32", "U8", "I64", "BF16", "F8_E5M2", 3)),
            "shape": shape,
            "data_offsets": offsets,
        }
    if rng.random() < 0.5:
        leaves["whole"] = {"dtype": "U8", "shape": [len(body)], "data_offsets": [0, len(body)]}
    said = json.dumps(leaves).encode()
    return bytearray(struct.pack("<Q", len(said)) + said + body)


def noise(rng: Random, data: bytearray, others: Sequence[bytes]) -> bytearray:
    """Nothing but noise."""
    return bytearray(rng.randbytes(rng.choice((0, 1, 3, 4, 5, 8, 9, 50, 500))))


MUTATIONS: tuple[Mutation, ...] = (
    flipped, overwritten, cut, inserted, spliced, length_lied, huge_varint, nested, not_finite, header_changed, header_made, noise,
)  # fmt: skip


def mutated(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """This message after one or a few mutations."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        result = rng.choice(MUTATIONS)(rng, result, others)
    return bytes(result)


def _edited(rng: Random, text: str) -> str:
    pattern, instead = rng.choice(((r"-?\d+", NUMBERS), (r'(?<=")[^"]+(?=")', WORDS), (r"[\[\]{},:]", ("[", "]", "{", ",", ""))))
    places = list(re.finditer(pattern, text))
    if not places:
        return text + " "
    place = rng.choice(places)
    return text[: place.start()] + rng.choice(instead) + text[place.end() :]


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes((*result, value))
