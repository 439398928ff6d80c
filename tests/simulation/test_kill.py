"""A run killed at any moment resumes to the same digest and the same model bytes; `make soak` tries many more moments."""

import pytest

from tests.simulation.killing import SCENARIOS, kill_and_resume

pytestmark = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_killed_run_resumes_to_the_same_bytes(name, tmp_path):
    kill_and_resume(name, tmp_path, kills=2)
