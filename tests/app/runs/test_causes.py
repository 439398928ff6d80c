"""Causes: which ones a spec has, and that removing one that is absent changes no event."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.runs.causes import CAUSES, present_causes, without_causes
from fedfleet.app.spec import apply_overrides, resolve
from fedfleet.core.equality import same
from fedfleet.core.errors import BadInput
from fedfleet.core.events import RunBegan
from fedfleet.core.registry import _added, register
from fedfleet.core.sources import FaultDraws, FaultSource
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals
from tests.app.specs import TINY
from tests.app.users import SPEC as USERS

pytestmark = pytest.mark.slow

PLAIN = TINY.replace("dirichlet", "iid").replace(", alpha = 0.5", "").replace("spread", "homogeneous")
JITTER = 'world.devices={use="spread", link=0.0, compute=0.0, jitter=0.5}'
DAILY = 'world.states={use="daily", ready=0.5}'


def spec_of(text, *words):
    return resolve(apply_overrides(tomllib.loads(text), words))


def events_of(spec):
    """Everything that happens in a run of this spec, with its digest; the name of the spec itself is left out."""
    setup, events, journal = assemble(spec), [], journals.memory_journal()
    with open_executor(setup) as execute:
        plan = replace(setup.plan, spec_digest="")
        simulate(plan, setup.world, execute, journal=journal, watch=events.extend)
    assert isinstance(events[0], RunBegan)
    return events, journal.digest


@pytest.fixture
def calm():
    """Faults that strike nobody."""

    def build():
        def befall(clients, start, ends, tasks):
            n, never = len(clients), np.full(len(clients), np.inf)
            return FaultDraws(np.full(n, -1), np.zeros(n), never, np.ones(n, np.bool_), np.zeros(n), never)

        return lambda keys, seed: FaultSource(lambda clients, start, tasks: np.ones(len(clients)), befall)

    register("faults", "calm", build)
    yield
    del _added["faults"]["calm"]


ABSENT = {
    "links": (PLAIN, JITTER, DAILY),
    "computing": (PLAIN, JITTER, DAILY),
    "both": (
        PLAIN,
        'world.devices={use="mobile", devices="homogeneous"}',
        'pace={use="deadline", seconds=3, cohort=4}',
    ),
    "levelled": (TINY, "world.heterogeneity=states", DAILY),
    "reachability": (TINY, "world.heterogeneity=devices", DAILY),
    "data": (TINY, "world.data=iid"),
    "faults": (TINY, "world.faults=calm"),
    "an edge's links": (USERS, 'world.devices={use="spread", link=0.0, compute=0.0, jitter=0.5}', "stop.rounds=2"),
}
REMOVED = {
    "both": ("links", "computing"),
    "levelled": ("links", "computing"),
    "an edge's links": ("links", "computing"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_removing_a_cause_that_is_absent_changes_no_event(name, calm):
    spec = spec_of(*ABSENT[name])
    removed = REMOVED.get(name, (name,))
    if name != "faults":  # those are there, and do nothing
        assert not {*removed} & {*present_causes(spec)}
    (before, digest), (after, again) = events_of(spec), events_of(without_causes(spec, removed))
    assert digest == again
    assert len(before) == len(after) and all(same(a, b) for a, b in zip(before, after, strict=True))


def test_the_comparison_of_events_can_fail():
    spec = spec_of(TINY)
    (before, digest), (after, again) = events_of(spec), events_of(without_causes(spec, ["links"]))
    assert digest != again
    assert not all(same(a, b) for a, b in zip(before, after, strict=False))


def test_what_a_spec_has_is_found():
    assert present_causes(spec_of(PLAIN)) == ()
    assert present_causes(spec_of(TINY)) == ("links", "computing", "data")
    assert present_causes(spec_of(TINY, DAILY, "world.devices.link=0.0")) == ("computing", "reachability", "data")
    assert present_causes(spec_of(TINY, "world.heterogeneity=none", DAILY)) == ("data",)
    assert present_causes(spec_of(PLAIN, 'world.data={use="label_flip", of="iid"}')) == ()


def test_the_spec_without_all_causes_has_none_and_can_be_written(calm):
    for text in (TINY, USERS):
        spec = spec_of(text, DAILY, "world.faults=calm")
        ideal = without_causes(spec, CAUSES)
        assert present_causes(spec) == CAUSES
        assert present_causes(ideal) == ()
        assert resolve(tomllib.loads(ideal.toml())).digest == ideal.digest != spec.digest
        assert without_causes(spec, []).digest == spec.digest


def test_each_removal_takes_its_own_cause_alone(calm):
    spec = spec_of(TINY, DAILY, "world.faults=calm")
    for cause in CAUSES:
        assert present_causes(without_causes(spec, [cause])) == tuple(c for c in CAUSES if c != cause)


def test_wrong_labels_stay_when_data_are_dealt_at_random():
    spec = spec_of(TINY, 'world.data={use="label_flip", of={use="dirichlet"}, share=0.3}')
    assert without_causes(spec, ["data"]).world["data"] == {"use": "label_flip", "of": {"use": "iid"}, "share": 0.3}


def test_users_share_each_class_evenly_among_their_devices():
    world = assemble(without_causes(spec_of(USERS, "world.users.devices=[2,2]"), ["data"])).world
    assert world.data.sizes(0).max() - world.data.sizes(0).min() <= 1


def test_an_unknown_cause_is_refused():
    with pytest.raises(BadInput, match="did you mean 'links'"):
        without_causes(spec_of(TINY), ["link"])
