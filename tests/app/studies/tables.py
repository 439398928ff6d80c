"""A small study, and runs of it that nobody ran: what tests of studies share."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.grid.quantities import Aims
from fedfleet.app.studies.grid.study_file import study_of
from fedfleet.app.studies.grid.study_runs import StudyRun, expand_study

BASE = {
    "task": {"use": "digits_logreg"},
    "world": {"clients": 12, "devices": {"use": "spread"}},
    "pace": {"cohort": 4},
    "stop": {"rounds": 3},
    "run": {"checkpoint_every": 1},
}
LRS = {"base": BASE, "seeds": [0, 1], "grid": {"algorithm.lr": [0.05, 0.1]}}


def asked(**more):
    """The small study, changed."""
    return study_of({**LRS, **more})


def run(cell, accuracy, *, seconds=(0.0, 10.0, 20.0), curve=None, commits=3, **metrics):
    """A run of this cell that ended so; by default it is tried at three times, at the last of which it has this accuracy."""
    values = [0.1, accuracy / 2, accuracy] if curve is None else curve
    result = {
        "accuracy": values[-1], "virtual_seconds": seconds[-1], "commits": commits, "rounds": 3, "bytes_up": 1000.0,
        "bytes_down": 2000.0, "wall_seconds": 0.5, "failed_rounds": {}, "chance": 0.1, "participation": {"never": 2}, **metrics,
    }  # fmt: skip
    return ComparedRun(
        name=cell.title, out=Path("runs") / cell.title, table=cell.spec.table(), seed=cell.seed, metrics=result,
        seconds=np.array(seconds), accuracy=np.array(values), ended=True, end=float(seconds[-1]), first=10.0, tested=100,
        digest=f"digest of {cell.title}",
    )  # fmt: skip


def ran(study, accuracies, **more):
    """The study's runs, ended with these accuracies in the order of the file; None: it could not be run."""
    cells = expand_study(study)
    return [
        StudyRun(c, Path("runs") / c.title, reason="out of luck")
        if a is None
        else StudyRun(c, Path("runs") / c.title, run(c, a, **more))
        for c, a in zip(cells, accuracies, strict=True)
    ]


def aims(equal_time=20.0, target=None, hardness=lambda spec, name: 1.0):
    return Aims(equal_time, target, hardness)


def with_run(one, **changes):
    return replace(one, run=replace(one.run, **changes))
