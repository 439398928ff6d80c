"""A study of 24 runs that is killed twice."""

import pytest

from tests.app.studies.killing import proven


@pytest.mark.parametrize("draws", [1, 2])
def test_a_study_of_24_runs_killed_twice_ends_with_the_same_bytes(tmp_path, draws):
    proven(tmp_path, lrs=[0.02, 0.05, 0.1, 0.2], seeds=6, rounds=30, kills=2, draws=draws)
