"""Fewer bits a number: integers of 2 to 8 bits with stochastic rounding, and floats of 16 bits.

Jacob et al. 2018 (symmetric, per channel); Alistarh et al. 2017 for stochastic rounding. With L = 2^(b-1) - 1 and
s = max|x| / L over a channel, what travels is q = round(x / s) in -L .. L, and x' = q s. A channel is what one entry of the leading
axis holds; leaves of one dimension, and those with fewer than 16 numbers in a channel, have one scale. Leaves of fewer than 16
numbers travel as they are: a scale and its name would be longer. A channel with a number that is not finite arrives as NaN, so that
the report is refused.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from fedfleet.core.codec import Codec, Stack
from fedfleet.core.trees import Array, Tree
from fedfleet.learn.codecs.messages import uniforms, uniforms_of_one

Rounding = Literal["nearest", "stochastic"]
CODES, SCALES = "|codes", "|scales"
SMALL = 16  # numbers below which a scale does not pay


def _int_codec(bits: int) -> Callable[..., Codec]:
    def build(*, rounding: Rounding = "nearest") -> Codec:
        return Codec(
            f"int{bits}",
            (("rounding", rounding),),
            "round",
            within=lambda tree: _error_bounds(tree, bits, rounding),
            addressed=rounding == "stochastic",
            squeeze=lambda stack, where: _squeeze(stack, where, bits, rounding),
            expand=_expand,
            pack=lambda tree: {**tree, CODES: _pack_bits(tree[CODES], bits)} if CODES in tree else tree,
            unpack=lambda tree, like: _unpack_bits(tree, like, bits),
            through=lambda stack, where: _through(stack, where, bits, rounding),
            squeeze_tree=lambda tree, address: _squeeze_tree(tree, address, bits, rounding),
            expand_tree=_expand_tree,
        )

    build.__name__ = build.__qualname__ = f"int{bits}"
    build.__doc__ = (
        f"Integers of {bits} bits with a scale for each channel (the leading axis): about {bits}/32 of the bytes.\n\n"
        "`rounding`: to the nearest level, or stochastic, which is right on average; its draws are addressed by seed, client, "
        "task and element.\n\nMeant with `feedback = true` for 4 bits and less."
    )
    return build


int2, int3, int4, int5, int6, int7, int8 = (_int_codec(bits) for bits in range(2, 9))


def channels(shape: tuple[int, ...]) -> int:
    """How many scales a leaf of this shape has; none if it travels as it is.

    >>> channels((64, 32, 5, 5)), channels((1024,)), channels((100, 2)), channels((3,))
    (64, 1, 1, 0)
    """
    size = math.prod(shape)
    if size < SMALL:
        return 0
    return shape[0] if len(shape) > 1 and size >= SMALL * shape[0] else 1


def _quantise(flat: Any, where: Any, leaf: int, bits: int, rounding: Rounding) -> tuple[Any, Any]:
    """The integers of one leaf as floats, and its scales; `flat` is [clients, channels, numbers]."""
    max_level = float(2 ** (bits - 1) - 1)
    peaks = flat.abs().amax(2)
    scales = peaks / peaks.new_full((), max_level)  # a tensor there: by a number accelerators multiply with its reciprocal
    levels = flat / scales.where(scales != 0, scales.new_ones(())).unsqueeze(2)
    if rounding == "stochastic":
        flat_levels = levels.reshape(len(levels), -1)
        for part, noise in uniforms(where, leaf, flat_levels.shape[1]):
            flat_levels[part] = (flat_levels[part] + noise).floor_()
        levels = flat_levels.reshape(levels.shape)
    else:
        levels = levels.round_()
    return levels.clamp_(-max_level, max_level).add_(0.0), scales  # plus zero: no integer is minus zero


def _leaves(stack: Stack) -> list[tuple[str, int, Any]]:
    """The leaves that are rounded: name, number, and their numbers by channel."""
    result: list[tuple[str, int, Any]] = []
    for number, (name, value) in enumerate(stack.items()):
        n = channels(tuple(value.shape[1:]))
        if n:
            result.append((name, number, value.reshape(len(value), n, -1)))
    return result


def _squeeze(stack: Stack, where: Any, bits: int, rounding: Rounding) -> Stack:
    import torch

    coded: list[Any] = []
    scales: list[Any] = []
    leaves = _leaves(stack)
    for _, number, flat in leaves:
        levels, scale = _quantise(flat, where, number, bits, rounding)
        coded.append(torch.nan_to_num(levels, 0.0).to(torch.int8).flatten(1))  # the scale says that it was not finite
        scales.append(scale)
    rest = {n: v for n, v in stack.items() if all(n != name for name, _, _ in leaves)}
    return {**rest, CODES: torch.cat(coded, 1), SCALES: torch.cat(scales, 1)} if leaves else rest


def _expand(stack: Stack, like: Tree) -> Stack:
    result, at, channel = {}, 0, 0
    for name, leaf in like.items():
        n = channels(leaf.shape)
        if not n:
            result[name] = stack[name]
            continue
        levels = stack[CODES][:, at : at + leaf.size].reshape(-1, n, leaf.size // n).float()
        result[name] = (levels * stack[SCALES][:, channel : channel + n].unsqueeze(2)).reshape(-1, *leaf.shape)
        at, channel = at + leaf.size, channel + n
    return result


def _through(stack: Stack, where: Any, bits: int, rounding: Rounding) -> Stack:
    result = dict(stack)
    for name, number, flat in _leaves(stack):
        levels, scales = _quantise(flat, where, number, bits, rounding)
        result[name] = levels.mul_(scales.unsqueeze(2)).reshape(stack[name].shape)
    return result


# ---- one message, with numpy alone --------------------------------------------------------------------------------


def _squeeze_tree(tree: Tree, address: int, bits: int, rounding: Rounding) -> Tree:
    rest, coded, scales = dict(tree), list[Array](), list[Array]()
    for number, (name, leaf) in enumerate(tree.items()):
        n = channels(leaf.shape)
        if n:
            levels, scale = _quantise_leaf(leaf.reshape(n, -1), address, number, bits, rounding)
            coded.append(np.nan_to_num(levels, nan=0.0).astype(np.int8).reshape(-1))
            scales.append(scale)
            del rest[name]
    return {**rest, CODES: np.concatenate(coded), SCALES: np.concatenate(scales)} if coded else rest


def _quantise_leaf(flat: Array, address: int, number: int, bits: int, rounding: Rounding) -> tuple[Array, Array]:
    """The integers of one leaf as floats [channels, numbers], and its scales."""
    max_level = np.float32(2 ** (bits - 1) - 1)
    scales = np.abs(flat).max(1) / max_level
    levels = flat / np.where(scales != 0, scales, np.float32(1))[:, None]
    if rounding == "stochastic":
        levels = np.floor(levels + uniforms_of_one(address, number, levels.size).reshape(levels.shape))
    else:
        levels = np.rint(levels)
    return np.clip(levels, -max_level, max_level) + np.float32(0), scales


def _expand_tree(tree: Tree, like: Tree) -> Tree:
    result, at, channel = dict[str, Array](), 0, 0
    for name, leaf in like.items():
        n = channels(leaf.shape)
        if not n:
            result[name] = tree[name]
            continue
        levels = tree[CODES][at : at + leaf.size].reshape(n, leaf.size // n).astype(np.float32)
        levels *= tree[SCALES][channel : channel + n][:, None]
        result[name] = levels.reshape(leaf.shape)
        at, channel = at + leaf.size, channel + n
    return result


def _error_bounds(tree: Tree, bits: int, rounding: Rounding) -> Tree:
    """Half a step of the scale, or a whole one; a little more for rounding in single precision."""
    share = (0.5 if rounding == "nearest" else 1.0) / (2 ** (bits - 1) - 1)
    result: Tree = {}
    for name, leaf in tree.items():
        n = channels(leaf.shape) if leaf.dtype == np.float32 else 0
        magnitudes = np.abs(leaf.astype(np.float64)).reshape(n or 1, -1)
        peaks = magnitudes.max(1, keepdims=True, initial=0.0) if n else np.zeros((1, 1))
        result[name] = np.broadcast_to(peaks * (share + 1e-6) + (1e-37 if n else 0.0), magnitudes.shape).reshape(leaf.shape)
    return result


# ---- bits side by side --------------------------------------------------------------------------------------------


def _pack_bits(levels: Array, bits: int) -> Array:
    """Integers of that many bits as bytes: eight of them are `bits` bytes."""
    n = len(levels)
    unsigned = np.zeros(-(-n // 8) * 8, np.uint64)
    unsigned[:n] = (levels.astype(np.int16) + (2 ** (bits - 1) - 1)).astype(np.uint64)
    groups = unsigned.reshape(-1, 8)
    words = np.zeros(len(groups), "<u8")
    for i in range(8):
        words |= groups[:, i] << np.uint64(bits * i)
    return words.view(np.uint8).reshape(-1, 8)[:, :bits].reshape(-1)[: -(-n * bits // 8)].copy()


def _unpack_bits(tree: Tree, like: Tree, bits: int) -> Tree:
    """The integers that lie side by side."""
    if CODES not in like:
        return tree
    n, data = len(like[CODES]), tree[CODES]
    if data.dtype != np.uint8 or data.shape != (-(-n * bits // 8),):
        raise ValueError(f"{n} integers of {bits} bits are {-(-n * bits // 8)} bytes")
    padded = np.zeros(-(-n // 8) * bits, np.uint8)
    padded[: len(data)] = data
    rows = np.zeros((len(padded) // bits, 8), np.uint8)
    rows[:, :bits] = padded.reshape(-1, bits)
    words = rows.view("<u8").reshape(-1)
    mask = np.uint64(2**bits - 1)
    levels = np.stack([(words >> np.uint64(bits * i)) & mask for i in range(8)], 1).reshape(-1)[:n]
    return {**tree, CODES: (levels.astype(np.int16) - (2 ** (bits - 1) - 1)).astype(np.int8)}


def fp16() -> Codec:
    """IEEE half precision: 11 bits of precision; beyond 65,504 numbers become infinite, and such a report is refused."""
    return _half(
        "fp16", "float16", lambda v: np.where(np.abs(v) >= 65520.0, np.inf, np.abs(v) * 2.0**-11 + 2.0**-25),
        lambda v: v.astype(np.float16), _from_halves,
    )  # fmt: skip


def _from_halves(leaf: Array) -> Array:
    """Numpy converts one by one; PyTorch, where it is loaded anyway as on a server, several at a time to the same bits."""
    torch: Any = sys.modules.get("torch")
    return leaf.astype(np.float32) if torch is None else torch.from_numpy(np.require(leaf, requirements="W")).float().numpy()


def bf16() -> Codec:
    """Brain floats: 8 bits of precision and the whole range of float32, as integers of 16 bits."""
    # Above the largest such float, halfway to where the next would be, rounding gives infinity.
    return _half(
        "bf16", "bfloat16", lambda v: np.where(np.abs(v) > 3.3895e38, np.inf, np.abs(v) * 2.0**-8 + 1e-40),
        _to_brain_floats, _from_brain_floats,
    )  # fmt: skip


def _to_brain_floats(leaf: Array) -> Array:
    """The upper halves of the bits, rounded to the nearest, of two to the even one."""
    bits = np.asarray(leaf, order="C").view(np.uint32)
    rounded = ((bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16).astype(np.uint16)
    return np.where(np.isnan(leaf), np.uint16(0x7FC0), rounded).view(np.int16)


def _from_brain_floats(leaf: Array) -> Array:
    return np.asarray(np.asarray(leaf, order="C").view(np.uint16).astype(np.uint32) << 16).view(np.float32)


LeafChange = Callable[[Array], Array]


def _half(name: str, kind_name: str, error: Any, shorten: LeafChange, lengthen: LeafChange) -> Codec:
    def squeeze(stack: Stack, _where: Any) -> Stack:
        import torch

        # Numpy has no brain floats: they travel as the integers that their bits are.
        kind = getattr(torch, kind_name)
        return {n: v.to(kind) if kind is torch.float16 else v.to(kind).view(torch.int16) for n, v in stack.items()}

    def expand(stack: Stack, like: Tree) -> Stack:
        import torch

        return {n: stack[n].view(getattr(torch, kind_name)).to(torch.float32) for n in like}

    def through(stack: Stack, _where: Any) -> Stack:
        import torch

        return {n: v.to(getattr(torch, kind_name)).to(torch.float32) for n, v in stack.items()}

    def within(tree: Tree) -> Tree:
        return {n: error(v.astype(np.float64)) if v.dtype == np.float32 else np.zeros(v.shape) for n, v in tree.items()}

    return Codec(
        name, (), "round", within, squeeze=squeeze, expand=expand, through=through,
        squeeze_tree=lambda tree, _address: {n: shorten(v) for n, v in tree.items()},
        expand_tree=lambda tree, like: {n: lengthen(tree[n]) for n in like},
    )  # fmt: skip
