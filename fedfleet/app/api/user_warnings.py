"""Warnings of a Python call, at the line of the user's script."""

from __future__ import annotations

import sys
import warnings

from fedfleet.app.runs.custom_task import UserInputs


def warn_user(message: str) -> None:
    """Warn at the first caller that is not FedFleet itself: the line of the user's script."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "fedfleet":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def warn_of_unseeded(inputs: UserInputs) -> None:
    """Warn of a module object with random weights that no seed decided, where what is made is kept and may be made again."""
    if inputs.model is None or inputs.weights is not None:
        return
    from fedfleet.tasks.fresh_weights import unseeded_weights

    if unseeded_weights(inputs.model):
        name = type(inputs.model).__name__
        warn_user(
            f"model: the first weights are those of the {name} that was given, which are random: two runs of this script give "
            "the same model only if it makes the same weights; pass the class or a function, and the seed decides, or call "
            "torch.manual_seed(0) before you make it"
        )
