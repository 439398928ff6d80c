"""Made-up data: samples of the right shape, seeded, learnable, the same everywhere, never used unasked; and generated strokes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.memory_limit import check_memory
from fedfleet.core.old_names import old_symbols
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import stream
from fedfleet.core.trees import Array

SAMPLES = 4000
MOST_NUMBERS = 2**24  # so that large images do not fill the memory unasked
OWNER_STYLE = 0.5  # how strongly the owner shows in a sample; the class counts 1, the noise 1
SUCCESSORS = (0.6, 0.25, 0.1)  # how likely a character's favourite successors are; the rest is anything


def synthetic_data(name: str, shape: tuple[int, ...], classes: int, owners: int = 100) -> Callable[[int | None], Dataset]:
    """Samples = a smooth pattern of their class + a fainter one of their owner + noise; classes and owners are balanced."""

    def make(samples: int | None) -> Dataset:
        n = samples or min(SAMPLES, MOST_NUMBERS // math.prod(shape))
        check_memory(
            12.0 * (n + classes + min(owners, n)) * math.prod(shape), f"task: {n} samples of {shape}", "use fewer or smaller ones"
        )
        rng = stream(0, f"synthetic/{name}")
        y, owner = _balanced_labels(rng, n, classes), _balanced_labels(rng, n, min(owners, n))
        means, styles = _patterns(rng, classes, shape), _patterns(rng, min(owners, n), shape)
        x = rng.standard_normal((n, *shape), dtype=np.float32)
        x += means[y]
        x += np.float32(OWNER_STYLE) * styles[owner]
        return Dataset(x, y, classes, owner)

    return make


def synthetic_text(name: str, length: int, symbols: int, owners: int = 100) -> Callable[[int | None], Dataset]:
    """Sequences of symbols in which each symbol has favourite successors; the label is the symbol that comes next."""

    def make(samples: int | None) -> Dataset:
        n = samples or SAMPLES
        check_memory(20.0 * n * (length + 1), f"task.samples: {n} texts of {length} characters", "use fewer")
        rng = stream(0, f"synthetic/{name}")
        favourites = rng.integers(symbols, size=(symbols, len(SUCCESSORS)))
        text = np.empty((n, length + 1), np.int64)
        text[:, 0] = rng.integers(symbols, size=n)
        for t in range(length):
            choice = np.searchsorted(np.cumsum(SUCCESSORS), rng.random(n))
            anything = rng.integers(symbols, size=n)
            likely = favourites[text[:, t], np.minimum(choice, len(SUCCESSORS) - 1)]
            text[:, t + 1] = np.where(choice < len(SUCCESSORS), likely, anything)
        owner = _balanced_labels(rng, n, min(owners, n))
        return Dataset(text[:, :length].copy(), text[:, length].copy(), symbols, owner)

    return make


def _balanced_labels(rng: np.random.Generator, n: int, kinds: int) -> Ints:
    return rng.permutation(np.arange(n) % kinds)


def _patterns(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """One smooth pattern of variance about 1 per kind: a few long waves across each channel."""
    channels, places = (shape[0], shape[1:]) if len(shape) > 1 else (1, shape)
    ones = (1,) * len(places)
    grid = np.meshgrid(*(np.linspace(0.0, 1.0, n) for n in places), indexing="ij")
    total = np.zeros((count, channels, *places), np.float32)
    for _ in range(4):
        phase = rng.uniform(0.0, 2 * np.pi, (count, channels, *ones))
        for along in grid:
            phase = phase + 2 * np.pi * rng.uniform(-2.5, 2.5, (count, channels, *ones)) * along
        total += np.cos(phase).astype(np.float32)
    return (total / np.float32(math.sqrt(2))).reshape(count, *shape)


# ---- generated strokes --------------------------------------------------------------------------------------------
# Pictures of made-up letters, to learn from what the data of no task show.

GLYPH_CLASSES, GLYPH_SAMPLES = 60, 12_000
_STROKES, _POINTS = 3, 8  # curves of a letter at most, and points along each
_BEND, _TURN, _SHIFT = 0.045, 0.2, 0.07  # how much hands differ: of a control point, in radians, of the whole
_ZOOM, _PEN = (0.8, 1.1), (0.035, 0.075)  # ranges, of the side
_CHUNK = 1 << 22  # distances that are held at once


def glyphs(shape: tuple[int, ...], *, classes: int = GLYPH_CLASSES, samples: int = GLYPH_SAMPLES) -> Dataset:
    """Letters of a made-up alphabet, each one to three curves, written by unsteady hands; grey, or in two random colours.

    >>> found = glyphs((1, 8, 8), classes=4, samples=20)
    >>> found.x.shape, found.x.dtype, np.bincount(found.y).tolist()
    ((20, 1, 8, 8), dtype('float32'), [5, 5, 5, 5])
    """
    channels, height, width = shape
    check_memory(8.0 * samples * math.prod(shape), f"{samples} generated pictures of {shape}", "use smaller ones")
    rng = stream(0, "glyphs", classes)
    alphabet = [_letter(rng) for _ in range(classes)]
    y = rng.permutation(np.arange(samples) % classes)
    ink = np.empty((samples, height, width), np.float32)
    for rows, curves, pen in _write_letters(rng, alphabet, y, height * width):
        ink[rows] = _draw_ink(curves, pen, height, width)
    if channels == 1:
        return Dataset(ink[:, None], y, classes)
    back, front = rng.uniform(0.0, 1.0, (2, samples, channels, 1, 1)).astype(np.float32)
    return Dataset(back + (front - back) * ink[:, None], y, classes)


def _letter(rng: np.random.Generator) -> Floats:
    """Control points of a letter's quadratic curves, [curves, 3, 2], in the unit square."""
    curves = rng.integers(1, _STROKES + 1)
    points = rng.uniform(0.12, 0.88, (curves, 3, 2))
    connected = rng.random(curves) < 0.6  # most pens go on where they are
    for i in range(1, curves):
        if connected[i]:
            points[i, 0] = points[i - 1, 2]
    return points


