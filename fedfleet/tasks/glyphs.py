"""Generated strokes: pictures of made-up letters, to learn from what the data of no task show."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedfleet.core.memory_limit import check_memory
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import stream

CLASSES, SAMPLES = 60, 12_000
_STROKES, _POINTS = 3, 8  # curves of a letter at most, and points along each
_BEND, _TURN, _SHIFT = 0.045, 0.2, 0.07  # how much hands differ: of a control point, in radians, of the whole
_ZOOM, _PEN = (0.8, 1.1), (0.035, 0.075)  # ranges, of the side
_CHUNK = 1 << 22  # distances that are held at once


def glyphs(shape: tuple[int, ...], *, classes: int = CLASSES, samples: int = SAMPLES) -> Dataset:
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
