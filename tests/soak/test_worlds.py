"""The laws of the engine over three hundred random worlds each, instead of the sample that every test run takes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.records import Stop
from fedfleet.engine.checkpoint import freeze, thaw
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals
from fedfleet.testing.toys import consensus, opaque_executor
from tests.worlds import buffered, fleets, paces, toy_plan, world_of

law = settings(deadline=None, derandomize=True, max_examples=300)


class Frozen:
    """Freezes and thaws the state after every settled step: the run must not notice."""

    def save_if_due(self, sim):
        sim.state = thaw(*freeze(sim.state))


def digest(plan, fleet, keeper=None):
    journal = journals.memory_journal()
    simulate(plan, world_of(fleet), opaque_executor(), journal=journal, keeper=keeper)
    return journal.digest


@law
@given(fleets(), paces(), st.booleans())
def test_freezing_at_every_step_changes_nothing(fleet, pace, remembers):
    plan = toy_plan(pace.policy(), len(fleet), algorithm=consensus(remembers=remembers), stop=Stop(rounds=6))
    assert digest(plan, fleet, Frozen()) == digest(plan, fleet)


@law
@given(fleets(), st.integers(1, 3), st.integers(1, 4))
def test_freezing_an_asynchronous_run_changes_nothing(fleet, enough, concurrency):
    able = bool(np.isfinite(fleet.seconds).any())
    plan = toy_plan(buffered(min(enough, concurrency), concurrency), len(fleet), stop=Stop(rounds=5, virtual_seconds=2000.0))
    if able:
        assert digest(plan, fleet, Frozen()) == digest(plan, fleet)
