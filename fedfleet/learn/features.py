"""What can be put around any algorithm: each keyword of `featured` is a key of a spec's [algorithm] table."""

from __future__ import annotations

from fedfleet.core.coding import Codec
from fedfleet.core.parts import Algorithm
from fedfleet.learn.compression import compressed


def featured(
    algorithm: Algorithm,
    *,
    up: list[Codec] | None = None,
    down: list[Codec] | None = None,
    feedback: bool = False,
) -> Algorithm:
    """The algorithm with everything around it that was asked for, innermost first; without any of it, the algorithm itself."""
    if up or down or feedback:
        algorithm = compressed(algorithm, up=up or (), down=down or (), feedback=feedback)
    return algorithm
