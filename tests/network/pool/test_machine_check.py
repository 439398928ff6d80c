"""What a machine can do is measured, and what it cannot do has its reason in one sentence."""

import pytest

from fedfleet.app.api.pool import check_text
from fedfleet.network.pool import machine_check
from fedfleet.network.pool.machine_check import Capability, check_machine


@pytest.fixture(autouse=True)
def own_records(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.soak
def test_each_limit_is_measured_or_has_a_reason():
    checked = check_machine()
    assert {one.limit for one in checked} == {"cpu", "memory", "network", "offline"}
    for one in checked:
        assert one.works or one.reason
        if one.works and one.wanted and one.limit != "network":  # a busy machine gives less, and no limit gives much more
            assert one.measured < 3 * one.wanted + 0.1
        if one.works and one.unit == "ms each way":
            assert one.measured >= one.wanted
        if one.works and one.limit == "offline":
            assert one.measured < 0.05


def test_without_control_groups_other_means_are_try_limit(monkeypatch):
    missing = {"cpu": "no groups here", "memory": "no groups here"}
    monkeypatch.setattr(machine_check, "make_groups", lambda name: machine_check.PoolGroups(None, None, missing))
    for name in ("_cpu_by_signals", "_network"):
        monkeypatch.setattr(machine_check, name, list)
    monkeypatch.setattr(machine_check, "_freezing", lambda: Capability("offline", "frozen process", 0.0, 0.0, "of a core"))
    checked = check_machine()
    assert [one.how for one in checked if one.reason == "no groups here"] == ["control group", "control group"]
    (refused,) = [one for one in checked if one.how.startswith("refused")]
    assert refused.works


def test_what_cannot_be_tried_is_no_error(monkeypatch):
    def broken(*_):
        raise OSError("no more processes")

    monkeypatch.setattr(machine_check, "_process", broken)
    assert machine_check._refused_memory().reason == "it could not be tried (no more processes)"


def test_a_line_for_each_limit():
    rows = [
        {"limit": "offline", "how": "frozen process", "wanted": 0.0, "measured": 0.0, "unit": "of a core", "works": True},
        {"limit": "memory", "how": "refused", "wanted": None, "measured": None, "unit": "", "works": True},
    ]
    assert check_text({"limits": rows}).splitlines() == [
        "offline  frozen process: 0 of a core measured, 0 wanted",
        "memory   refused: works",
    ]
