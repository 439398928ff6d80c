"""SIGKILL of each process of a server at twenty random moments, alone and in turn."""

import pytest

from tests.network.killing import KILLS, kill_and_prove
from tests.network.toys import Toy


@pytest.mark.parametrize("kind", KILLS)
@pytest.mark.parametrize("collects", [False, True], ids=["streaming", "collecting"])
def test_twenty_kills_of_one_kind_change_no_bit(kind, collects, tmp_path):
    kill_and_prove(tmp_path, Toy(clients=8, cohort=6, rounds=60, collects=collects), [kind], kills=20, seed=11)


@pytest.mark.parametrize("seed", [21, 22])
def test_twenty_kills_of_all_kinds_change_no_bit(seed, tmp_path):
    kill_and_prove(tmp_path, Toy(clients=8, rounds=60, width=4096), list(KILLS), kills=20, seed=seed, transmitters=3)
