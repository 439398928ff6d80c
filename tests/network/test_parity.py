"""The same spec, simulated and over a real network, ends with the same model, bit for bit; and the wire's journal replays."""

import pytest

from fedfleet.app.runs.run_audit import replay_run
from tests.network.fleets import METHODS, fleet
from tests.network.harness import PATIENT

pytestmark = pytest.mark.slow


def served_as_simulated(folder, algorithm, clients, cohort=None, processes=1, rounds=2):
    with fleet(folder, algorithm, clients=clients, cohort=cohort, rounds=rounds) as made:
        made.serve("--devices", str(clients), "--patience", "120")
        for n in range(processes):
            made.start(*range(n, clients, processes))
        assert made.place.ended(2 * PATIENT) == 0, made.said()
        assert made.place.last_model() == made.simulated()
        told = replay_run(made.place.out)
        assert told["ok"]
        assert told["kind"] == "served"
        assert "models" in told["verified"]


@pytest.mark.slow
def test_devices_end_as_their_simulation_does(tmp_path):
    served_as_simulated(tmp_path, METHODS["fedrep"], clients=4)  # whose heads stay at home; the other methods in the soak


@pytest.mark.soak
@pytest.mark.parametrize("method", METHODS)
def test_twenty_devices_end_as_their_simulation_does(method, tmp_path):
    served_as_simulated(tmp_path, METHODS[method], clients=20)


@pytest.mark.slow
def test_so_does_a_cohort_that_is_smaller_than_its_fleet(tmp_path):
    served_as_simulated(tmp_path, METHODS["scaffold"], clients=6, cohort=3, rounds=3)
