"""One tiny journal per policy, by its digest: whoever changes what a run does, or how it is written down, sees it here.

All times are dyadic and the toy trains without torch, so that the digests are the same on every machine. If a change
is meant, copy the new digest from the failure and say in the commit why runs are no longer what they were.
"""

import pytest

from fedfleet.core.parts import World
from fedfleet.core.records import Stop
from fedfleet.core.rng import client_keys
from fedfleet.pace.buffered import buffered
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
        "1efc96e94dee4d47520797bf79d04f80d6ac118f358df75265569138a803ead6",
    ),
    "deadline": (
        deadline(4, seconds=24.0, t_break=2.0, min_share=0.5),
        "ed1513139d71559bc48fa7e2311a7610bc04056fe826aaad2d40d2c77a9db78a",
    ),
    "overcommit": (
        overcommit(deadline(4, seconds=24.0, t_break=2.0, min_share=0.5), factor=1.5),
        "f44afa1bd615f6f7b7d118bc357d9ccf5a22e6860b02d689c43a18cfd74f232b",
    ),
    "late reports": (
        deadline(4, seconds=12.0, t_break=2.0, min_clients=1, min_share=0.5, max_staleness=1),
        "b6811048e78d46c744897cdb1aa5b1e2486ce09ce2751cc44afcae956919c1b6",
    ),
    "buffered": (
        buffered(k=3, concurrency=4, max_staleness=2, lease=32.0, refill=2.0),
        "69b3a99c7903b57a8a0484dc9239a82d01f7f4bb6d351bf28314ed8f882d6ff6",
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
    usual = {"TasksSent", "TaskArrived", "TasksDropped", "ModelCommitted", "RoundFailed", "RunEnded"}
    assert usual - seen == ({"RoundFailed"} if name == "buffered" else set()), (
        "who replaces what it loses does not fail"
    )
    assert journal.digest_of(path) == kept.digest
    assert kept.digest == expected
