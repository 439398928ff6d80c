"""SIGKILL at random moments: the finished model is bit-identical, nothing acknowledged is lost, nothing counts twice.

`make soak` kills each twenty times.
"""

import pytest

from tests.network.killing import KILLS, kill_and_prove
from tests.network.toys import Toy

pytestmark = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("kind", KILLS)
def test_a_killed_server_ends_with_the_same_bits(kind, tmp_path):
    kill_and_prove(tmp_path, Toy(clients=6, rounds=12), [kind], kills=2)


@pytest.mark.soak
def test_so_does_one_whose_cohort_is_smaller_than_its_fleet(tmp_path):
    kill_and_prove(tmp_path, Toy(clients=8, cohort=5, rounds=12), list(KILLS), kills=3, seed=2)


@pytest.mark.soak
def test_so_does_one_whose_fold_collects(tmp_path):
    kill_and_prove(tmp_path, Toy(clients=5, rounds=12, collects=True), list(KILLS), kills=3, seed=3)


@pytest.mark.parametrize("collects", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_so_does_one_whose_sums_are_encrypted_until_their_noise_is_in_them(tmp_path, collects):
    toy = Toy(clients=6, rounds=12, noise=0.5)
    kill_and_prove(tmp_path, toy, list(KILLS), kills=3, seed=5, keep_reports=collects)


@pytest.mark.soak
def test_so_does_one_in_a_single_process(tmp_path):
    kill_and_prove(tmp_path, Toy(clients=5, rounds=10), ["whole server"], kills=2, seed=4, transmitters=0)
