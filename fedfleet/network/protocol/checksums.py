"""CRC-32C: by google-crc32c where it is installed, else here: the same numbers from tables and numpy, for devices without it.

Small messages go byte by byte. A large payload is cut into lanes that numpy takes through the tables side by side; two lanes are
put together by what the bytes of the second one do to the checksum of the first, which is a matrix of bits.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Bytes = bytes | np.ndarray[Any, np.dtype[np.uint8]]
    Words = np.ndarray[Any, np.dtype[np.uint32]]

_POLYNOMIAL = 0x82F63B78  # of Castagnoli, its bits reversed
_ONES = 0xFFFFFFFF
_MOST_BYTEWISE = 1 << 10  # bytes; beyond, lanes are faster
# Beyond, lanes are worth loading numpy: a device that waits for work has none, and numpy would be half of its memory.
_MOST_WITHOUT_NUMPY = 1 << 18
_MOST_LANES = 1 << 12


def extend_plainly(crc: int, data: Bytes) -> int:
    """The CRC-32C of some bytes and these, from that of the bytes before.

    >>> hex(extend_plainly(0, b"123456789"))
    '0xe3069283'
    """
    state = crc ^ _ONES
    if len(data) <= (_MOST_BYTEWISE if "numpy" in sys.modules else _MOST_WITHOUT_NUMPY):
        table = _byte_table()
        for byte in bytes(data):
            state = table[(state ^ byte) & 255] ^ (state >> 8)
        return state ^ _ONES
    return _shift(state, len(data)) ^ _remainder(data) ^ _ONES


def value_plainly(data: Bytes) -> int:
    """The CRC-32C of some bytes."""
    return extend_plainly(0, data)


try:
    from google_crc32c import extend, value
except ImportError:
    extend, value = extend_plainly, value_plainly


@cache
def _byte_table() -> list[int]:
    """What one more byte makes of a state."""
    result: list[int] = []
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = (state >> 1) ^ (_POLYNOMIAL if state & 1 else 0)
        result.append(state)
    return result


def _remainder(data: Bytes) -> int:
    """The state after these bytes, from the state zero."""
    import numpy as np

    lanes = 1 << min(_MOST_LANES.bit_length() - 1, (len(data) // 64).bit_length() - 1)
    # Zeros in front leave the state zero as it is.
    padded = np.zeros(-len(data) % (4 * lanes) + len(data), np.uint8)
    padded[len(padded) - len(data) :] = np.frombuffer(data, np.uint8)
    words = np.ascontiguousarray(padded.view("<u4").reshape(lanes, -1).T)
    low, high = _half_word_tables()
    states = np.zeros(lanes, np.uint32)
    for word in words:
        states ^= word
        states = low[states & 0xFFFF] ^ high[states >> 16]
    after = _zero_bytes(4 * len(words))
    while len(states) > 1:
        states = _times(after, states[0::2]) ^ states[1::2]
        after = _times(after, after)
    return int(states[0])


def _shift(state: int, nbytes: int) -> int:
    """What so many zero bytes make of a state."""
    import numpy as np

    return int(_times(_zero_bytes(nbytes), np.array([state], np.uint32))[0])


def _zero_bytes(nbytes: int) -> Words:
    """The matrix of what so many zero bytes make of a state: the images of its 32 bits."""
    import numpy as np

    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    result, step = bits, np.array([_byte_table()[b & 255] ^ (b >> 8) for b in bits.tolist()], np.uint32)
    while nbytes:
        if nbytes & 1:
            result = _times(step, result)
        step, nbytes = _times(step, step), nbytes >> 1
    return result


def _times(matrix: Words, states: Words) -> Words:
    """The images of some states."""
    import numpy as np

    result = np.zeros_like(states)
    for bit in range(32):
        result ^= matrix[bit] * ((states >> np.uint32(bit)) & np.uint32(1))
    return result


@cache
def _half_word_tables() -> tuple[Words, Words]:
    """What the lower and the upper half of a word do to the state four bytes later."""
    import numpy as np

    tables = [np.array(_byte_table(), np.uint32)]
    for _ in range(3):
        tables.append((tables[-1] >> np.uint32(8)) ^ tables[0][tables[-1] & 255])
    both = np.arange(1 << 16)
    return tables[3][both & 255] ^ tables[2][both >> 8], tables[1][both & 255] ^ tables[0][both >> 8]
