"""The demo's pages, from small runs."""

import pytest

from fedfleet.app.demo.study import FLEETS, PACES
from fedfleet.app.pages.demo import fleets_page

MEASURED = {"value": 0.5, "ci95": [0.4, 120.0], "seeds": 3, "notes": []}
METRICS = {f"{kind}-{form}": MEASURED for kind in ("DevMC", "StatMC", "InterMC") for form in "RT"}


@pytest.fixture
def page(tiny_run):
    runs = {(fleet, pace): tiny_run for fleet in FLEETS for pace in PACES}
    return fleets_page(runs, dict.fromkeys(FLEETS, METRICS))


def test_every_fleet_is_described_measured_and_shown(page):
    for fleet, (text, _) in FLEETS.items():
        assert text in page
        for pace in PACES:
            assert f"The {fleet} fleet under {pace}" in page
            assert f"<td>{fleet}, {pace}</td>" in page
    assert page.count(">0.500</td>") == 9, "three fleets, three metrics with a deadline"


def test_headings_of_the_metrics_are_grouped(page):
    assert page.count('colspan="3"') == 2
    assert page.count('role="img"') == 1 + 2 * len(FLEETS) * len(PACES)


def test_waiting_has_a_labelled_interval_and_its_notes(page, tiny_run):
    assert page.count(">0.5 [0.4 to 120]</td>") == 9
    assert "the 95 % interval of the mean over 3 seeds" in page
    noted = {**METRICS, "DevMC-T": {**MEASURED, "notes": ["one device, <x>, decides it"]}}
    told = fleets_page({("mild", "deadline"): tiny_run}, {"mild": noted})
    assert "mild: one device, &lt;x&gt;, decides it." in told
