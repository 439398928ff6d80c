"""Small runs that were really trained: two pacings, one that made no model, one that was stopped half-way."""

from types import SimpleNamespace

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from tests.app.specs import written


class Stopped(Exception):
    """Somebody pulled the plug."""


@pytest.fixture(scope="session")
def small_runs(tmp_path_factory):
    """Folders: wait1, wait2, dead1 in `study`/runs, and elsewhere bare (no model) and half (not ended); leave them be."""
    top = tmp_path_factory.mktemp("compared")
    spec = written(top)
    study = top / "study"

    def folder(name, *words, to=study / "runs", **more):
        perform(load_spec(spec, ["stop.rounds=2", "world.clients=6", "pace.cohort=3", *words]), to / name, **more)
        return to / name

    deadline = ["pace.use=deadline", "pace.seconds=30", "pace.cohort=3"]
    result = {f"wait{s}": folder(f"wait{s}", f"seed={s}") for s in (1, 2)}
    result["dead1"] = folder("dead1", "seed=1", *deadline)
    result["bare"] = folder("bare", "algorithm.bound=1e-9", to=top)
    seen = []

    def pull(events):
        seen.extend(events)
        if sum(type(e).__name__ == "Evaluated" for e in seen) >= 2:
            raise Stopped

    with pytest.raises(Stopped):
        folder("half", "seed=1", "stop.rounds=5", to=top, watch=pull)
    return SimpleNamespace(**result, half=top / "half", study=study, top=top)
