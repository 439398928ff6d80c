"""The small pages, as a reader sees them: a fleet, an exchange of samples, what a kinder fleet would have changed."""

import pytest

from fedfleet.app.fleets.fleet_samples import sample_devices, sample_states
from fedfleet.app.fleets.sample_exchange import solve_file
from fedfleet.app.pages.exchange_page import user_page
from fedfleet.app.pages.explanation_page import explain_page
from fedfleet.app.pages.fleet_pages import devices_page, states_page, successes_page
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.shuffle import problem_from
from tests.app.api.test_shuffle import USER
from tests.app.pages.test_explanation_page import FOUND
from tests.app.specs import fleet

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    problem = problem_from(USER)
    devices, states = map(str, fleet(folder))
    made = {
        "devices": devices_page(sample_devices({"use": "dpgmm"}, 300, 0)),
        "states": states_page(sample_states({"use": "uniform"}, 100, 0)),
        "successes": successes_page(devices, states, Settings(k=5, rounds=60)),
        "exchange": user_page(problem, solve_file(problem, solver="exact", quick=True, limit=1.0)),
        "explain": explain_page("", FOUND, "mine"),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text)
    return folder


@pytest.mark.parametrize("name", ["devices", "states", "successes", "exchange", "explain"])
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (390, True)])
def test_a_small_page_can_be_read(look, pages, name, width, dark):
    sight = look(pages / f"{name}.html", width=width, dark=dark)
    assert sight.faults() == [] and sight.crowded() == []
