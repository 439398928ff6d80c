"""How hard a spec's fleet is under its own pacing."""

import numpy as np
import pytest

from fedfleet.app.assemble.world import devices_for, states_for
from fedfleet.app.fleets.hardness import hardness, share_word, table_from_draws, tables_of, wait_word
from fedfleet.app.spec import resolve
from fedfleet.core.fleet import mean_kbps
from fedfleet.core.rng import client_keys
from fedfleet.world.states import interval_states

WORLD = {"clients": 20, "model_bytes": 3e8, "devices": {"use": "dpgmm"}, "states": {"use": "dpcsm", "rounds": 50}}
SPEC = {"world": WORLD, "pace": {"use": "deadline", "cohort": 4, "seconds": 120.0}}


def spec_of(**more):
    return resolve({**SPEC, **more})


def test_a_deadline_is_measured_as_a_share_and_both_together_are_no_easier_than_either():
    result = hardness(spec_of(), 10.0, 60)
    assert list(result.measures) == ["DevMC-R", "StatMC-R", "InterMC-R"] and result.settings.k == 4 and result.settings.rounds == 60
    shares = [m.plain for m in result.measures.values()]
    assert all(0 <= s <= 1 for s in shares) and shares[2] <= shares[0] + 0.02


def test_a_longer_deadline_is_easier_and_waiting_is_measured_in_seconds():
    result = [hardness(spec_of(pace={**SPEC["pace"], "seconds": s}), 10.0, 60).measures for s in (60.0, 600.0)]
    assert result[1]["InterMC-R"].plain > result[0]["InterMC-R"].plain
    waits = hardness(spec_of(pace={"use": "readiness", "cohort": 4, "t_break": 20.0}), 10.0, 60).measures
    assert list(waits) == ["DevMC-T", "StatMC-T", "InterMC-T"] and waits["InterMC-T"].plain > waits["DevMC-T"].plain > 20.0


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"pace": {"use": "buffered", "concurrency": 4, "k": 2}}, "paced by buffered"),
        ({"world": {**WORLD, "model_bytes": None}}, "world.model_bytes"),
        ({"world": {**WORLD, "clients": 30_000}}, "more than 20,000"),
    ],
)
def test_what_means_nothing_is_not_measured_and_said(changed, why):
    cleaned = {**SPEC, **changed}
    cleaned["world"] = {k: v for k, v in cleaned["world"].items() if v is not None}
    result = hardness(resolve(cleaned), 10.0, 10)
    assert not result.measures and why in result.missing_reason


def test_daily_sessions_are_measured_as_the_run_has_them():
    spec = resolve({"world": {"clients": 6, "states": {"use": "daily", "sessions": 4}}})
    states = tables_of(spec)[1]
    source = states_for(spec.world, client_keys(6), spec.fleet_seed)
    for time in (0.0, 20_000.0, 90_000.0):
        assert source.online(time).tolist() == interval_states(states.traces).online(time).tolist()


def test_words_follow_the_figures():
    assert [share_word(s) for s in (1.0, 0.6, 0.3, 0.0)] == [wait_word(t) for t in (1.0, 3.0, 10.0, 1e9)]


def test_devices_without_a_table_are_drawn_from_their_source():
    spec = resolve({"world": {"clients": 6, "devices": {"use": "spread", "link": 0.8}, "states": {"use": "daily"}}})
    devices, states, missing = tables_of(spec)
    assert len(devices) == 6 and states is not None and not missing
    alike = table_from_draws(devices_for(resolve({"world": {"clients": 3}}).world, client_keys(3), 0), 3)
    assert mean_kbps(alike) == pytest.approx(np.full(3, 42_000.0)) and alike.seconds_per_sample == pytest.approx(np.full(3, 0.05))
