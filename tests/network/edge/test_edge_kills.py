"""Edges, servers and devices that are killed and started again with the same command: the model is that of the simulation."""

import time

import pytest

from fedfleet.core.events import ModelCommitted, TaskArrived
from fedfleet.core.rng import stream
from tests.network.edge.people import EXACT, FEDGS, HIERFL, SHUFFLE, people
from tests.network.harness import PATIENT, wait_for

EDGES, EACH, ROUNDS = 4, 3, 24


def killed(folder, edge, kinds, kills, seed=1, rounds=ROUNDS):
    """Kill these in turn at moments that are spread over the run; how many kills met a process at work."""
    with people(folder, edge, edges=EDGES, each=EACH, rounds=rounds) as fleet:
        fleet.start()
        done = 0
        for n in range(kills):
            first, second, third = stream(seed, "edge kill", n).random(3)
            reports = int((n + first) * (rounds * EDGES) / (kills + 1))

            def look(reports=reports):
                server = fleet.place.server
                arrived = sum(isinstance(event, TaskArrived) for event in fleet.place.events())
                return arrived >= reports or server.poll() is not None

            wait_for(look, f"{reports} reports of edges", seconds=10 * PATIENT, said=fleet.said)
            time.sleep(0.3 * second)
            kind = kinds[n % len(kinds)]
            name = kind if kind == "server" else f"{kind}{int(third * EDGES)}"
            if not fleet.running(name) or not fleet.running("server"):
                break
            fleet.kill(name)
            done += 1
        assert fleet.place.ended(10 * PATIENT) == 0, fleet.said()
        assert done == kills, f"only {done} of {kills} kills met a run at work; make it longer"
        commits = [event for event in fleet.place.events() if isinstance(event, ModelCommitted)]
        assert len(commits) == rounds
        assert fleet.place.last_model() == fleet.simulated()
        for number in range(EDGES):
            wait_for(lambda number=number: not fleet.running(f"edge{number}"), f"end of edge {number}", said=fleet.said)
            assert fleet.processes[f"edge{number}"].returncode == 0, fleet.said()


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["edge", "server", "devices"])
@pytest.mark.parametrize("edge", [HIERFL, EXACT], ids=["several averages", "one average"])
def test_twenty_kills_change_nothing(kind, edge, tmp_path):
    killed(tmp_path, edge, [kind], 20)


@pytest.mark.soak
@pytest.mark.parametrize("edge", [FEDGS, SHUFFLE], ids=["fedgs", "shufflefl"])
def test_nor_do_kills_of_everybody_in_turn(edge, tmp_path):
    killed(tmp_path, edge, ["edge", "devices", "server"], 12)
