"""Real traces for tests: read through $FEDFLEET_DATA, by default beside the checkout; absent data skips, and says so."""

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("FEDFLEET_DATA", Path(__file__).parents[2] / "shared" / "data"))
needs_data = pytest.mark.skipif(not (ROOT / "flhetbench").is_dir(), reason=f"the real traces are not in {ROOT} ($FEDFLEET_DATA)")
DEVICE_BASE = f"flhetbench:{ROOT}/flhetbench/device/base_union_168devices.json"
STATE_BASE = f"flhetbench:{ROOT}/flhetbench/state/cached_timers.json"


def device_case(i):
    """FLHetBench's device case, mild (1) to severe (4)."""
    return f"flhetbench:{ROOT}/flhetbench/device/case{i}.json"


def state_case(i):
    """FLHetBench's state case, severe (1) to mild (4)."""
    return f"{STATE_BASE}#{ROOT}/flhetbench/state/state_case{i}.json"
