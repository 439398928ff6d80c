"""Malformed messages at every decoder, in a process with little memory: `python -m tests.network.fuzzing SEED COUNT`.

Whatever comes in, a decoder gives a value that keeps its promise, or `Refused`, or `BadInput`: soon, in little memory, and without
opening, importing, compiling or starting anything. What it found goes to standard output as JSON.
"""

from __future__ import annotations

import json
import math
import resource
import struct
import sys
import time
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from google.protobuf.message import Message

from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.records import ServerState
from fedfleet.core.registry import builder, names
from fedfleet.core.tensor_format import pack_tree, unpack_tree, view_tree
from fedfleet.core.trees import Tree, content_hash, mismatch
from fedfleet.learn.codecs.chain import chain
from fedfleet.learn.codecs.lossless import BYTES
from fedfleet.learn.codecs.messages import decode_bytes, encode, encode_bytes
from fedfleet.learn.folds import mean
from fedfleet.network.frontend.partial_sums import PartialSums, fold_layout, refusal
from fedfleet.network.frontend.report_log import LogEntry, entry_from_bytes, entry_to_bytes
from fedfleet.network.frontend.sum_kernel import COMPILE_MIN_ELEMENTS
from fedfleet.network.protocol import fleet_pb2, inside_pb2
from fedfleet.network.protocol.frames import MAX_HEAD_BYTES, decode_frame, encode_frame, offer_from_bytes, parse_message
from tests.network.mutating import mutated

ROOM = 48 << 20  # bytes of address space that all decoding together may take beyond what the process has
SLOW = 0.5  # seconds of processor time that no message of a few kilobytes may take
WATCHED = (
    "open",
    "import",
    "exec",
    "compile",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "socket.connect",
    "pickle.find_class",
)
LIKE = {
    "a.weight": np.linspace(-1, 1, 96, dtype=np.float32).reshape(12, 8),
    "b.bias": np.linspace(0, 1, 20, dtype=np.float32),
    "c": np.array(0.5, np.float32),
    "steps": np.array(3, np.int64),
}
OPTIONS: dict[str, dict[str, Any]] = {"lowrank": {"rank": 2}, "sketch": {"share": 0.5}}
CHAINS = (
    ("topk", "int8", "gzip"), ("randomk", "int4", "deflate"), ("lowrank", "int8"), ("topk", "fp16", "zstd"), ("sketch", "int8"),
    ("int2", "gzip"), ("bf16", "zstd"),
)  # fmt: skip


