"""How long a turn of an edge takes, said before the run: what the run then takes."""

import pytest

import fedfleet
from fedfleet.app.assemble import assemble, feasibility_warnings
from fedfleet.app.assemble.edge_times import edge_times
from fedfleet.app.spec import resolve

pytestmark = pytest.mark.slow
WORLD = {"clients": 40, "model_bytes": 1e7, "devices": "spread", "users": {"use": "households"}}


def spec_of(**edge):
    table = {"edge": edge} if edge else {}
    return {"task": "digits_logreg", "world": WORLD, "pace": {"cohort": 4}, "stop": {"rounds": 3}, **table}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("edge", [{"use": "fedgs"}, {"use": "hierfl"}, {"use": "shufflefl"}])
def test_a_turn_takes_what_was_said(edge):
    spec = spec_of(**edge)
    setup = assemble(resolve(spec))
    times, result = edge_times(setup.plan, setup.world), fedfleet.run(spec)
    each = result.metrics["virtual_seconds"] / 3 - 20.0
    assert 0.5 * times.seconds < each < 4.0 * times.seconds, "a round waits for the slowest of four"
    assert any("averages" in w for w in feasibility_warnings(setup)) == (edge["use"] == "fedgs")


def test_a_flat_run_has_no_turns():
    setup = assemble(resolve(spec_of()))
    assert edge_times(setup.plan, setup.world) is None
