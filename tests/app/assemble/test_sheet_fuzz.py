"""Sheets that no honest server sends: a device refuses them, or builds what they say, in little memory. The soak has more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SHEETS = 150


def fuzzed(seed, sheets):
    """What a process with little memory says of so many malformed sheets."""
    words = [sys.executable, "-m", "tests.app.assemble.sheet_fuzzing", str(seed), str(sheets)]
    done = subprocess.run(words, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(result, sheets):
    """No sheet may do what none may do."""
    assert result["broken"] == []
    assert result["outcomes"]["taken"] + result["outcomes"]["refused"] == sheets
    assert result["outcomes"]["refused"] > 0.5 * sheets
    assert result["outcomes"]["taken"] > 0.05 * sheets
    assert result["slowest"][0] < 2.0
    assert result["grown_kb"] < 100_000


@pytest.mark.slow
def test_malformed_sheets():
    check(fuzzed(1, SHEETS), SHEETS)
