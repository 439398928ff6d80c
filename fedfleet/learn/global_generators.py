"""The global random generators of numpy, Python and torch: their states, other states, and a place to call foreign code in."""

from __future__ import annotations

import random
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np


def generator_states() -> dict[str, Any]:
    """The states of the global generators, as values that can be compared."""
    name, keys, *rest = np.random.get_state()
    result: dict[str, Any] = {"numpy": (name, np.asarray(keys).tobytes(), *rest), "random": random.getstate()}
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        result["torch"] = torch.get_rng_state().numpy().tobytes()
        if torch.cuda.is_initialized():
            result["cuda"] = tuple(state.numpy().tobytes() for state in torch.cuda.get_rng_state_all())
    return result


def seed_generators(number: int) -> None:
    """Other numbers from all global generators."""
    np.random.seed((7919 + number) % 2**32)
    random.seed(104729 + number)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        # Not torch.manual_seed, which keeps a note for every device that was never used.
        torch.default_generator.manual_seed(1299709 + number)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(1299709 + number)


def restore_generators(states: Mapping[str, Any]) -> None:
    """The inverse of `generator_states`."""
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, np.frombuffer(keys, np.uint32), *rest))
    random.setstate(states["random"])
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch" in states:
        torch.set_rng_state(_as_state(torch, states["torch"]))
        if "cuda" in states:
            torch.cuda.set_rng_state_all([_as_state(torch, state) for state in states["cuda"]])


def _as_state(torch: Any, state: bytes) -> Any:
    return torch.from_numpy(np.frombuffer(state, np.uint8).copy())


@contextmanager
def seeded_generators(number: int) -> Generator[None]:
    """Inside, the global generators begin at this number; at the end they are as before. For code that draws from them.

    >>> with seeded_generators(3):
    ...     first = random.random()
    >>> with seeded_generators(3):
    ...     random.random() == first
    True
    """
    before = generator_states()
    seed_generators(number)
    try:
        yield
    finally:
        restore_generators(before)
