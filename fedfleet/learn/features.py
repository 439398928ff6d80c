"""What can be put around any algorithm: each keyword of `with_features` is a key of a spec's [algorithm] table."""

from __future__ import annotations

from dataclasses import replace

from fedfleet.core.aggregation import Fold
from fedfleet.core.codec import Codec
from fedfleet.core.limits import Epochs
from fedfleet.core.parts import Algorithm
from fedfleet.learn.attacks import Attack, with_attack
from fedfleet.learn.compression import with_compression
from fedfleet.learn.differential_privacy import Privacy
from fedfleet.learn.local_parameters import with_local_leaves
from fedfleet.learn.personalisation import with_fine_tuning
from fedfleet.learn.robust_folds import with_fold


def with_features(
    algorithm: Algorithm,
    *,
    fold: Fold | None = None,
    keep: str | None = None,
    fine_tune: Epochs | None = None,
    attack: Attack | None = None,
    private: Privacy | None = None,
    up: list[Codec] | None = None,
    down: list[Codec] | None = None,
    feedback: bool = False,
) -> Algorithm:
    """The algorithm with everything around it that was asked for, innermost first; without any of it, the algorithm itself."""
    if fold is not None:
        algorithm = with_fold(algorithm, fold)
    if keep is not None:
        algorithm = with_local_leaves(algorithm, keep=keep)
    if fine_tune is not None:
        algorithm = replace(with_fine_tuning(algorithm, tune_epochs=fine_tune), name=algorithm.name)
    if attack is not None:
        algorithm = with_attack(algorithm, attack)
    if private is not None:
        algorithm = private.around(algorithm)
    if up or down or feedback:
        algorithm = with_compression(algorithm, up=up or (), down=down or (), feedback=feedback)
    return algorithm
