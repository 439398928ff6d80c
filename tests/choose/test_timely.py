"""In time: portions that just fit, whole work for whoever needs no less, and nobody who cannot."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.spec import resolve
from fedfleet.choose.timely import SEES, passes, portions, timely, timely_interval
from fedfleet.choose.uniform import uniform
from fedfleet.core.cost import cost_of, scale_cost
from fedfleet.core.events import ModelCommitted, TasksDropped, TasksSent
from fedfleet.core.parts import Draw
from fedfleet.core.records import Roster
from fedfleet.engine.coordinator import begin
from fedfleet.network.server.served_plan import check_servable
from fedfleet.simulation.rosters import roster_of
from fedfleet.simulation.simulator import simulate
from fedfleet.testing import check_selector
from tests.worlds import only

SECONDS = 30.0
SPEC = {
    "seed": 2,
    "task": "digits_mlp",
    "algorithm": "timelyfl",
    "choose": {"use": "timely", "seconds": SECONDS, "least": 0.15},
    "pace": {"use": "deadline", "cohort": 10, "seconds": SECONDS},
    "world": {"clients": 40, "model_bytes": 2e7, "devices": {"use": "spread", "seconds_per_sample": 0.1}},
    "stop": {"rounds": 4},
}

times = st.floats(0.0, 200.0)


@given(times, times, times, st.floats(0.0, 5.0), st.floats(1.0, 300.0))
def test_the_portion_is_the_largest_that_is_in_time(compute, down, up, latency, seconds):
    def finish(p):
        return down + p * up + compute * (1 / 3 + 2 / 3 * p) + latency

    columns = (compute + latency, down + up + latency, up + latency, latency)
    (result,) = portions(*(np.array([v]) for v in columns), seconds=seconds)
    assert result <= 1.0
    if result == 1.0:
        assert finish(1.0) <= seconds + 1e-6
    elif result > 0.0:
        assert finish(result) <= seconds + 1e-6 and finish(result + 1e-3) > seconds - 0.5
    else:
        assert finish(0.0) >= seconds - 1e-6


def roster(*totals):
    n = len(totals)
    stats = dict(zip(SEES, (np.array(totals) / 2, np.array(totals) / 2, np.array(totals) / 4, np.zeros(n)), strict=True))
    return Roster(np.arange(0, 3 * n, 3), np.arange(n, dtype=np.uint64), np.full(n, 10), stats)


def test_settings_follow_whoever_is_picked():
    # A third of the computing and the download take (1/6 + 1/4) of the total; the rest can be left out.
    given = roster(30.0, 60.0, 1e9, 48.0, np.inf)
    asked = timely(seconds=30.0).pick({}, given, 5, Draw(1, 0))
    expected = {0: 1.0, 3: (30 - 25) / 35, 9: (30 - 20) / 28}
    assert dict(zip(asked.clients.tolist(), asked.settings["portion"], strict=True)) == pytest.approx(expected)
    few = timely(seconds=30.0, least=0.3).pick({}, given, 5, Draw(1, 0))
    assert sorted(few.clients.tolist()) == [0, 9]
    assert len(timely(seconds=1.0).pick({}, given, 5, Draw(1, 0)).clients) == 0


def test_everyone_in_time_is_picked_as_without_it():
    given = roster(*np.linspace(1.0, 9.0, 30))
    asked, plain = timely().pick({}, given, 7, Draw(4, 2)), uniform().pick({}, given, 7, Draw(4, 2))
    assert asked.clients.tolist() == plain.clients.tolist() and set(asked.settings["portion"]) == {1.0}


def test_it_is_a_selector_as_others_are():
    check_selector(timely(seconds=1e6))


def test_the_predicted_finish_of_everyone_is_within_the_deadline():
    setup = assemble(resolve(SPEC))
    plan, world = setup.plan, setup.world
    state = begin(plan).state
    seen = roster_of(plan, world, state, np.arange(40))
    asked = plan.choose.pick({}, seen, 40, Draw(2, 0))
    assert 20 < len(asked.clients) < 40, "some cannot be in time at all"
    portion = asked.settings["portion"]
    assert (portion < 1.0).sum() > 5 and (portion == 1.0).sum() > 5
    cost = scale_cost(cost_of(plan.algorithm, state.server, asked, world.data.sizes(0)[asked.clients]), plan.byte_scale)
    took = world.devices.seconds(asked.clients, cost, 0.0, np.arange(len(asked.clients)))
    assert (took <= SECONDS).all()


def dropped(spec):
    """How many tasks of a run were given up, and how many models it made."""
    events = []
    setup = assemble(resolve(spec))
    with open_executor(setup) as execute:
        simulate(setup.plan, setup.world, execute, watch=events.extend)
    return sum(len(e.tasks) for e in only(TasksDropped, events)), len(only(ModelCommitted, events))


def test_a_run_in_which_nobody_is_late():
    late, _ = dropped({**SPEC, "algorithm": "fedavg", "choose": "uniform"})
    assert dropped(SPEC) == (0, 4) and late > 5


def test_it_is_served_on_a_real_network():
    check_servable(assemble(resolve(SPEC)).plan, 40)


# ---- the paper's interval ---------------------------------------------------------------------------------------------


def seen_with(steps, *totals):
    given_ = roster(*totals)
    return replace(given_, stats={**given_.stats, "steps": np.full(len(totals), steps)})


def test_the_interval_is_the_kth_smallest_time_and_work_fits_it():
    # Half of each total is computing, half transfer. T = 20: (20 - 5) / 5 = 3 passes; one; one of a half, or what fits.
    given_ = seen_with(7.0, 10.0, 40.0, np.inf, 20.0)
    asked = timely_interval(k=2).pick({}, given_, 4, Draw(1, 0))
    assert dict(zip(asked.clients.tolist(), asked.steps.tolist(), strict=True)) == {0: 21, 3: 0, 9: 0}
    assert dict(zip(asked.clients.tolist(), asked.settings["portion"], strict=True)) == {0: 1.0, 3: 0.5, 9: 1.0}
    assert asked.due == pytest.approx(20.0) and asked.due > 20.0
    fits = timely_interval(k=2, portion="in_time").pick({}, given_, 4, Draw(1, 0))
    assert dict(zip(fits.clients.tolist(), fits.settings["portion"], strict=True)) == pytest.approx({0: 1.0, 3: 1 / 7, 9: 1.0})
    few = timely_interval(k=2, portion="in_time", least=0.2).pick({}, given_, 4, Draw(1, 0))
    assert sorted(few.clients.tolist()) == [0, 9] and few.due == asked.due
    assert timely_interval(k=2, most_passes=2).pick({}, given_, 4, Draw(1, 0)).steps.max() == 14


def test_with_k_at_the_cohort_everyone_does_the_whole_work_or_more():
    given_ = seen_with(3.0, *np.linspace(1.0, 9.0, 30))
    asked = timely_interval(k=7).pick({}, given_, 7, Draw(4, 2))
    assert asked.clients.tolist() == uniform().pick({}, given_, 7, Draw(4, 2)).clients.tolist()
    assert set(asked.settings["portion"]) == {1.0}
    total = np.linspace(1.0, 9.0, 30)[asked.clients // 3]
    expected = np.maximum(np.floor((total.max() - total / 2) / (total / 2) + 1e-9), 1.0)
    assert asked.steps.tolist() == [0 if e == 1.0 else 3 * e for e in expected]
    assert timely_interval(k=99).pick({}, given_, 7, Draw(4, 2)).due == asked.due


def test_steps_that_nobody_can_foresee_are_left_to_the_algorithm():
    asked = timely_interval(k=2).pick({}, seen_with(np.nan, 10.0, 40.0), 2, Draw(1, 0))
    assert asked.steps.tolist() == [0, 0]
    assert len(timely_interval().pick({}, seen_with(1.0, np.inf), 1, Draw(1, 0)).clients) == 0


@given(times, times, st.floats(0.0, 5.0), st.floats(1.0, 300.0))
def test_as_many_passes_as_fit(compute, transfer, latency, seconds):
    columns = (compute + latency, transfer + latency, latency, latency)
    (result,) = passes(*(np.array([v]) for v in columns), seconds=seconds)
    assert result >= 1
    if result > 1:
        assert result * compute + transfer + latency <= seconds + 1e-6 * (1 + compute)


def test_a_run_by_intervals_has_k_reports_and_those_who_fit():
    spec = {**SPEC, "choose": {"use": "timely_interval", "k": 4, "portion": "in_time", "least": 0.15, "most_passes": 3}}
    setup, events = assemble(resolve(spec)), []
    with open_executor(setup) as execute:
        simulate(setup.plan, setup.world, execute, watch=events.extend)
    sent, made = only(TasksSent, events), only(ModelCommitted, events)
    assert len(made) == 4 and all(e.folded >= 4 for e in made)
    assert not only(TasksDropped, events), "who was asked is in time"
    assert any(e.steps.any() for e in sent) and any((e.settings["portion"] < 1.0).any() for e in sent)
    assert all(later.time - e.time <= e.due + 20.0 + 1e-6 for e, later in pairwise(sent))
    assert len({e.due for e in sent}) > 1, "each round has its own interval"