def _write_letters(rng: np.random.Generator, alphabet: list[Floats], y: Ints, places: int) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Letters of one kind at a time, bent, turned, zoomed and shifted: rows, points [n, curves, points, 2], pens [n]."""
    along = np.linspace(0.0, 1.0, _POINTS)[:, None]
    blend = np.concatenate([(1 - along) ** 2, 2 * along * (1 - along), along**2], 1)  # a quadratic curve
    for kind, letter in enumerate(alphabet):
        indices = np.flatnonzero(y == kind)
        step = max(1, _CHUNK // (places * len(letter) * _POINTS))
        for a in range(0, len(indices), step):
            rows = indices[a : a + step]
            n = len(rows)
            points = letter + rng.normal(0.0, _BEND, (n, *letter.shape)) - 0.5
            turn, zoom = rng.normal(0.0, _TURN, n), rng.uniform(*_ZOOM, n)
            c, s = zoom * np.cos(turn), zoom * np.sin(turn)
            points = np.einsum("ncpi,nij->ncpj", points, np.stack([np.stack([c, s], 1), np.stack([-s, c], 1)], 1))
            points += 0.5 + rng.normal(0.0, _SHIFT, (n, 1, 1, 2))
            yield rows, np.einsum("qp,ncpi->ncqi", blend, points), rng.uniform(*_PEN, n)


def _draw_ink(curves: Floats, pen: Floats, height: int, width: int) -> Floats:
    """Ink in [0, 1] at each place: full within the pen's width of a line, fading over half a pixel."""
    rows, columns = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    at = np.stack([columns.ravel(), rows.ravel()], 1).astype(np.float32)
    begin, end = (curves[:, :, part].reshape(len(curves), -1, 2).astype(np.float32) for part in (slice(-1), slice(1, None)))
    along = end - begin
    length = np.maximum((along**2).sum(2), 1e-12)[:, :, None]
    offset = at - begin[:, :, None]  # [n, lines, places, 2]
    share = np.clip((offset * along[:, :, None]).sum(3) / length, 0.0, 1.0)
    nearest = (((offset - share[..., None] * along[:, :, None]) ** 2).sum(3)).min(1) ** 0.5
    fade = 0.75 / min(height, width)
    return np.clip(1.0 - (nearest - pen[:, None].astype(np.float32)) / fade, 0.0, 1.0).reshape(-1, height, width)


if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, made_up="synthetic_data", made_up_text="synthetic_text")
