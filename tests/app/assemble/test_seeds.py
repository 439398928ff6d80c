"""Fleet, data and training each from a seed of its own: what one changes, the others leave to the last bit."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.records import Cost
from fedfleet.core.trees import content_hash

KINDS = ("fleet", "data", "training")
BASE = {
    "seed": 4,
    "task": {"use": "digits_logreg"},
    "world": {
        "clients": 12, "devices": {"use": "spread", "jitter": 0.5}, "states": {"use": "daily"},
        "data": {"use": "label_flip", "of": {"use": "dirichlet"}}, "faults": {"use": "crashes"},
    },
    "pace": {"use": "deadline", "cohort": 4},
    "stop": {"rounds": 3},
}  # fmt: skip
USERS = {**BASE, "world": {**BASE["world"], "data": {"use": "dirichlet"}, "users": {"use": "households"}}}


def drawn(table):
    """What a spec's draws come to, by the seed that should decide it."""
    setup = assemble(resolve(table))
    world, n = setup.world, len(setup.world.keys)
    everyone, ones = np.arange(n), np.ones(n)
    trips = world.devices.seconds(everyone, Cost(ones, 1e6 * ones, 1e6 * ones), 0.0, everyone)
    online = [world.states.online(t).tolist() for t in np.linspace(0, 86400, 12)]
    mishaps = world.faults.draw(everyone, 0.0, 1e5 * ones, everyone)
    users = [] if world.users is None else world.users.user_of.tolist()
    shards = [world.data.shard(c, split, 0).tolist() for c in range(n) for split in ("train", "valid", "test")]
    labels = setup.task.dataset.y.tolist()
    return {
        "fleet": (trips.tolist(), online, mishaps.crash.tolist(), users),
        "data": (shards, world.data.holdout.tolist(), labels),
        "training": (content_hash(setup.plan.params), setup.plan.seed),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_each_seed_changes_what_is_its_own_and_nothing_else(kind):
    before, after = drawn(BASE), drawn({**BASE, "seeds": {kind: 99}})
    assert {other: before[other] == after[other] for other in KINDS} == {other: other != kind for other in KINDS}


def test_users_belong_to_the_fleet_and_what_they_hold_to_the_data():
    before, fleet, data = drawn(USERS), drawn({**USERS, "seeds": {"fleet": 9}}), drawn({**USERS, "seeds": {"data": 9}})
    assert fleet["fleet"][3] != before["fleet"][3] == data["fleet"][3] and data["data"] != before["data"]
    assert fleet["data"][1] == before["data"][1] and fleet["training"] == before["training"] == data["training"]


def test_one_seed_is_all_three():
    other = {"seed": 99, **{k: v for k, v in BASE.items() if k != "seed"}}
    assert drawn({**BASE, "seeds": dict.fromkeys(KINDS, 99)}) == drawn(other)


def test_seeds_that_are_the_seed_make_the_same_spec():
    plain, said = resolve(BASE), resolve({**BASE, "seeds": dict.fromkeys(KINDS, 4)})
    assert plain.digest == said.digest and "seeds" not in said.table()
    apart = resolve({**BASE, "seeds": {"data": 7}})
    assert apart.digest != plain.digest and apart.table()["seeds"] == {"data": 7}
    assert (apart.fleet_seed, apart.data_seed, apart.training_seed) == (4, 7, 4)
    assert resolve(apart.table()).digest == apart.digest


def test_a_device_trains_on_the_same_data_with_the_same_first_weights():
    setup = assemble(resolve({**BASE, "seeds": {"data": 7, "training": 8}}))
    kit = build_client_runtime(client_config_for(setup, 3))
    assert kit.seed == 8 and content_hash(kit.params) == content_hash(setup.plan.params)
    rows = setup.world.data.shard(3, "train", 0)
    assert np.array_equal(kit.train, rows)
    assert np.array_equal(kit.task.dataset.y[kit.train], setup.task.dataset.y[rows])


@pytest.mark.parametrize(
    ("seeds", "why"),
    [
        ({"flet": 1}, r"seeds has no key 'flet'.*fleet"), ({"data": -1}, r"seeds.data = -1"), ({"data": 0.5}, r"seeds.data = 0.5"),
        (3, "seeds: 3 is not a table"),
    ],
)  # fmt: skip
def test_seeds_are_checked(seeds, why):
    with pytest.raises(BadInput, match=why):
        resolve({**BASE, "seeds": seeds})