class Broken(AssertionError):
    """A decoder gave a value that does not keep its promise."""


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder with valid messages. `ways` make malformed ones of them: from outside, and, where a message holds another or has
    parts, from inside, so that sound outsides lead to the inner checks."""

    name: str
    valid: Sequence[bytes]
    decode: Callable[[bytes], Any]
    ways: Sequence[Callable[[Random, Sequence[bytes]], bytes]] = ()

    def malformed(self, rng: Random, pool: Sequence[bytes]) -> bytes:
        """A message that this decoder should not trust."""
        which = rng.randrange(len(self.ways) + 1)
        return mutated(rng, rng.choice(self.valid), pool) if which == len(self.ways) else self.ways[which](rng, pool)


# ---- valid messages ----------------------------------------------------------------------------------------------


def filled(kind: Any, rng: Random) -> Message:
    """A message of this kind with something in every field."""
    made = kind()
    for field in kind.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(made, field.name)["loss"] = rng.random()
        elif field.message_type is not None:
            inner = filled(field.message_type._concrete_class, rng)
            getattr(made, field.name).extend([inner, inner]) if field.is_repeated else getattr(made, field.name).CopyFrom(inner)
        elif field.is_repeated:
            getattr(made, field.name).extend([_scalar(field, rng) for _ in range(3)])
        else:
            setattr(made, field.name, _scalar(field, rng))
    return made


def _scalar(field: Any, rng: Random) -> Any:
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    kinds = {"float": rng.random(), "bool": True, "str": "some text", "bytes": rng.randbytes(32)}
    by_type = {1: "float", 2: "float", 8: "bool", 9: "str", 12: "bytes"}
    return kinds[by_type[field.type]] if field.type in by_type else rng.choice((0, 1, 300, 2**31 - 1))


# ---- targets -----------------------------------------------------------------------------------------------------


def message_targets() -> list[Target]:
    """Every message of both protocols: alone, and those of the wire as the head of a frame."""
    rng, result = Random(1), list[Target]()
    for module in (fleet_pb2, inside_pb2):
        for name in module.DESCRIPTOR.message_types_by_name:
            kind = getattr(module, name)
            said = filled(kind, rng)
            result.append(Target(f"parsed {name}", [said.SerializeToString()], lambda data, kind=kind: parse_message(data, kind)))
            if module is fleet_pb2:
                frames = [encode_frame(said, pack_tree(LIKE)), encode_frame(said)]
                result.append(Target(f"opened {name}", frames, lambda data, kind=kind: _opened(data, kind)))
    return result


def _opened(data: bytes, kind: Any) -> Any:
    head, payload = decode_frame(data, kind)
    if len(payload) > len(data) - 4 or head.ByteSize() > MAX_HEAD_BYTES * 2:
        raise Broken("more comes out than went in")
    return head


def tensor_targets() -> list[Target]:
    """Tensors as they travel: read in two ways, which must agree, and as offers."""
    trees = [
        pack_tree(LIKE),
        pack_tree({}),
        pack_tree({"half": np.ones(3, np.float16), "empty": np.zeros((0, 2), np.float32)}),
    ]
    return [Target("tensors", trees, _both), Target("offer", trees, offer_from_bytes)]


def _both(data: bytes) -> Any:
    """Both readers on the same bytes: where both take them, they see the same."""
    seen = list[Any]()
    for read in (unpack_tree, view_tree):
        try:
            seen.append(read(data))
        except Refused:
            seen.append(None)
    if None in seen:
        raise Refused("at least one reader refuses it")
    if content_hash(seen[0]) != content_hash(seen[1]):
        raise Broken("two readers see different tensors")
    return seen[0]


def codec_targets() -> list[Target]:
    """Every registered codec, and chains of them."""
    made = {name: builder("codecs", name)(**OPTIONS.get(name, {})) for name in names("codecs")}
    codecs = [*made.values(), builder("codecs", "lowrank")(energy=0.9), builder("codecs", "gzip")(shuffle=True)]
    codecs += [chain([made[name] for name in each]) for each in CHAINS]
    return [Target(f"codec {c.name}", [encode_bytes(c, LIKE, 7)], _decoding(c), _ways(c)) for c in codecs]


def _ways(codec: Any) -> list[Callable[[Random, Sequence[bytes]], bytes]]:
    """Leaves of other types, shapes and values; and, of what is compressed, noise in the bytes, and noise soundly compressed."""
    whole = encode(codec, LIKE, 7)
    ways = [lambda rng, pool: pack_tree(_other_leaves(rng, whole))]
    if BYTES in whole:
        small, shrink = whole[BYTES].tobytes(), _shrinking(codec.parts[-1].name if codec.parts else codec.name)
        wide = pack_tree(LIKE)
        ways.append(lambda rng, pool: _as_bytes(mutated(rng, small, pool)))
        ways.append(lambda rng, pool: _as_bytes(shrink(mutated(rng, wide, pool))))
        ways.append(lambda rng, pool: _as_bytes(shrink(pack_tree(_other_leaves(rng, LIKE)))))
    return ways


def _as_bytes(data: bytes) -> bytes:
    return pack_tree({BYTES: np.frombuffer(data, np.uint8)})


def _shrinking(name: str) -> Callable[[bytes], bytes]:
    if name == "zstd":
        return import_module("zstandard").ZstdCompressor(level=1).compress

    def shrunk(data: bytes) -> bytes:
        worker = zlib.compressobj(1, zlib.DEFLATED, 31 if name == "gzip" else -15)
        return worker.compress(data) + worker.flush()

    return shrunk


def _other_leaves(rng: Random, tree: Tree) -> Tree:
    """One leaf is gone, new, of another type or shape, or has values that it cannot have."""
    name = rng.choice(sorted(tree))
    leaf, draw = tree[name], np.random.default_rng(rng.getrandbits(32))
    match rng.randrange(5):
        case 0:
            return {n: v for n, v in tree.items() if n != name}
        case 1:
            return {**tree, rng.choice(("x", name + "|at", name + "|left", "\n", "|bytes", "|codes")): leaf}
        case 2:
            kind = rng.choice(("u1", "i1", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "?"))
            return {
                **tree,
                name: np.frombuffer(draw.bytes(leaf.size * np.dtype(kind).itemsize), kind).reshape(leaf.shape),
            }
        case 3:
            shapes = ((0,), (1,), (2, 0), (leaf.size + 1,), (1, *leaf.shape), (leaf.size, 1), (3, 3), ())
            return {**tree, name: np.zeros(rng.choice(shapes), leaf.dtype)}
        case _:
            raw = np.frombuffer(draw.bytes(max(1, leaf.nbytes)), np.uint8)[: leaf.nbytes] | rng.choice((0, 128, 255))
            return {**tree, name: raw.view(leaf.dtype).reshape(leaf.shape)}


def _decoding(codec: Any) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:
        result = decode_bytes(codec, data, LIKE)
        odd = mismatch(result, LIKE)
        if odd is not None:
            raise Broken(odd)
        return result

    return decode


def entry_targets() -> list[Target]:
    """Reports as they enter the sums, by numpy and by compiled loops, and what is written down of them."""
    entered = LogEntry(1, 2, 3, 0.5, 10.0, 1.0, "", 7, 99, ("loss", "train"), (0.25, 3.0), 1)
    large = {"w": np.linspace(-1, 1, 2 * COMPILE_MIN_ELEMENTS, dtype=np.float32), "n": np.array(3, np.int64)}
    bare = [entry_to_bytes(entered), entry_to_bytes(entered._replace(names=(), values=(), stats=0))]
    return [
        Target("entry", bare, entry_from_bytes),
        *(_summing(name, like, entered) for name, like in (("", LIKE), ("compiled", large))),
    ]


def _summing(name: str, like: Tree, entered: LogEntry) -> Target:
    """A weight and tensors: whatever is let pass enters the sums, and no element of them leaves its bounds."""
    sheet = fold_layout(mean(bound=16.0, total_weight=1024.0), ServerState(like))
    sums = PartialSums(sheet, None)
    weights = (1.0, 0.0, -1.0, math.nan, math.inf, 1024.0, 1024.5, 1e308, 5e-324)

    def decode(data: bytes) -> None:
        weight, tree = struct.unpack_from("<d", data.ljust(8, b"\0"))[0], view_tree(data[8:])
        why = refusal(sheet, tree, weight)
        if why is not None:
            raise Refused(why)
        try:
            sums.add(0, entered._replace(weight=weight), tree)
            for leaf, scale in sheet.scales.items():
                most = float(np.abs((sums.bucket_sums(0) or {})[f"|sum/{leaf}"].astype(np.float64)).max())
                if most > math.ldexp(scale.bound * weight, scale.power) + 1:
                    raise Broken(f"leaf {leaf} left its bounds")
        finally:
            sums.discard(0)

    whole = pack_tree(like)
    ways = [
        lambda rng, pool: struct.pack("<d", rng.choice(weights)) + mutated(rng, whole, pool),
        lambda rng, pool: struct.pack("<d", rng.choice(weights)) + pack_tree(_other_leaves(rng, like)),
    ]
    return Target(f"sums {name}".strip(), [struct.pack("<d", 10.0) + whole], decode, ways)


def targets() -> list[Target]:
    """All decoders that bytes from elsewhere can reach; most where most can go wrong."""
    return [*message_targets(), *15 * tensor_targets(), *8 * entry_targets(), *4 * codec_targets()]


# ---- the run -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Found:
    """What came of all messages; `broken` holds the first few that did what none may do, with the bytes to repeat them."""

    outcomes: Counter[str]
    broken: list[dict[str, str]]
    slowest: float = 0.0
    slowest_name: str = ""


def run(seed: int, count: int, every: Sequence[Target], note: Callable[[], None] = lambda: None) -> Found:
    """So many malformed messages, spread over the targets in turn; each is a function of the seed and its number."""
    result = Found(Counter(), [])
    pool = [data for target in every for data in target.valid]
    for i in range(count):
        rng, target = Random(seed << 32 | i), every[i % len(every)]
        data = target.malformed(rng, pool)
        start = time.process_time()
        outcome = tried(target, data)
        seconds = time.process_time() - start
        note()
        result.outcomes[outcome if outcome in ("taken", "refused") else "broken"] += 1
        if outcome not in ("taken", "refused") and len(result.broken) < 20:
            result.broken.append({"target": target.name, "what": outcome, "data": data[:4000].hex()})
        if seconds > result.slowest:
            result.slowest, result.slowest_name = seconds, f"{target.name}, message {i}, {len(data)} bytes"
    return result


def tried(target: Target, data: bytes) -> str:
    """What a decoder makes of these bytes: taken, refused, or what it must never do."""
    try:
        target.decode(data)
    except (Refused, BadInput):
        return "refused"
    except BaseException as error:  # also what no handler would catch
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "taken"


def peaks(seed: int, count: int, every: Sequence[Target]) -> tuple[int, str]:
    """The most memory that Python and numpy held for one message, beyond its own bytes."""
    worst = (0, "")
    pool = [data for target in every for data in target.valid]
    tracemalloc.start()
    for i in range(count):
        rng, target = Random(seed << 32 | i), every[i % len(every)]
        data = target.malformed(rng, pool)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        tried(target, data)
        worst = max(worst, (tracemalloc.get_traced_memory()[1] - before, target.name))
    tracemalloc.stop()
    return worst


def main(seed: int, count: int) -> None:
    """Fuzz, in little memory and under watch, and say what was found."""
    every = targets()
    for target in every:  # whatever is loaded at first use is loaded now
        for data in target.valid:
            target.decode(data)
    run(seed + 1, 10 * len(every), every)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    watched = Counter[str]()
    sys.addaudithook(lambda event, given: watched.update([f"{event} {str(given)[:80]}"]) if event in WATCHED else None)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    result = run(seed, count, every)
    seconds = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    acts = dict(watched)
    worst, where = peaks(seed, min(count // 10, 5000), every)
    kinds = {target.name for target in every}
    said = {
        "targets": len(kinds), "messages": count, "seconds": round(seconds, 1), "outcomes": dict(result.outcomes), "acts": acts,
        "broken": result.broken, "slowest": round(result.slowest, 4), "slowest_name": result.slowest_name, "grown_kb": grown,
        "peak": worst, "peak_name": where,
    }  # fmt: skip
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
