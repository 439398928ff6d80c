"""Keeping large blocks of memory: the C library returns them at once, and every round would pay for their pages again."""

from __future__ import annotations

import ctypes
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's mallopt
_LARGEST = 32 << 20  # what glibc allows


@cache
def keep_large_blocks() -> bool:
    """Ask the C library to keep blocks of up to 32 MB for the next time; False where it is another one than glibc.

    A model of 5 MB that is made anew in every round costs 3 ms of page faults each time, and a fifth of that when kept.
    """
    try:
        library = ctypes.CDLL("libc.so.6")
        return bool(library.mallopt(_MMAP_THRESHOLD, _LARGEST) and library.mallopt(_TRIM_THRESHOLD, 16 * _LARGEST))
    except (OSError, AttributeError):
        return False
