"""A worker of a search, `python -m fedfleet.app.studies.tune.search_worker`: it performs trials of the shared study."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.studies.tune.search_file import Search, search_of
from fedfleet.app.studies.tune.search_store import close_study, open_study
from fedfleet.app.studies.tune.trial import run_trial, take_trial
from fedfleet.executors.worker_pool import run_worker

COMMAND = (sys.executable, "-P", "-m", "fedfleet.app.studies.tune.search_worker")


def piece_of(search: Search, out: Path, turn: int, number: int | None = None) -> dict[str, Any]:
    """One trial as a worker gets it: the search as it was declared, and which of its trials it goes on with, if any."""
    options = {"sampler": search.sampler, "pruner": search.pruner, "trials": search.trials}
    table = json.dumps({**search.base, "tune": search.declared})
    return {
        "table": table,
        "name": search.name,
        "asked": options,
        "out": str(out.resolve()),
        "turn": turn,
        "trial": number,
    }


def work(piece: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Carry out one trial; what became of it is in the study."""
    search, out = replace(search_of(json.loads(piece["table"]), piece["name"]), **piece["asked"]), Path(piece["out"])
    study = open_study(out, search)
    try:
        trial = take_trial(study, search, piece["turn"], piece["trial"])
        tell({"trial": trial.number})
        run_trial(study, search, trial, out)
        return {"trial": trial.number}
    finally:
        close_study(study)


if __name__ == "__main__":
    run_worker(work)
