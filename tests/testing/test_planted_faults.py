"""Every planted fault is caught, with a message that names it; every right part passes, and its runs are the same twice."""

import numpy as np
import pytest

from fedfleet import testing
from fedfleet.core.records import ServerState
from fedfleet.core.rng import client_keys
from fedfleet.executors.inline import inline
from fedfleet.tasks.digits import digits_logreg
from tests.testing.models import TASKS
from tests.testing.planted_faults import FAULTS

pytestmark = pytest.mark.slow

CLIENTS = 30
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
