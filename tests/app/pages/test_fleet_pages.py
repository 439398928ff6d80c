"""Pages about fleets."""

import re

import numpy as np
import pytest

from fedfleet.app.fleets.fleet_samples import sample_devices
from fedfleet.app.pages.fleet_pages import (
    devices_page,
    distribution_figure,
    hourly_availability,
    states_page,
    successes_page,
)
from fedfleet.core.fleet import StateTable, take_devices
from fedfleet.core.intervals import traces
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.canonical_files import write_devices
from tests.app.specs import fleet


def test_a_histogram_counts_everything():
    text = distribution_figure("Speeds", np.array([1.0, 1.1, 5.0]), "Mbit/s", bins=4).partition('class="slim"')[0]
    assert re.findall(r'text-anchor="middle">(\d)<', text) == ["2", "1", "1"], "two, the first range's foot, one"
    assert "4 equal ranges, 1 to 5 Mbit/s" in text and "1 to 5 Mbit/s, 1.1 in the middle, of 3." in text


def test_hours_of_the_day_are_told_apart(tmp_path):
    states = load_states(str(fleet(tmp_path)[1]))  # ready from about 0:00 to about 11:30
    hours = hourly_availability(states)
    assert hours.shape == (24,) and hours[5] == 1.0 and hours[20] == 0.0
    day, n = np.full(3, 86400.0), np.arange(4)
    always = StateTable(np.array(["always"] * 3), traces(np.zeros(3), day, n, np.zeros(3), day))
    assert hourly_availability(always).tolist() == [1.0] * 24


def test_pages_say_how_many_and_how_different(tmp_path):
    devices, states = map(str, fleet(tmp_path))
    assert "30 clients with 7 different devices" in devices_page(load_devices(devices))
    assert "30 clients with 5 different states" in states_page(load_states(states))


@pytest.mark.parametrize(("with_devices", "with_states", "charts"), [(True, True, 3), (True, False, 1), (False, True, 1)])
def test_successes_are_drawn_for_what_is_given(tmp_path, with_devices, with_states, charts):
    devices, states = map(str, fleet(tmp_path))
    quick = Settings(k=5, rounds=60)
    text = successes_page(devices if with_devices else None, states if with_states else None, quick)
    assert text.count('role="img"') == 2 * charts
    assert "each would succeed 10 times" in text


def test_pages_do_not_grow_with_the_fleet(tmp_path):
    small, large = (sample_devices({"use": "dpgmm"}, n, 0) for n in (5_000, 200_000))
    assert len(devices_page(large)) < 1.1 * len(devices_page(small)) < 120_000
    write_devices(str(tmp_path / "d.npz"), take_devices(small, np.arange(5_000) % 4_999))
    text = successes_page(str(tmp_path / "d.npz"), None, Settings(k=5, rounds=60))
    assert len(text) < 120_000 and "a column is 12 clients" in text
