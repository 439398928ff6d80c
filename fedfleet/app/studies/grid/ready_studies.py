"""Studies that ship: on a mild, a middle or a severe fleet, wait for all clients, stop at a deadline, or train without rounds?

`fedfleet study severe --data my.csv --label activity --owner user` answers it for a person's own data, without a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedfleet.app.studies.grid.study_file import Arm, Study, study_of

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
_SECONDS = 6 * 3600.0
_COHORT, _SMALLEST_COHORT, _SHARE = 10, 2, 3  # a cohort is at most a third of the fleet
_LOCAL = {"lr": 0.1, "epochs": 2}


def ready_study(name: str) -> Study:
    """The study of this name, with five seeds."""
    return study_of(
        {
            "name": name,
            "seeds": 5,
            "base": {
                "world": _WORLDS[name],
                "task": "digits_mlp",
                "stop": {"rounds": 10_000, "virtual_seconds": _SECONDS, "evaluate_every": 5},
            },
            "runs": [
                {"name": "wait for all", "algorithm": {"use": "fedavg", **_LOCAL}, "pace": {"use": "readiness", "cohort": _COHORT}},
                {
                    "name": "deadline of 2 min",
                    "algorithm": {"use": "fedavg", **_LOCAL},
                    "pace": {"use": "deadline", "cohort": _COHORT, "seconds": 120.0},
                },
                {
                    "name": "without rounds",
                    "algorithm": {"use": "fedbuff", **_LOCAL},
                    "pace": {"use": "buffered", "k": _COHORT, "concurrency": _COHORT, "lease": 600.0},
                },
            ],
        }
    )


def with_cohorts_for(study: Study, clients: int) -> Study:
    """A study that ships, on a fleet of that many clients: small fleets get smaller cohorts."""
    cohort = max(min(_COHORT, clients // _SHARE), min(_SMALLEST_COHORT, clients))
    arms = tuple(Arm(arm.name, _with_cohort(arm.settings, cohort)) for arm in study.arms)
    return replace(study, arms=arms)


def _with_cohort(settings: Mapping[str, Any], cohort: int) -> dict[str, Any]:
    keys = ("pace.cohort", "pace.k", "pace.concurrency")
    return {key: cohort if key in keys else value for key, value in settings.items()}
