"""Runs of an own model: their spec, how far a replay goes without trust, and folders that look killed."""

import json
import re
import shutil

from fedfleet.app.runs.run_audit import replay_run
from tests.app.runs.owned import SPEC


def spec_for(execute="inline", **more):
    return {**SPEC, **more, "run": {**SPEC["run"], "execute": execute}}


def trust_of(out):
    """The hash that the refusal prints."""
    result = replay_run(out)
    assert "models" in result["not_verified"] and "picks" in result["verified"]
    assert "not run unless you trust it" in result["because"]
    return re.search(r"--trust-code ([0-9a-f]{64})", result["because"])[1]


def believes(answer, *words):
    """A replay that went as far as it can without the model, and says so."""
    code, printed, _ = answer
    result = json.loads(printed)
    assert code == 0 and "models" in result["not_verified"] and "decisions" in result["verified"]
    assert all(word in result["because"] for word in words), result["because"]


def unfinished(done, folder):
    """A copy of a run's folder that looks as if the run had been killed after its last checkpoint."""
    shutil.copytree(done.out, folder)
    for name in ("metrics.json", "model.safetensors", "report.html", "seal.json"):
        (folder / name).unlink()
    return folder
