"""SIGKILL at twenty random moments of every scenario."""

import pytest

from tests.simulation.killing import SCENARIOS, kill_and_resume


@pytest.mark.parametrize("name", SCENARIOS)
def test_twenty_killed_runs_resume_to_the_same_bytes(name, tmp_path):
    kill_and_resume(name, tmp_path, kills=20)
