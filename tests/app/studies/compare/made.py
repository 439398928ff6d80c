"""Runs to compare that nobody trained: specs and curves as a test wants them."""

from pathlib import Path

import numpy as np

from fedfleet.app.studies.compare.records import ComparedRun


def made(seed=1, curve=((10.0, 0.5),), *, end=None, ended=True, name=None, first=..., tested=400, metrics=None, **tables):
    """A run of these tables (task is digits_mlp) with a curve of (seconds, accuracy)."""
    table = {
        "seed": seed, "task": {"use": "digits_mlp"}, "pace": {"use": "readiness"}, "stop": {"rounds": 3}, "run": {"threads": seed},
        **tables,
    }  # fmt: skip
    seconds, accuracy = (np.array([point[i] for point in curve], float) for i in (0, 1))
    name = name or f"{table['pace']['use']}-{seed}"
    return ComparedRun(
        name=name, out=Path("runs") / name, table=table, seed=seed,
        metrics={"chance": 0.1, "bytes_down": 1000.0, "bytes_up": 500.0, "rounds": 3, "commits": len(curve), **(metrics or {})},
        seconds=seconds, accuracy=accuracy, ended=ended, end=(seconds[-1] if len(seconds) else 0.0) if end is None else end,
        first=(seconds[0] if len(seconds) else None) if first is ... else first, tested=tested if len(seconds) else 0,
        digest=name,
    )  # fmt: skip


def waiting(seed, *points, **more):
    """A run that waits for everybody."""
    return made(seed, points, **more)


def hurried(seed, *points, **more):
    """A run with a deadline."""
    return made(seed, points, pace={"use": "deadline", "seconds": 60.0}, **more)
