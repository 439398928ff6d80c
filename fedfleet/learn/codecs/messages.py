"""What is done with a codec: encode and decode one message, send a whole stack through, say how many bytes travel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedfleet.core.codec import Codec, Stack, is_coded
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.rng import UintArray, hash_keys
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import Array, Tree, mismatch

_GOLDEN = -7046029254386353131  # splitmix64's step as a signed integer, as in tasks.dropout
CHUNK_ELEMENTS = 1 << 24  # elements whose draws lie in memory together


def draws(where: Any, leaf: int, n: int) -> Iterator[tuple[slice, Any]]:
    """For groups of clients, 63-bit integers [clients, n], one for every element of their leaf of this number."""
    import torch

    from fedfleet.tasks.dropout import scramble

    base = scramble(where + (leaf + 1) * 0x51ED270B)
    elements = torch.arange(n, device=where.device, dtype=torch.int64) * _GOLDEN
    step = max(1, CHUNK_ELEMENTS // max(n, 1))
    for a in range(0, len(where), step):
        part = slice(a, a + step)
        yield part, scramble(base[part].reshape(-1, 1) + elements) & 0x7FFFFFFFFFFFFFFF


def uniforms(where: Any, leaf: int, n: int) -> Iterator[tuple[slice, Any]]:
    """The same as float32 numbers in [0, 1), of 24 bits each."""
    import torch

    for part, bits in draws(where, leaf, n):
        yield part, (bits >> 39).to(torch.float32) * 2.0**-24


def draws_of_one(address: int, leaf: int, n: int) -> UintArray:
    """The draws of one client, with numpy alone."""
    base = _scramble(np.array([(address + (leaf + 1) * 0x51ED270B) % 2**64], np.uint64))
    return _scramble(base + np.arange(n, dtype=np.uint64) * np.uint64(_GOLDEN % 2**64)) & np.uint64(0x7FFFFFFFFFFFFFFF)


def uniforms_of_one(address: int, leaf: int, n: int) -> Array:
    """The numbers in [0, 1) of one client, with numpy alone."""
    return (draws_of_one(address, leaf, n) >> np.uint64(39)).astype(np.float32) * np.float32(2.0**-24)


def _scramble(z: UintArray) -> UintArray:
    """The finaliser of splitmix64, as in tasks.dropout."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def addresses(seed: int, keys: UintArray, tasks: Array) -> Array:
    """One address per client, for codecs that draw: a function of seed, client and task, as int64."""
    return hash_keys(seed, "codec", keys, tasks).view(np.int64)


def encode(codec: Codec, tree: Tree, address: int = 0) -> Tree:
    """What travels instead of this tree, as typed arrays.

    >>> from fedfleet.learn.codecs.quantisation import int8
    >>> sent = encode(int8(), {"w": np.linspace(-1, 1, 255, dtype=np.float32), "steps": np.array(7)})
    >>> {name: (leaf.dtype.name, leaf.size) for name, leaf in sent.items()}
    {'steps': ('int64', 1), '|codes': ('uint8', 255), '|scales': ('float32', 1)}
    """
    check_accepts(codec, tree)
    if not tree:
        return {}
    squeezed = tree
    if codec.squeeze is not None:
        plain = {n: v for n, v in tree.items() if not is_coded(v)}
        squeezed = plain | _squeeze_numbers(codec, _numbers(tree), address)
    return squeezed if codec.pack is None else codec.pack(squeezed)


