"""Which of many like cases `make test` tries, and which only `make soak`: there each part of a product, here all pairs of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

SOAK = bool(os.environ.get("FEDFLEET_SOAK"))


def diagonals(*axes: Iterable[Any], every: int) -> list[Any]:
    """The product of these axes for `parametrize`; what does not lie on every so-manieth diagonal is marked for the soak.

    Each value of an axis stays in `make test` while another axis has at least `every` values; so does each pair of neighbours.
    """
    result: list[Any] = []
    for cell in itertools.product(*(list(enumerate(axis)) for axis in axes)):
        kept = sum(index for index, _ in cell) % every == 0
        result.append(pytest.param(*(value for _, value in cell), marks=() if kept else pytest.mark.soak))
    return result


def in_soak(case: Any) -> Any:
    """This case of `parametrize`, one value, only in the soak."""
    return pytest.param(case, marks=pytest.mark.soak)


def examples(few: int, *, soak: int, base: settings | None = None, **more: Any) -> Callable[[Any], Any]:
    """So many examples of hypothesis, and in the soak, which then runs this test too, more of them."""
    chosen = settings(base, max_examples=soak if SOAK else few, **more)

    def decorate(test: Any) -> Any:
        return pytest.mark.soak(chosen(test)) if SOAK else chosen(test)

    return decorate
