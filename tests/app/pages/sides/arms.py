"""Arms of comparisons made by hand."""

from pathlib import Path

import numpy as np

from fedfleet.app.studies.compare.records import Arm, ComparedRun


def compared(accuracy, *, seed=0, end=None, name="run", table=None):
    """A run whose evaluations are a minute apart."""
    seconds = 60.0 * np.arange(len(accuracy))
    table = {"task": {"use": "digits_mlp"}, "seed": seed, **(table or {})}
    last = float(seconds[-1]) if end is None else end
    return ComparedRun(
        name,
        Path(name),
        table,
        seed,
        {"accuracy": accuracy[-1], "chance": 0.1},
        seconds,
        np.array(accuracy, float),
        True,
        last,
        0.0,
        360,
        "d",
    )


def arm(name, *ends, keys=None, end=None):
    """An arm whose seeds end at these accuracies."""
    return Arm(name, keys or {}, tuple(compared([0.1, v], seed=i, end=end, name=f"{name}-{i}") for i, v in enumerate(ends)))
