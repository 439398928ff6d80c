"""The same spec with edges, simulated and over a network with real edges and devices, ends with the same model, bit for bit."""

import pytest

from fedfleet.app.runs.run_audit import replay_run
from tests.network.edge.people import EXACT, FEDGS, HIERFL, SHUFFLE, SOME, people
from tests.network.harness import PATIENT


def served_as_simulated(folder, edge, edges, each, rounds=3, algorithm="fedavg"):
    with people(folder, edge, edges=edges, each=each, rounds=rounds, algorithm=algorithm) as fleet:
        fleet.start()
        assert fleet.place.ended(5 * PATIENT) == 0, fleet.said()
        assert fleet.place.last_model() == fleet.simulated()
        told = replay_run(fleet.place.out)
        assert told["ok"]
        assert "models" in told["verified"]


@pytest.mark.soak
@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox"])
@pytest.mark.parametrize(
    "edge", [HIERFL, EXACT, SOME, FEDGS, SHUFFLE], ids=["hierfl", "exact sums", "some devices", "fedgs", "shufflefl"]
)
def test_four_users_with_three_devices_end_as_their_simulation_does(edge, algorithm, tmp_path):
    served_as_simulated(tmp_path, edge, 4, 3, algorithm=algorithm)
