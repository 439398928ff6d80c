"""What can be put around any algorithm: each keyword of `featured` is a key of a spec's [algorithm] table."""

from __future__ import annotations

from fedfleet.core.folding import Fold
from fedfleet.core.parts import Algorithm
from fedfleet.learn.attacks import Attack, attacked
from fedfleet.learn.private import Privacy
from fedfleet.learn.robust import folded_by


def featured(
    algorithm: Algorithm, *, fold: Fold | None = None, attack: Attack | None = None, private: Privacy | None = None
) -> Algorithm:
    """The algorithm with everything around it that was asked for, innermost first; without any of it, the algorithm itself."""
    if fold is not None:
        algorithm = folded_by(algorithm, fold)
    if attack is not None:
        algorithm = attacked(algorithm, attack)
    return algorithm if private is None else private.around(algorithm)
