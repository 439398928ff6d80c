"""How hard a spec's fleet is under its own pacing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.assemble.world import devices_for
from fedfleet.app.fleets.hardness import drawn, fair_work, hardness, tables_of
from fedfleet.app.spec import resolve
from fedfleet.core.fleet import mean_kbps
from fedfleet.core.rng import client_keys

WORLD = {"clients": 20, "model_bytes": 3e8, "devices": {"use": "dpgmm"}, "states": {"use": "dpcsm", "rounds": 50}}
SPEC = {"world": WORLD, "pace": {"use": "deadline", "cohort": 4, "seconds": 120.0}}


def spec_of(**more):
    return resolve({**SPEC, **more})


@given(st.floats(0, 1), st.floats(10, 1e6))
def test_fair_work_undoes_the_logarithm(share, ideal):
    metric = np.log1p(share * ideal) / np.log1p(ideal)
    assert fair_work(float(metric), ideal) == pytest.approx(share, abs=1e-6)


def test_a_deadline_is_measured_as_a_share_and_both_together_are_no_easier_than_either():
    found = hardness(spec_of(), 10.0, 60)
    assert (
        list(found.measures) == ["DevMC-R", "StatMC-R", "InterMC-R"]
        and found.settings.k == 4
        and found.settings.rounds == 60
    )
    shares = [m.plain for m in found.measures.values()]
    assert all(0 <= s <= 1 for s in shares) and shares[2] <= shares[0] + 0.02


def test_a_longer_deadline_is_easier_and_waiting_is_measured_in_seconds():
    found = [hardness(spec_of(pace={**SPEC["pace"], "seconds": s}), 10.0, 60).measures for s in (60.0, 600.0)]
    assert found[1]["InterMC-R"].plain > found[0]["InterMC-R"].plain
    waits = hardness(spec_of(pace={"use": "readiness", "cohort": 4, "t_break": 20.0}), 10.0, 60).measures
    assert (
        list(waits) == ["DevMC-T", "StatMC-T", "InterMC-T"] and waits["InterMC-T"].plain > waits["DevMC-T"].plain > 20.0
    )


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
    found = hardness(resolve(cleaned), 10.0, 10)
    assert not found.measures and why in found.why_not


def test_devices_without_a_table_are_drawn_from_their_source():
    spec = resolve({"world": {"clients": 6, "devices": {"use": "spread", "link": 0.8}, "states": {"use": "daily"}}})
    devices, states, missing = tables_of(spec)
    assert (
        devices is not None and len(devices) == 6 and states is None and "daily cannot be put into a table" in missing
    )
    alike = drawn(devices_for(resolve({"world": {"clients": 3}}).world, client_keys(3), 0), 3)
    assert mean_kbps(alike) == pytest.approx(np.full(3, 42_000.0)) and alike.seconds_per_sample == pytest.approx(
        np.full(3, 0.05)
    )
