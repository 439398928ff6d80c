"""When a difference counts: the rules by which a winner may be named."""

from __future__ import annotations

from fedfleet.app.studies.compare.records import Pair

LEAST_SEEDS = 3  # with two, equal differences by chance look certain
LEVEL = 0.05


def is_clear(pair: Pair) -> bool:
    """Is the difference of this pair one that chance does not explain? One that is alike on all seeds has no interval."""
    result = pair.paired
    if result is None or result.n < LEAST_SEEDS or pair.p is None:
        return False
    return (result.difference if result.low is None else result.low) > 0 and pair.p < LEVEL
