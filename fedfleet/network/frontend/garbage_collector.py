"""Garbage: how often a process that holds thousands of calls looks for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = 50_000, 20, 50  # objects more than before, then how many looks among the newest to one among older ones


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Look for cycles of garbage every 50,000 objects, not every 700, and never among those that are there already.

    Calls that are open are thousands of objects, none of them garbage; to look through them again and again takes a tenth of a
    transmitter's time, and keeps whoever waits waiting.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
