"""What can be put around any algorithm: each keyword of `featured` is a key of a spec's [algorithm] table."""

from __future__ import annotations

from dataclasses import replace

from fedfleet.core.aggregation import Fold
from fedfleet.core.codec import Codec
from fedfleet.core.limits import Epochs
from fedfleet.core.parts import Algorithm
from fedfleet.learn.attacks import Attack, attacked
from fedfleet.learn.compression import compressed
from fedfleet.learn.differential_privacy import Privacy
from fedfleet.learn.local_parameters import personalised
from fedfleet.learn.personalisation import fine_tuned
from fedfleet.learn.robust_folds import folded_by


def featured(
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
        algorithm = folded_by(algorithm, fold)
    if keep is not None:
        algorithm = personalised(algorithm, keep=keep)
    if fine_tune is not None:
        algorithm = replace(fine_tuned(algorithm, tune_epochs=fine_tune), name=algorithm.name)
    if attack is not None:
        algorithm = attacked(algorithm, attack)
    if private is not None:
        algorithm = private.around(algorithm)
    if up or down or feedback:
        algorithm = compressed(algorithm, up=up or (), down=down or (), feedback=feedback)
    return algorithm
