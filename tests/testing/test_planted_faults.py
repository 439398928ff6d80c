"""Every planted fault is caught, with a message that names it; every right part passes, and its runs are the same twice."""

import numpy as np
import pytest

import fedfleet
from fedfleet import testing
from fedfleet.core import registry
from fedfleet.core.records import ServerState
from fedfleet.core.rng import client_keys
from fedfleet.executors.inline import inline
from fedfleet.tasks.digits import digits_logreg
from fedfleet.world.devices import homogeneous
from tests.testing.models import TASKS
from tests.testing.planted_faults import FAULTS
from tests.testing.right_parts import RIGHT

pytestmark = pytest.mark.slow

CLIENTS = 30
KEYS = client_keys(CLIENTS)
SERVER = ServerState({"a": np.zeros((4, 3), np.float32), "b": np.zeros(5, np.float32)})


@pytest.fixture(scope="module")
def task():
    return TASKS["dense"]()


def check(kind, part, task):
    """The check of this kind."""
    if kind == "algorithm":
        return testing.check_algorithm(part, task, inline(task), quiet=True)
    if kind == "fold":
        return testing.check_fold(part, SERVER, quiet=True)
    if kind == "partition":
        return testing.check_partition(lambda: part, digits_logreg()(0), quiet=True)
    if kind in ("selector", "policy", "codec"):
        return getattr(testing, f"check_{kind}")(part, quiet=True)
    name = {"devices": "device", "states": "state", "energy": "energy", "faults": "fault"}[kind]
    return getattr(testing, f"check_{name}_source")(part, CLIENTS, quiet=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:std.*degrees of freedom:UserWarning")
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name, task):
    kind, build, why = FAULTS[name]
    with pytest.raises(AssertionError, match=why):
        check(kind, build(), task)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_part_passes(name, task):
    kind, build, _ = RIGHT[name]
    part = build()
    if kind in ("devices", "faults"):
        part = part(KEYS, 1)
    elif kind == "energy":
        part = part(homogeneous()(KEYS, 1), KEYS, 1)
    result = check(kind, part, task)
    assert result.checked and len(result.digest) == 64


@pytest.mark.parametrize("name", RIGHT)
def test_two_runs_with_a_right_part_are_identical(name, monkeypatch):
    kind, build, tables = RIGHT[name]
    plural = {"policy": "policies", "selector": "selectors"}.get(
        kind, kind if kind.endswith("s") or kind == "energy" else f"{kind}s"
    )
    monkeypatch.setitem(registry._added[plural], "own", build)
    spec = {"task": "digits_logreg", "world": {"clients": 8}, "pace": {"cohort": 3}, "stop": {"rounds": 3}, **tables}
    if tables.get("pace") != "own":
        spec["pace"] = {"use": "deadline", "cohort": 3, "seconds": 60.0, "min_clients": 1}
    first, again = (fedfleet.run(spec).metrics for _ in range(2))
    assert first["digest"] == again["digest"] and first["commits"]