def decode(codec: Codec, tree: Tree, like: Tree) -> Tree:
    """The tree with the names, shapes and types of `like` that was encoded; whatever is wrong with it is `Refused`."""
    try:
        result = _decode(codec, tree, like)
    except (AttributeError, KeyError, IndexError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise Refused(f"it cannot be decoded by {codec.name} ({type(error).__name__}: {error})") from error
    problem = mismatch(result, like)
    if problem is not None:
        raise Refused(f"what {codec.name} makes of it does not fit: {problem}")
    return result


def _decode(codec: Codec, tree: Tree, like: Tree) -> Tree:
    if not like:
        return dict(tree)
    squeezed_like = layout(codec, like)
    squeezed = tree if codec.unpack is None else codec.unpack(tree, squeezed_like)
    problem = mismatch(squeezed, squeezed_like)
    if problem is not None:
        raise Refused(f"it was not made by {codec.name}: {problem}")
    if codec.expand is None:
        return {n: squeezed[n] for n in like}
    coded = _numbers(like)
    sent = {n: v for n, v in squeezed.items() if n not in like or n in coded}
    expanded = _expand_numbers(codec, sent, coded)
    return {n: expanded[n] if n in coded else squeezed[n] for n in like}


def _squeeze_numbers(codec: Codec, tree: Tree, address: int) -> Tree:
    """The lossy half of one message: with numpy if the codec can, else with PyTorch."""
    if codec.squeeze_tree is not None:
        with np.errstate(all="ignore"):  # what is not finite is said by the result
            return codec.squeeze_tree(tree, address)
    assert codec.squeeze is not None
    _require_torch(codec)
    return {n: v[0].numpy() for n, v in codec.squeeze(_stack(tree), _address(address)).items()}


def _expand_numbers(codec: Codec, tree: Tree, like: Tree) -> Tree:
    if codec.expand_tree is not None:
        with np.errstate(all="ignore"):
            return codec.expand_tree(tree, like)
    assert codec.expand is not None
    _require_torch(codec)
    return {n: v[0].numpy() for n, v in codec.expand(_stack(tree), like).items()}


def _require_torch(codec: Codec) -> None:
    if find_spec("torch") is None:
        raise BadInput(
            f"codec {codec.name!r} computes with PyTorch, which is not installed; install fedfleet[train], or choose another"
        )


def encode_bytes(codec: Codec, tree: Tree, address: int = 0) -> bytes:
    """The very bytes that travel: nothing, if there is nothing to say."""
    return pack_tree(encode(codec, tree, address)) if tree else b""


def decode_bytes(codec: Codec, data: bytes, like: Tree) -> Tree:
    """The inverse of `encode_bytes`, up to what the codec loses; `Refused` if the bytes are not what it sends."""
    return decode(codec, unpack_tree(data) if data else {}, like)


def round_trip(codec: Codec, stack: Stack, where: Array) -> dict[str, Any]:
    """A stack of torch tensors as it arrives, bit for bit what decode makes of encode; `where` holds the clients' addresses."""
    import torch

    floats = {n: stack[n] for n in sorted(stack) if stack[n].dtype == torch.float32}
    if codec.squeeze is None or not floats:
        return dict(stack)
    assert codec.expand is not None
    address_tensor = torch.from_numpy(where).to(next(iter(floats.values())).device)
    if codec.through is not None:
        return {**stack, **codec.through(floats, address_tensor)}
    like = {n: np.empty(v.shape[1:], np.float32) for n, v in floats.items()}
    return {**stack, **codec.expand(codec.squeeze(floats, address_tensor), like)}


def round_trip_trees(codec: Codec, trees: Sequence[Tree], where: Array) -> list[Tree]:
    """The trees of several clients as they arrive, sent through as one stack."""
    import torch

    stack = round_trip(codec, {n: torch.from_numpy(np.stack([t[n] for t in trees])) for n in trees[0]}, where)
    return [{n: v[c].numpy() for n, v in stack.items()} for c in range(len(trees))]


def nbytes(codec: Codec, like: Tree) -> float | None:
    """How many bytes such a tree takes when it travels; None if that depends on its values."""
    check_accepts(codec, like)
    return float(_size(codec, signature(like))) if codec.sized else None


def expected_nbytes(codec: Codec, like: Tree) -> float:
    """The bytes that can be told before the values are known: those of the codecs before the first that looks at values."""
    from fedfleet.learn.codecs.chain import chain

    sized_count = next((i for i, part in enumerate(codec.parts) if not part.sized), len(codec.parts))
    first = codec if codec.sized else chain(list(codec.parts[:sized_count]))
    size = None if first is None else nbytes(first, like)
    return float(sum(v.nbytes for v in like.values())) if size is None else size


def layout(codec: Codec, like: Tree) -> Tree:
    """Names, shapes and types of what `squeeze` makes of such a tree."""
    check_accepts(codec, like)
    return dict(_layout(codec, signature(like)))


Signature = tuple[tuple[str, tuple[int, ...], str], ...]


def signature(like: Tree) -> Signature:
    """Names, shapes and types as a value."""
    return tuple((n, tuple(like[n].shape), like[n].dtype.str) for n in sorted(like))


@lru_cache(maxsize=32)
def _size(codec: Codec, leaves: Signature) -> int:
    return len(encode_bytes(codec, {n: np.zeros(shape, kind) for n, shape, kind in leaves}))


@lru_cache(maxsize=32)
def _layout(codec: Codec, leaves: Signature) -> Tree:
    zeros = {n: np.zeros(shape, kind) for n, shape, kind in leaves}
    if codec.squeeze is None:
        return zeros
    return {n: v for n, v in zeros.items() if not is_coded(v)} | _squeeze_numbers(codec, _numbers(zeros), 0)


def check_accepts(codec: Codec, like: Tree) -> None:
    """Refuse a codec of numbers where no number that it could change travels."""
    if codec.squeeze is not None and like and not any(map(is_coded, like.values())):
        name, leaf = next(iter(like.items()))
        raise BadInput(
            f"codec {codec.name!r} changes float32 numbers, but none are sent here (leaf {name!r} is {leaf.dtype}); use gzip, "
            "deflate or zstd instead"
        )


def _numbers(tree: Tree) -> Tree:
    """The leaves that codecs change, by name: both ends must see them in one order, however their trees are laid out."""
    return {n: tree[n] for n in sorted(tree) if is_coded(tree[n])}


def _stack(tree: Tree) -> dict[str, Any]:
    import torch

    return {n: torch.from_numpy(np.array(v)).unsqueeze(0) for n, v in tree.items()}


def _address(address: int) -> Any:
    import torch

    return torch.tensor([address], dtype=torch.int64)
