"""Numbers and lists as text for people: short, with units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def metrics_text(metrics: Mapping[str, Any]) -> str:
    """All measures, one per line."""
    width = max(map(len, metrics))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in metrics.items())


def failure_lines(failed: Mapping[str, float]) -> list[str]:
    """How many rounds failed, by reason; nothing if none did.

    >>> failure_lines({"too few reports": 2})
    ['failed rounds: 2 (2 x too few reports)']
    """
    if not failed:
        return []
    reasons = "; ".join(f"{n:.0f} x {reason}" for reason, n in failed.items())
    return [f"failed rounds: {sum(failed.values()):.0f} ({reasons})"]


def join_words(words: Sequence[str], most: int | None = None) -> str:
    """Words as a list in a sentence; of more than `most` the first so many, and how many more.

    >>> join_words([]), join_words(["a"]), join_words(["a", "b"]), join_words(["a", "b", "c"]), join_words(["a", "b", "c"], most=2)
    ('', 'a', 'a and b', 'a, b and c', 'a, b and 1 more')
    """
    if most is not None and len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def percent(x: float | None) -> str:
    """0.9123 as 91.2 %."""
    return "-" if x is None else f"{100 * x:.1f} %"


def span(seconds: float) -> str:
    """Seconds in a convenient unit."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def size(nbytes: float) -> str:
    """Bytes in a convenient unit."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= length:
            return f"{nbytes / length:.1f} {unit}"
    return f"{nbytes:.0f} B"


def joules(x: float) -> str:
    """Joules in a convenient unit."""
    for unit, length in (("GJ", 1e9), ("MJ", 1e6), ("kJ", 1e3)):
        if x >= length:
            return f"{x / length:.1f} {unit}"
    return f"{x:.0f} J"
