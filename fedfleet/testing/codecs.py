"""Conformance of codecs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedfleet.core.codec import Codec, is_coded
from fedfleet.core.errors import Refused
from fedfleet.core.rng import stream
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import Tree, content_hash, mismatch
from fedfleet.learn.codecs.messages import decode, decode_bytes, encode, encode_bytes, nbytes, round_trip_trees
from fedfleet.testing.conformance import CheckLog, Conformance
from fedfleet.testing.surroundings import Surroundings, turns

_SMALLEST = 1e-37  # numbers below are hardly there in single precision
_SHAPES = {"conv": (8, 3, 5, 5), "dense": (40, 30), "bias": (40,), "few": (3,), "scalar": (), "none": (0, 4)}


def check_codec(codec: Codec, *, quiet: bool = False) -> Conformance:
    """What is decoded is what was encoded, within the codec's promise; bytes are as many as it says; stacks change no bit.

    Leaves of other types, scalars and empty leaves survive; garbled bytes are refused; what is not finite stays so. What was
    checked is printed, unless `quiet`.
    """
    assert codec == codec and isinstance(hash(codec), int), "a codec must be a value, or no two clients train together"
    log, around = CheckLog(f"codec {codec.name!r}"), Surroundings(codec)
    sent: list[tuple[str, Tree, int, bytes]] = []
    with around(1, leaves_generators="a codec"):
        for what, tree in trees():
            before = content_hash(tree)
            sent += [(what, tree, address, _check_one(codec, tree, address, what)) for address in (3, -(2**62))]
            assert content_hash(tree) == before, "encoding must not change what it is given"
    log.answer([data for *_, data in sent])
    log.checked("every kind of update arrives within the promise, in as many bytes as it says; other leaves to the last bit")
    for number, group in turns(sent[::-1]):
        with around(number, leaves_generators="a codec"):
            for what, tree, address, data in group:
                assert encode_bytes(codec, tree, address) == data, (
                    f"{codec.name} on {what}: the same tree and address must give the same bytes, at any time; draw by the "
                    "addresses that `squeeze` gets (`addressed`), and remember nothing: error feedback is the client's memory"
                )
    log.checked("the same tree and address give the same bytes again, with other global generators and clocks")
    all_trees = [tree for _, tree in trees()]
    _check_stack(codec, all_trees)
    log.checked("clients in a stack do not change each other's bits")
    _check_garbled_bytes(codec, all_trees[0])
    log.checked("garbled bytes are refused with a reason")
    for bad in (np.nan, np.inf, -np.inf):
        bad_tree = {**all_trees[0], "dense": all_trees[0]["dense"].copy()}
        bad_tree["dense"][3, 4] = bad
        with np.errstate(all="ignore"):
            decoded = decode(codec, encode(codec, bad_tree, 3), bad_tree)
        assert not all(np.isfinite(v).all() for v in decoded.values()), (
            f"{codec.name}: an update that is not finite must arrive so, or nobody refuses it"
        )
    log.checked("what is not finite does not become so")
    return log.end(quiet)


def trees() -> Iterator[tuple[str, Tree]]:
    """Updates of every kind that a codec may meet."""
    rng = stream(5, "codec")
    like = {n: np.zeros(shape, np.float32) for n, shape in _SHAPES.items()}
    others = {"steps": np.array(7), "mask": np.array([True, False]), "wide": np.linspace(0, 1, 5)}
    noise = {n: rng.standard_normal(v.shape).astype(np.float32) * np.float32(0.01) for n, v in like.items()}
    yield "noise", {**noise, **others}
    yield "zeros", {**like, **others}
    yield "equal numbers", {**{n: np.full_like(v, -0.5) for n, v in like.items()}, **others}
    yield "few numbers", {**{n: np.where(np.abs(v) > 0.02, v, np.float32(0)) for n, v in noise.items()}, **others}
    yield ("far apart", {**{n: v * np.float32(10) ** np.clip(np.round(v * 1000), -30, 30) for n, v in noise.items()}, **others})


def _check_one(codec: Codec, tree: Tree, address: int, what: str) -> bytes:
    where, encoded, data = f"{codec.name} on {what}", encode(codec, tree, address), encode_bytes(codec, tree, address)
    assert data == pack_tree(encoded) == encode_bytes(codec, tree, address), (
        f"{where}: the same tree must give the same bytes: no chance but by the addresses, no memory"
    )
    assert nbytes(codec, tree) in (None, float(len(data))), (
        f"{where}: it says another number of bytes than it sends, {nbytes(codec, tree)} and {len(data)}; where values decide, say "
        "sized = False"
    )
    assert codec.sized == (nbytes(codec, tree) is not None), f"{where}: a codec of fixed size must say that size"
    decoded = decode(codec, encoded, tree)
    assert content_hash(decoded) == content_hash(decode_bytes(codec, data, tree)), f"{where}: bytes and trees must agree"
    assert mismatch(decoded, tree) is None and list(decoded) == list(tree), f"{where}: {mismatch(decoded, tree)}"
    bounds = codec.within(tree)
    for name, leaf in tree.items():
        if codec.squeeze is None or not is_coded(leaf):
            assert decoded[name].tobytes() == leaf.tobytes(), f"{where}: leaf {name!r} must survive to the last bit"
            continue
        error = np.abs(decoded[name].astype(np.float64) - leaf)
        in_bounds = (error <= bounds[name] + _SMALLEST) | np.isinf(bounds[name])
        assert in_bounds.all(), f"{where}: leaf {name!r} is {error.max()} off, beyond its promise"
    return data


def _check_stack(codec: Codec, clients: list[Tree]) -> None:
    where = np.array([7919 * (i + 1) - 2**61 for i in range(len(clients))], np.int64)
    stack = round_trip_trees(codec, clients, where)
    for c, tree in enumerate(clients):
        alone = decode(codec, encode(codec, tree, int(where[c])), tree)
        for name, leaf in alone.items():
            same = stack[c][name].tobytes() == leaf.tobytes()
            assert same, f"{codec.name}: leaf {name!r} of a stack must be what decode makes of encode, bit for bit"


def _check_garbled_bytes(codec: Codec, tree: Tree) -> None:
    data, encoded = encode_bytes(codec, tree, 3), encode(codec, tree, 3)
    all_garbled = [b"\x80\x04K\x01.", data[:-1], data[: len(data) // 2], data + b"x", pack_tree({"odd": np.zeros(3)})]
    all_garbled += [pack_tree({n: v[..., :-1] if v.ndim else v for n, v in encoded.items()})]
    all_garbled += [pack_tree({n: v for n, v in encoded.items() if n != left_out}) for left_out in encoded]
    for garbled in all_garbled:
        try:
            decode_bytes(codec, garbled, tree)
        except Refused:
            continue
        raise AssertionError(f"{codec.name}: garbled bytes must be refused with a reason")
    assert unpack_tree(data).keys() == encoded.keys()
