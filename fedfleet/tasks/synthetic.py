"""Made-up data of the right shape: seeded, learnable, the same on every machine, and never used unasked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.memory_limit import check_memory
from fedfleet.core.old_names import old_symbols
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Ints
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


if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, made_up="synthetic_data", made_up_text="synthetic_text")
