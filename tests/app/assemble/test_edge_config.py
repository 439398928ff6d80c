"""What an edge is told: its own devices and nobody else's; and what edges over a network cannot do is refused in one sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_configs
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.assemble.edge_config import nested_pass_of
from fedfleet.app.spec import resolve
from fedfleet.core.aggregation import Entry
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.parts import Offer
from fedfleet.network.edge.edge_plan import device_config, edge_plan, read_config
from fedfleet.network.edge.turn_store import TurnStore


def made(edge="hierfl", algorithm=None, **tables):
    return assemble(
        resolve(
            {
                "task": {"use": "digits_logreg"},
                "world": {"clients": 6, "users": {"use": "households", "devices": [2, 4]}},
                "edge": edge,
                "algorithm": algorithm or {"use": "fedavg"},
                "pace": {"cohort": 2},
                **tables,
            }
        )
    )


def test_an_edge_is_told_of_its_own_devices(tmp_path):
    setup = made()
    inside, config_of = nested_pass_of(setup), client_configs(setup)
    told = [read_config(config_of(edge, False)) for edge in range(setup.plan.clients)]
    assert sum(len(one.keys) for one in told) == 6
    for edge, one in enumerate(told):
        members = inside.fleet.users.devices_of(edge)
        assert one.keys.tolist() == inside.fleet.keys[members].tolist()
        shards = [json.loads(device_config(one, place, brings_own=False))["data"] for place in range(len(members))]
        rows = np.concatenate([shard["train"] for shard in shards])
        assert sorted(rows.tolist()) == sorted(setup.world.data.shard(edge, "train", 0).tolist())
        assert one.sizes.tolist() == [len(shard["train"]) for shard in shards]
        assert all(not shard["test"] for shard in shards)
        plan = edge_plan(one, TurnStore(tmp_path / str(edge), len(members)))
        theirs, its = inside.algorithm.fold, plan.algorithm.fold
        assert (its.total_weight, its.most_reports >= len(members)) == (theirs.total_weight, True)
    with pytest.raises(BadInput, match="each client of this run is an edge"):
        config_of(setup.plan.clients, False)


@pytest.mark.slow
def test_a_device_behind_an_edge_trains_what_its_simulation_trains():
    setup = made()
    inside = nested_pass_of(setup)
    one = read_config(client_configs(setup)(1, False))
    runtime = build_client_runtime(device_config(one, 0, brings_own=False))
    device = int(inside.fleet.users.devices_of(1)[0])
    assert (runtime.client, runtime.key) == (device, int(inside.fleet.keys[device]))
    assert runtime.local_pass() == inside.algorithm.local(device, {})
    shard = setup.world.data.shard(1, "train", 0)
    assert runtime.train.tolist() == shard[inside.fleet.first_slots(1) == 0].tolist()


def test_rules_say_whether_samples_move_and_whether_they_may_be_own():
    told = {rule: read_config(client_configs(made(rule))(0, False)) for rule in ("hierfl", "fedgs", "shufflefl")}
    assert {rule: (one.moves_samples, one.own_data) for rule, one in told.items()} == {
        "hierfl": (False, True),
        "fedgs": (False, False),
        "shufflefl": (True, False),
    }
    for one in told.values():  # each device is told too: its owner must agree
        assert json.loads(device_config(one, 0, brings_own=False))["moves_samples"] is one.moves_samples


def test_device_and_edge_do_not_take_each_others_configuration():
    with pytest.raises(Refused, match="start it with fedfleet edge"):
        build_client_runtime(client_configs(made())(0, False))
    flat = assemble(resolve({"task": {"use": "digits_logreg"}, "world": {"clients": 4}, "pace": {"cohort": 2}}))
    with pytest.raises(Refused, match="start it with fedfleet device"):
        read_config(client_configs(flat)(0, False))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"override": [{"clients": [1], "algorithm": {"lr": 0.2}}]}, "override"),
        ({"task": {"use": "digits_mlp"}, "algorithm": {"use": "biasprompt"}}, "frozen weights"),
    ],
)
def test_what_edges_cannot_do_over_a_network_is_refused(changes, why):
    with pytest.raises(BadInput, match=why) as refused:
        client_configs(made(**changes))
    assert "edge" in str(refused.value)
    assert str(refused.value).count(". ") == 0


def with_inside(setup, **changes):
    """The setup with another algorithm on the devices."""
    inside = nested_pass_of(setup)
    other = replace(inside, algorithm=replace(inside.algorithm, **changes))
    return replace(setup, plan=replace(setup.plan, algorithm=replace(setup.plan.algorithm, local=lambda client, settings: other)))


def test_so_are_algorithms_whose_devices_need_more_than_model_and_mean():
    setup = made()
    fold = nested_pass_of(setup).algorithm.fold
    weighed = replace(fold, enter=lambda weight, stats, context: Entry(weight * stats["loss"]))
    with pytest.raises(BadInput, match="weighs reports by more than their samples"):
        client_configs(with_inside(setup, fold=weighed))
    with pytest.raises(BadInput, match="sends more than the model"):
        client_configs(with_inside(setup, offer=lambda server, client, settings: Offer(server.params, {"control": np.ones(1)})))


@pytest.mark.parametrize("change", [{"keys": []}, {"sizes": [1]}, {"seed": -1}, {"layout": "{}"}, {"devices": 3}, {"form": 9}])
def test_a_configuration_that_makes_no_sense_is_refused(change):
    table = json.loads(client_configs(made())(0, False))
    with pytest.raises(Refused):
        read_config(json.dumps({**table, **change}).encode())
