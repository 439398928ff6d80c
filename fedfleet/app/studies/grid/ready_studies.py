"""Studies that ship: on a mild, a middle or a severe fleet, wait for all clients, stop at a deadline, or train without rounds?

`fedfleet study severe --data my.csv --label activity --owner user` answers it for a person's own data, without a file.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.studies.grid.study_file import Arm, Study
from fedfleet.core.errors import BadInput

# The fleets of the demo. How the data are dealt follows from the data.
_WORLDS: dict[str, dict[str, Any]] = {
    "mild": {"devices": {"use": "spread", "mbps": 60.0, "link": 0.15, "compute": 0.3}, "states": {"use": "always_on"}},
    "middle": {
        "devices": {"use": "dpgmm", "sigma": 0.7, "mean_mbps": 60.0},
        "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 0},
    },
    "severe": {
        "devices": {"use": "dpgmm", "sigma": 1.4, "mean_mbps": 60.0},
        "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 100},
    },
}
NAMES = tuple(_WORLDS)
_SECONDS, _MOST_ROUNDS = 6 * 3600.0, 10_000
_COHORT, _SMALLEST_COHORT, _SHARE = 10, 2, 3  # a cohort is at most a third of the fleet
_LOCAL = {"lr": 0.1, "epochs": 2}


def is_ready(file: Any) -> bool:
    """Is this the name of a study that ships, and not of a file that is there?"""
    return isinstance(file, str | Path) and str(file) in NAMES and not Path(file).exists()


def refuse_misspelt(file: Any) -> None:
    """Refuse a word that is nearly the name of a study that ships, where no file has it."""
    close = difflib.get_close_matches(str(file), NAMES, n=1, cutoff=0.7)
    if isinstance(file, str | Path) and close and not Path(file).exists():
        raise BadInput(f"there is no study file {file}; did you mean {close[0]}? The studies that ship are {', '.join(NAMES)}")


def ready_table(name: str) -> dict[str, Any]:
    """The table of the study of this name, with five seeds; without data of one's own it is about handwritten digits."""
    paces = {
        "wait for all": ("fedavg", {"use": "readiness", "cohort": _COHORT}),
        "deadline of 2 min": ("fedavg", {"use": "deadline", "cohort": _COHORT, "seconds": 120.0}),
        "without rounds": ("fedbuff", {"use": "buffered", "k": _COHORT, "concurrency": _COHORT, "lease": 600.0}),
    }
    stop = {"rounds": _MOST_ROUNDS, "virtual_seconds": _SECONDS, "evaluate_every": 5}
    return {
        "name": name,
        "seeds": 5,
        "base": {"world": copy.deepcopy(_WORLDS[name]), "task": {"use": "digits_mlp"}, "stop": stop},
        "runs": [{"name": arm, "algorithm": {"use": method, **_LOCAL}, "pace": pace} for arm, (method, pace) in paces.items()],
        "analysis": [{"kind": "table"}],
    }


def with_cohorts_for(study: Study, clients: int) -> Study:
    """A study that ships, on a fleet of that many clients: small fleets get smaller cohorts."""
    cohort = max(min(_COHORT, clients // _SHARE), min(_SMALLEST_COHORT, clients))
    arms = tuple(Arm(arm.name, _with_cohort(arm.settings, cohort)) for arm in study.arms)
    return replace(study, arms=arms)


def _with_cohort(settings: Mapping[str, Any], cohort: int) -> dict[str, Any]:
    keys = ("pace.cohort", "pace.k", "pace.concurrency")
    return {key: cohort if key in keys else value for key, value in settings.items()}
