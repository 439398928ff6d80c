"""One tiny journal per policy, by its digest: whoever changes what a run does, or how it is written down, sees it here.

All times are dyadic and the toy trains without torch, so that the digests are the same on every machine. If a change
is meant, copy the new digest from the failure and say in the commit why runs are no longer what they were.
"""

import pytest

from fedfleet.core.records import Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import World
from fedfleet.pace.asynchronous import buffered, semi_async
from fedfleet.pace.combinators import first_of, overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.pace.timeout import timeout
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal
from fedfleet.testing.toys import consensus, no_data, opaque_executor
from fedfleet.world.devices import homogeneous
from fedfleet.world.states import interval_states
from tests.worlds import kinds_of, toy_plan, traces_of

CLIENTS = 10
# Rounds that fail at once when too few clients are in reach: the digests are older than waiting for them.
GOLDEN = {
    "readiness": (
        readiness(4, ready_share=0.75, t_break=2.0, if_few="fail"),
        "49c0d676211a40f3c524fcd95622393866ee1e68c9f23462d5d9d634946df14f",
    ),
    "deadline": (
        deadline(4, seconds=24.0, t_break=2.0, min_share=0.5, if_few="fail"),
        "a2e1e32b0d3354a88b9d6d29859794f5a302a8125e2c712cfc2f0b18139ae2cf",
    ),
    "overcommit": (
        overcommit(deadline(4, seconds=24.0, t_break=2.0, min_share=0.5, if_few="fail"), factor=1.5),
        "23cdcc34f1a1ff83fa881d8a9e086441db6f3c8a9218b9b3c620f79e9f7153b1",
    ),
    "late reports": (
        deadline(4, seconds=12.0, t_break=2.0, min_clients=1, min_share=0.5, max_staleness=1, if_few="fail"),
        "3216feb5aaddbf97ce8468da7a0fe446292f6a587e16cd19681fdffd9747bf29",
    ),
    "buffered": (
        buffered(k=3, concurrency=4, max_staleness=2, lease=32.0, refill=2.0),
        "61ed24f2c9dab633d48977c657a887ef2cef84a35bfae9896d0143e7479441ff",
    ),
    "leased": (
        readiness(4, t_break=2.0, lease=24.0, ready_share=0.75, min_share=0.25, if_few="fail"),
        "33b20e94345086493b7c8afbdf97a5cb35a2c570b91a2581e014c35f71db80f5",
    ),
    "timeout": (
        timeout(3, seconds=8.0, step=2.0, quiet_rounds=1, most=1, t_break=2.0, min_share=1.0, if_few="fail"),
        "4e84c336f025a4e60fa849ffa99dc08c65b6bba65800ba08b69915d92712e34d",
    ),
    "semi_async": (
        semi_async(16.0, 1, concurrency=4, refill=2.0, if_few="fail"),
        "46e0f4d133c6735349b3bae71ae951b04e657efa53601c621fca71903e055de8",
    ),
    "first_of": (
        first_of(
            timeout(3, goal=3, seconds=8.0, step=2.0, quiet_rounds=1, most=2, t_break=2.0, if_few="fail"),
            deadline(3, seconds=32.0, min_share=0.5, if_few="fail"),
        ),
        "c6ca6e6250482abf30067910b3a2c778f25a6b00a3931ee02d1aa77601aef946",
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
    assert usual - seen == ({"RoundFailed"} if name == "buffered" else set()), "who replaces what it loses does not fail"
    assert name not in ("timeout", "first_of") or "PaceSet" in seen
    assert journal.digest_of(path) == kept.digest
    assert kept.digest == expected
