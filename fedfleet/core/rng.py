"""Addressed randomness: every draw is a function of (seed, label, ids), never of what was drawn before.

`stream` serves whole-run draws. `hash_keys` serves populations: one 64-bit integer hash per client key, a few
vector operations for a million clients, the same on every machine.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.records import Bools, Keys

UintArray = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def address(seed: int, label: str, *ids: int) -> bytes:
    """The 32 bytes that name one place in the space of randomness."""
    text = label.encode()
    parts = [i.to_bytes(16, "little", signed=True) for i in (seed, *ids)]
    return hashlib.sha256(struct.pack("<I", len(text)) + text + b"".join(parts)).digest()


def stream(seed: int, label: str, *ids: int) -> np.random.Generator:
    """A generator for one address.

    >>> stream(7, "select", 3).integers(10) == stream(7, "select", 3).integers(10)
    np.True_
    """
    words = np.frombuffer(address(seed, label, *ids), dtype=np.uint32)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words.tolist())))


@lru_cache(maxsize=4096)
def _base(seed: int, label: str) -> np.uint64:
    return np.frombuffer(address(seed, label)[:8], dtype=np.uint64)[0]


def _mix(x: UintArray) -> UintArray:
    """The finaliser of splitmix64, in place: a bijection that scatters neighbouring integers."""
    shifted = np.empty_like(x)  # one for all: memory that is new to the process costs more than the arithmetic
    x ^= np.right_shift(x, np.uint64(30), out=shifted)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= np.right_shift(x, np.uint64(27), out=shifted)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= np.right_shift(x, np.uint64(31), out=shifted)
    return x


# The seed of all keys, or a list with one for each key.
Seeds = int | list[int]


def hash_keys(seed: Seeds, label: str, keys: UintArray, *columns: NDArray[np.integer] | int) -> UintArray:
    """One 64-bit hash per key for the address (seed, label, columns..); columns are integers or arrays as long as keys.

    >>> hash_keys(1, "a", np.arange(2, dtype=np.uint64), 5)[1] == hash_keys(1, "a", np.array([1], dtype=np.uint64), 5)[0]
    np.True_
    """
    base = _base(seed, label) if isinstance(seed, int) else np.array([_base(s, label) for s in seed], np.uint64)
    with np.errstate(over="ignore"):
        x = _mix((keys + _GOLDEN) ^ base)
        for column in columns:
            x += _GOLDEN
            if isinstance(column, int):
                x ^= np.uint64(column & 0xFFFFFFFFFFFFFFFF) * _GOLDEN
            else:
                x = x ^ (column.astype(np.uint64) * _GOLDEN)
            x = _mix(x)
    return x


def uniforms(seed: int, label: str, keys: UintArray, *columns: NDArray[np.integer] | int) -> NDArray[np.float64]:
    """A number in [0, 1) per key: the top 53 bits of its hash."""
    return (hash_keys(seed, label, keys, *columns) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normals(seed: int, label: str, keys: UintArray, *columns: NDArray[np.integer] | int) -> NDArray[np.float64]:
    """A standard normal per key by Box and Muller; the first uniform is kept away from zero."""
    u = ((hash_keys(seed, label, keys, *columns) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    v = uniforms(seed, label + "/angle", keys, *columns)
    return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)


def orders(seed: Seeds, keys: UintArray, tasks: NDArray[np.int64], epoch: int, n: int) -> NDArray[np.int64]:
    """A random order of 0..n-1 for each client's task and epoch, [clients, n]: the ranks of one hash per element.

    >>> one = orders(1, np.array([5], np.uint64), np.array([3]), 0, 4)
    >>> np.array_equal(orders(1, np.array([9, 5], np.uint64), np.array([2, 3]), 0, 4)[1], one[0])
    True
    """
    address_of = hash_keys(seed, "batches", keys, tasks, epoch)
    with np.errstate(over="ignore"):
        elements = np.arange(n, dtype=np.uint64) * _GOLDEN
        return np.argsort(_mix(address_of[:, None] + elements[None, :]), axis=1, kind="stable")


def client_keys(names: list[str] | int) -> UintArray:
    """The 64-bit keys of clients: of their names, or of 0..n-1. A client keeps its key when its index changes."""
    if isinstance(names, int):
        return hash_keys(0, "client", np.arange(names, dtype=np.uint64))
    digests = b"".join(hashlib.sha256(name.encode()).digest()[:8] for name in names)
    return np.frombuffer(digests, dtype=np.uint64).copy()


def attackers(seed: int, keys: Keys, share: float, clients: int) -> Bools:
    """Which of these clients attack: those of the smallest hashes, this share of a fleet of so many.

    >>> int(attackers(3, client_keys(50), 0.2, 50).sum())
    10
    """
    wanted = round(share * clients)
    if not wanted:
        return np.zeros(len(keys), np.bool_)
    # A threshold instead of ranks: code that sees only some of the clients gets the same answer.
    threshold = np.partition(hash_keys(seed, "attackers", client_keys(clients)), wanted - 1)[wanted - 1]
    return hash_keys(seed, "attackers", keys) <= threshold
