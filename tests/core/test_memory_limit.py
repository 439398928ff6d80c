"""Memory is counted before it is taken."""

import pytest

from fedfleet.core import memory_limit
from fedfleet.core.errors import BadInput


def test_half_of_the_machine_is_the_limit(monkeypatch):
    monkeypatch.setattr(memory_limit, "machine_bytes", lambda: 8 << 30)
    memory_limit.check_memory(4 << 30, "a fleet", "ask for fewer")
    with pytest.raises(BadInput, match="a fleet would take about 9 GB of memory, more than half of the 9 GB here; ask for"):
        memory_limit.check_memory(8 << 30, "a fleet", "ask for fewer")
    with pytest.raises(BadInput):
        memory_limit.check_memory(float("inf"), "a model", "make it smaller")


def test_the_smallest_limit_counts(tmp_path, monkeypatch):
    whole = memory_limit.machine_bytes()
    assert whole > 1 << 28
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "some").write_text("1000000\n")
    monkeypatch.setattr(memory_limit, "_GROUPS", (str(tmp_path / "max"), str(tmp_path / "none"), str(tmp_path / "some")))
    assert memory_limit.machine_bytes.__wrapped__() == 1_000_000
