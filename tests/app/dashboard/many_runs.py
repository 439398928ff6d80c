"""Two hundred small run folders of three studies and a search: specs, journals, measures and seals are real, training is not.

`python -m tests.app.dashboard.many_runs FOLDER` makes them to be looked at with `fedfleet dashboard FOLDER`.
"""

import json
import math
import sys
from pathlib import Path

from fedfleet.app.runs.run_folder import CONTRACT, seal_folder
from fedfleet.app.spec import resolve
from fedfleet.app.studies.grid.study_file import study_of, study_text
from fedfleet.app.studies.grid.study_runs import expand_study, run_folders
from fedfleet.core.events import Evaluated, ModelCommitted, ReportsGathered, RunBegan, RunEnded, TaskArrived, TasksSpent
from fedfleet.measure.summary import summary
from fedfleet.store import journal as journals
from tests.app.dashboard.runs import floats, ints, sent

ROUNDS = 5
_BASE = {"task": {"use": "digits_mlp"}, "world": {"clients": 30}, "stop": {"rounds": ROUNDS}}
_POLICIES = [
    {"use": "readiness", "cohort": 5, "t_break": 10.0},
    {"use": "deadline", "cohort": 5, "seconds": 60.0},
    {"use": "deadline", "cohort": 5, "seconds": 240.0},
    {"use": "buffered", "k": 5, "concurrency": 10},
]
_FLEETS = [
    {"name": "mild", "use": "homogeneous"},
    {"name": "middle", "use": "spread", "link": 0.8, "compute": 0.4},
    {"name": "severe", "use": "dpgmm", "sigma": 1.5},
]
STUDIES = {
    "pacing": {"name": "pacing", "seeds": 5, "base": _BASE, "grid": {"world.devices": _FLEETS, "pace": _POLICIES}},
    "activity": {
        "name": "activity",
        "seeds": [0],
        "base": {**_BASE, "task": {"use": "digits_logreg"}},
        "runs": [
            {
                "name": f"activity of thirty people, reachable a tenth of the day, {method}, rate {lr} and {epochs} local epochs",
                "algorithm": {"use": method, "lr": lr, "epochs": epochs},
            }
            for method in ("fedavg", "fedprox", "fedadam", "scaffold", "feddyn")
            for lr in (0.01, 0.03, 0.1, 0.3)
            for epochs in (1, 2, 5)
        ],
    },
    "selection": {
        "name": "selection",
        "seeds": 9,
        "base": _BASE,
        "grid": {"choose": ["uniform", "oort", "tifl", "fair", "round_robin"]},
    },
}
FINISHED_STUDIES = ("pacing", "activity")
TRIALS = 31
SINGLES = ("baseline", "second-try", "third-try", "over-night")


def make_runs(root):
    """Fill this folder: 60 + 60 + 45 runs of studies, 31 trials of a search, 4 single runs."""
    count = 0
    for name, table in STUDIES.items():
        study, out = study_of(table, scale=None), root / name
        cells = expand_study(study)
        (out / "runs").mkdir(parents=True)
        (out / "study.toml").write_text(study_text(study))
        for i, (cell, folder) in enumerate(zip(cells, run_folders(out, cells), strict=True)):
            arm = i // len(study.seeds)
            stopped = name == "selection" and arm == 4
            make_run(folder, cell.spec, 0.35 + 0.55 * math.sin(1 + arm) ** 2 + 0.01 * cell.seed, sealed=not stopped)
            count += 1
        if name in FINISHED_STUDIES:
            (out / "study.json").write_text("{}")
            (out / "report.html").write_text(f"<!doctype html><title>{name}</title><h1>The page of {name}</h1>")
    (root / "tuning" / "trials").mkdir(parents=True)
    (root / "tuning" / "tune.db").touch()
    for i in range(TRIALS):
        spec = resolve(
            {**_BASE, "algorithm": {"use": "fedprox", "mu": 0.001 * (i + 1), "lr": round(0.02 + 0.013 * (i * 7 % 31), 4)}}, "tuning"
        )
        make_run(root / "tuning" / "trials" / str(i), spec, 0.5 + 0.4 * math.sin(i) ** 2)
    for i, name in enumerate(SINGLES):
        make_run(root / name, resolve({**_BASE, "seed": i}, name), 0.8)
    return count + TRIALS + len(SINGLES)


def make_run(folder, spec, accuracy, *, sealed=True):
    """One run of this spec that ends at about this accuracy."""
    folder.mkdir(parents=True)
    (folder / "spec.toml").write_text(spec.toml())
    events = story(spec, accuracy, ended=sealed)
    journal = journals.create(folder / "run.db")
    journal.append(events)
    journal.close()
    if sealed:
        metrics, digest = summary(events), journals.digest_of(folder / "run.db")
        (folder / "metrics.json").write_text(
            json.dumps(
                {
                    **dict.fromkeys(CONTRACT),
                    **metrics,
                    "digest": digest,
                    "out": str(folder),
                    "wall_seconds": 1.0,
                    "spec_digest": spec.digest,
                }
            )
        )
        seal_folder(folder, journals.check_journal(folder / "run.db"), None)


def story(spec, accuracy, *, ended=True):
    """A few rounds of two clients each, with a model after each of them."""
    events = [RunBegan(0.0, spec.seed, spec.world["clients"], spec.digest, "m0")]
    for i in range(ROUNDS):
        start, first, who = 60.0 * i, 2 * i, [(7 * i + spec.seed) % 30, (11 * i + 3) % 30]
        spent = {"compute": floats(20, 30), "bytes_down": floats(1000, 1000), "bytes_up": floats(1000, 1000)}
        correct = round(1000 * accuracy * (1 - math.exp(-(i + 1))))
        events += [
            sent(start, i, first, who),
            TaskArrived(start + 20, first, who[0], 20.0, 30.0),
            TaskArrived(start + 30, first + 1, who[1], 30.0, 30.0),
            TasksSpent(start + 60, ints(first, first + 1), ints(*who), spent),
            ReportsGathered(start + 60, None, ints(first, first + 1), {}),
            ModelCommitted(start + 60, i, i + 1, f"m{i + 1}", 2),
            Evaluated(start + 60, i + 1, correct, 1000, 1.0),
        ]
    return [*events, RunEnded(60.0 * ROUNDS, "rounds")] if ended else events


if __name__ == "__main__":
    print(make_runs(Path(sys.argv[1])), "runs")  # noqa: T201
