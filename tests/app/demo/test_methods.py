"""The demo's methods."""

from fedfleet.app.assemble import assemble
from fedfleet.app.demo.methods import METHODS, methods_spec
from fedfleet.app.demo.study import CLIENTS
from fedfleet.app.spec import resolve


def test_six_methods_meet_the_same_fleet():
    setups = {name: assemble(resolve(methods_spec(name))) for name in METHODS}
    assert len(setups) == 6 and {s.plan.clients for s in setups.values()} == {CLIENTS}
    assert len({tuple(s.world.devices.kinds) for s in setups.values()}) == 1
    assert len({s.plan.algorithm.name for s in setups.values()}) >= 5


def test_what_travels_of_a_frozen_backbone_is_small():
    frozen = assemble(resolve(methods_spec("BiasPrompt+")))
    sizes = [sum(v.nbytes for v in tree.values()) for tree in (frozen.plan.params, frozen.task.frozen)]
    assert sizes[0] < 0.1 * sizes[1]
