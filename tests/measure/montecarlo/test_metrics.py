"""The six metrics: the released program's values, the printed ones, and laws that need no data."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import (
    StateTable,
    device_table,
    take_states,
)
from fedfleet.measure.montecarlo import reference_simulation
from fedfleet.measure.montecarlo.metrics import (
    NAMES,
    available_metrics,
    map_in_threads,
    measure,
    per_state,
    ratio,
    simulate,
    state_scores,
)
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.world.bases import load_devices, load_states
from tests.real import device_case, needs_data, state_case
from tests.worlds import traces_of

pytestmark = pytest.mark.slow

# The table of what the released program gives: case -> DevMC-R, DevMC-T, StatMC-R, StatMC-R at the deadline, StatMC-T.
RELEASED = {
    1: (0.8300, 7.884, 0.80604, 0.7523, 212.0),
    2: (0.9041, 8.284, 0.82180, 0.7780, 164.0),
    3: (0.9198, 9.339, 0.88665, 0.8581, 146.0),
    4: (0.9293, None, 0.95884, 0.9560, 35.3),
}


@needs_data
@pytest.mark.parametrize("case", RELEASED)
def test_released_semantics_give_the_published_programs_values(case):
    devices, states = load_devices(device_case(case)), load_states(state_case(case))
    asked = Settings(semantics="released")
    dev_r, dev_t, stat_r, at_deadline, stat_t = RELEASED[case]
    assert measure("DevMC-R", asked, devices, None).value == pytest.approx(dev_r, abs=0.01)
    if dev_t is not None:
        assert measure("DevMC-T", asked, devices, None).value == pytest.approx(dev_t, rel=0.02)
    assert measure("StatMC-R", asked, None, states).value == pytest.approx(stat_r, abs=0.01)
    alone = Settings(semantics="released", t_cost="deadline")
    assert measure("StatMC-R", alone, None, states).value == pytest.approx(at_deadline, abs=0.002)
    rel = 0.25 if case == 1 else 0.1
    assert measure("StatMC-T", asked, None, states, seeds=20).value == pytest.approx(stat_t, rel=rel)


@needs_data
def test_interplay_lies_where_the_released_program_puts_it():
    asked = Settings(semantics="released")
    first = measure("InterMC-R", asked, load_devices(device_case(1)), load_states(state_case(1)))
    last = measure("InterMC-R", asked, load_devices(device_case(4)), load_states(state_case(4)))
    assert first.value == pytest.approx(0.591, abs=0.01)
    assert last.value == pytest.approx(0.899, abs=0.01)


@needs_data
@pytest.mark.parametrize(("case", "device", "state"), [(1, 0.806, 0.752), (2, 0.896, 0.778), (3, 0.918, 0.858), (4, 0.928, 0.956)])
def test_paper_semantics_give_the_printed_values(case, device, state):
    devices, states = load_devices(device_case(case)), load_states(state_case(case))
    assert measure("DevMC-R", Settings(), devices, None).value == pytest.approx(device, abs=0.005)
    assert measure("StatMC-R", Settings(t_cost="deadline"), None, states).value == pytest.approx(state, abs=0.002)


@needs_data
def test_true_bytes_give_what_the_units_of_the_released_program_hide():
    true = Settings(size_kb=85800194 * 4 / 1000)
    for case, value in ((1, 0.765), (2, 0.883), (3, 0.912), (4, 0.924)):
        assert measure("DevMC-R", true, load_devices(device_case(case)), None).value == pytest.approx(value, abs=0.005)


def test_laws_of_the_ratio():
    asked = Settings(k=2, rounds=50)
    assert ratio(asked, np.full(5, 20)) == pytest.approx(1.0)
    assert ratio(asked, np.full(5, 2000)) == pytest.approx(1.0), "successes beyond the ideal do not count"
    assert ratio(asked, np.zeros(5, np.int64)) == 0.0


def test_an_ideal_fleet_is_ideal():
    fast = device_table([str(i) for i in range(10)], [[1e9]] * 10, [0.0] * 10)
    always = StateTable(np.array(["a"] * 10), traces_of([((0.0, 100.0),)] * 10, [100.0] * 10))
    asked = Settings(k=10, rounds=100, trips=100, deadline=50.0)
    assert measure("DevMC-R", asked, fast, None).value == pytest.approx(1.0)
    assert measure("StatMC-R", asked, None, always).value == pytest.approx(1.0)
    assert measure("InterMC-R", asked, fast, always).value == pytest.approx(1.0)
    assert measure("DevMC-T", asked, fast, None).value == pytest.approx(1.0, abs=0.01), "only t_break passes"


def test_success_at_exactly_the_deadline_counts():
    always = StateTable(np.array(["a"] * 4), traces_of([((0.0, 100.0),)] * 4, [100.0] * 4))
    asked = Settings(k=4, rounds=10, deadline=60.0)
    assert simulate(asked, None, always, seed=0, t_cost=60.0, by_deadline=True)[0].sum() == 40
    assert simulate(asked, None, always, seed=0, t_cost=60.001, by_deadline=True)[0].sum() == 0


def test_seeds_and_the_standard_error():
    devices = device_table([str(i) for i in range(20)], [[20000.0, 60000.0]] * 20, [0.3] * 20)
    asked = Settings(k=5, rounds=40)
    one = measure("DevMC-R", asked, devices, None, seeds=1)
    assert one.sd == 0.0
    three = measure("DevMC-R", asked, devices, None, seeds=3)
    assert three.values[0] == one.value
    assert three.sd == pytest.approx(np.std(three.values, ddof=1))
    fine = measure("DevMC-R", asked, devices, None, seeds=2, until_se=0.002)
    assert fine.sd / math.sqrt(len(fine.values)) <= 0.002
    assert len(fine.values) > 2
    again = measure("DevMC-R", asked, devices, None, seeds=3, threads=1)
    assert again.values.tolist() == three.values.tolist(), "threads change nothing"


def test_what_can_be_measured_depends_on_what_is_there():
    devices = device_table(["a", "b"], [[1e4]] * 2, [0.1] * 2)
    states = StateTable(np.array(["a", "b"]), traces_of([((0.0, 9.0),)] * 2, [10.0] * 2))
    assert available_metrics(devices, None) == ["DevMC-R", "DevMC-T"]
    assert available_metrics(None, states) == ["StatMC-R", "StatMC-T"]
    assert available_metrics(devices, states) == list(NAMES)
    with pytest.raises(BadInput, match="InterMC both"):
        measure("InterMC-R", Settings(k=1), devices, None)
    with pytest.raises(BadInput, match="cannot be chosen from a fleet of 2"):
        measure("DevMC-R", Settings(k=3), devices, None)
    with pytest.raises(BadInput, match="row i of each is client i"):
        measure("InterMC-R", Settings(k=1), devices, StateTable(np.array(["a"]), traces_of([((0.0, 9.0),)], [10.0])))


def test_a_fleet_that_rounds_never_meet_is_refused_instead_of_waited_for():
    # Rounds begin every 20 s; these clients are ready at odd multiples of 10 s only.
    odd = StateTable(np.array(["a", "b"]), traces_of([((10.0, 11.0),), ((30.0, 32.0),)], [20.0, 40.0]))
    asked = Settings(k=1, rounds=50, trips=10)
    for semantics in ("paper", "released"):
        with pytest.raises(BadInput, match="StatMC-T: rounds begin every 20 s, and no client is ever ready"):
            measure("StatMC-T", replace(asked, semantics=semantics), None, odd)
    assert measure("StatMC-R", asked, None, odd).value == 0.0
    assert reference_simulation.simulate(asked, None, odd, seed=0, t_cost=1.0, by_deadline=False) == ([0, 0], math.inf)
    assert math.isfinite(measure("StatMC-T", replace(asked, t_break_asked=7.0), None, odd).value)


def test_single_states_are_scored_and_named():
    spans = [((0.0, 100.0),), ((0.0, 2.0),), ((0.0, 100.0),)]
    states = StateTable(np.array(["good", "bad", "good"]), traces_of(spans, [100.0] * 3))
    scores = state_scores(Settings(k=3, rounds=100, deadline=50.0), states)
    assert scores[0] == scores[2] == 1.0
    assert scores[1] < 0.2
    assert per_state(states, scores) == {"bad": scores[1], "good": 1.0}
    shared = take_states(states, np.array([1, 1, 2, 0]))
    assert per_state(shared, np.array([0.5, 0.25, 1.0, 0.5])) == {"bad": 0.375, "good": 0.75}


def test_rounds_that_take_ages_end_where_the_literal_version_ends():
    # 1 kbit/s for a large model: each round lasts longer than a whole turn of the ring of buckets.
    devices = device_table(["a", "b", "c"], [[1.0], [1.5], [2.0]], [0.0] * 3)
    states = StateTable(np.array(["a", "b", "c"]), traces_of([((0.0, 9.0),), ((3.0, 40.0),), ((50.0, 99.0),)], [100.0] * 3))
    for semantics in ("paper", "released"):
        asked = Settings(k=2, rounds=6, trips=8, semantics=semantics)
        for by_deadline in (True, False):
            fast = simulate(asked, devices, states, seed=3, t_cost=1.0, by_deadline=by_deadline)
            slow = reference_simulation.simulate(asked, devices, states, seed=3, t_cost=1.0, by_deadline=by_deadline)
            assert fast[0].tolist() == slow[0] and fast[1] == pytest.approx(slow[1])


def test_whoever_is_told_to_stop_stops():
    devices = device_table(["a", "b"], [[1e4]] * 2, [0.1] * 2)
    simulate(
        Settings(k=1, rounds=2_000_000_000),
        devices,
        None,
        seed=0,
        t_cost=1.0,
        by_deadline=True,
        stop=np.ones(1, np.uint8),
    )


def test_work_in_threads_answers_in_order_and_passes_errors_on():
    assert map_in_threads(lambda item, stop: item * 2, range(9), 3) == list(range(0, 18, 2))
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda item, stop: 1 // item, [1, 0, 2], 2)


def test_short_pauses_see_a_whole_period_before_they_give_up():
    states = StateTable(np.array(["a"]), traces_of([((50.0, 99.0),)], [100.0]))
    assert Settings(t_break_asked=20.0).most_empty_rounds(states) == 101
    assert Settings(t_break_asked=0.001).most_empty_rounds(states) == 100_001
    assert Settings(t_break_asked=1e-12).most_empty_rounds(states) == 100_000_001
