"""Settings of single clients and kinds of device."""

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve


def test_overrides_reach_the_clients_they_name():
    kinds = {"devices": {"use": "spread"}}
    spec = resolve(
        {
            "world": kinds,
            "override": [{"clients": [3], "algorithm": {"epochs": 9}}, {"kinds": ["slow"], "algorithm": {"epochs": 4}}],
        }
    )
    setup = assemble(spec)
    slow = [i for i, kind in enumerate(setup.world.devices.kinds) if kind == "slow"]
    epochs = [setup.plan.algorithm.local(c, {}).batches.epochs for c in range(100)]
    assert len(slow) > 20
    assert all(epochs[c] == 4 for c in slow)
    assert epochs[3] == (4 if 3 in slow else 9)
    assert sum(e == 2 for e in epochs) == 100 - len({3, *slow})


def test_without_overrides_the_algorithm_is_the_same_for_all():
    algorithm = assemble(resolve({"algorithm": {"epochs": 3}})).plan.algorithm
    assert {algorithm.local(c, {}).batches.epochs for c in range(100)} == {3}
