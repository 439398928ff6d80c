"""One tiny journal per policy, by its digest: whoever changes what a run does, or how it is written down, sees it here.

All times are dyadic and the toy trains without torch, so that the digests are the same on every machine. If a change
is meant, copy the new digest from the failure and say in the commit why runs are no longer what they were.
"""

import pytest

from fedfleet.core.parts import World
from fedfleet.core.records import Stop
from fedfleet.core.rng import client_keys
from fedfleet.pace.overcommit import overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.runtime import journal
from fedfleet.runtime.simulate import simulate
from fedfleet.testing.toys import consensus, no_data, opaque_executor
from fedfleet.world.devices import homogeneous
from fedfleet.world.states import interval_states
from tests.worlds import kinds_of, toy_plan, traces_of

CLIENTS = 10
GOLDEN = {
    "readiness": (
        readiness(4, ready_share=0.75, t_break=2.0),
        "93f482aecbc6e3e01ece20ce62bf013fe8b6e6b58d66b30fab5fd7c54895e16f",
    ),
    "deadline": (
        deadline(4, seconds=24.0, t_break=2.0, min_share=0.5),
        "fa97761f862e419675664a2d87195dd829343e309a842135fa20f5a9a3575983",
    ),
    "overcommit": (
        overcommit(deadline(4, seconds=24.0, t_break=2.0, min_share=0.5), factor=1.5),
        "e8173713c672e9d010b5fbf3f974a99a5413fb7510936bafd21d59b390adb952",
    ),
}


def small_world():
    """One kind of device, on which a task takes 8 ready seconds, and clients that come and go every 64 seconds."""
    keys = client_keys(CLIENTS)
    spans = [((float(4 * i), float(4 * i + 6)), (44.0, float(46 + i))) for i in range(CLIENTS)]
    devices = homogeneous(mbps=4.0, seconds_per_sample=0.25)(keys, 0)
    return World(keys, devices, interval_states(traces_of(spans, [64.0] * CLIENTS)), no_data(CLIENTS))


@pytest.mark.parametrize("name", GOLDEN)
def test_the_journal_is_what_it_was(name, tmp_path):
    policy, expected = GOLDEN[name]
    path = tmp_path / "run.db"
    plan = toy_plan(policy, CLIENTS, algorithm=consensus(model_bytes=125_000.0), stop=Stop(rounds=12))
    kept = journal.create(path)
    simulate(plan, small_world(), opaque_executor(), journal=kept)
    kept.close()
    seen = set(kinds_of(journal.read(path)))
    assert {"TasksSent", "TaskArrived", "TasksDropped", "ModelCommitted", "RoundFailed", "RunEnded"} <= seen
    assert journal.digest_of(path) == kept.digest
    assert kept.digest == expected
