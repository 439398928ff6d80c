"""What can be put around any algorithm: each keyword of `featured` is a key of a spec's [algorithm] table."""

from __future__ import annotations

from fedfleet.core.parts import Algorithm


def featured(algorithm: Algorithm) -> Algorithm:
    """The algorithm with everything around it that was asked for, innermost first; without any of it, the algorithm itself."""
    return algorithm
