"""Latencies as counts in logarithmic bins: quantiles of any number of calls in a fixed room, which add up over processes."""

from __future__ import annotations

import math
from collections.abc import Iterable

_LEAST = 1e-5  # seconds; a bin is 4 % wide
_PER_E = 25


class Latency:
    """Counts by bin; a class, since it is added to with every call.

    >>> seen = Latency()
    >>> for _ in range(99): seen.add(0.010)
    >>> seen.add(1.0)
    >>> round(seen.quantile(0.5), 3), round(seen.quantile(1.0), 1)
    (0.01, 1.0)
    """

    def __init__(self, bins: dict[int, int] | None = None) -> None:
        self.bins: dict[int, int] = {} if bins is None else bins

    def add(self, seconds: float) -> None:
        """One call took so long."""
        place = int(math.log(max(seconds, _LEAST) / _LEAST) * _PER_E)
        self.bins[place] = self.bins.get(place, 0) + 1

    def count(self) -> int:
        """How many calls there were."""
        return sum(self.bins.values())

    def quantile(self, share: float) -> float:
        """The seconds within which this share of the calls was answered; 0 if there was none."""
        remaining = share * self.count()
        for place in sorted(self.bins):
            remaining -= self.bins[place]
            if remaining <= 1e-9:
                return _LEAST * math.exp((place + 0.5) / _PER_E)
        return 0.0

    def to_json(self) -> dict[str, int]:
        """As JSON: bins by their numbers."""
        return {str(place): n for place, n in sorted(self.bins.items())}


def merge(many: Iterable[dict[str, int]]) -> Latency:
    """The latencies of several processes as one."""
    total = Latency()
    for bins in many:
        for place, n in bins.items():
            total.bins[int(place)] = total.bins.get(int(place), 0) + n
    return total
