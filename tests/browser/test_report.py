"""The report of a run, as a reader sees it: wide and on a phone, light and dark."""

import pytest

from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve

pytestmark = pytest.mark.slow

SPEC = {
    "seed": 5,
    "task": "digits_logreg",
    "world": {
        "clients": 30,
        "model_bytes": 6e7,
        "devices": {"use": "spread", "mbps": 30.0, "link": 0.9},
        "states": {"use": "daily", "ready": 0.7},
        "data": {"use": "dirichlet", "alpha": 0.2},
    },
    "pace": {"use": "deadline", "cohort": 8, "seconds": 50.0, "min_clients": 2},
    "stop": {"rounds": 20},
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Addresses by name: a hard deadline, waiting for all, a run without any model."""
    folder = tmp_path_factory.mktemp("reports")
    paces = {
        "severe-deadline": SPEC["pace"],
        "mild-readiness": {"use": "readiness", "cohort": 8},
        "no-model": {**SPEC["pace"], "seconds": 1.0},
    }
    return {name: write_report(perform(resolve({**SPEC, "pace": pace}), folder / name)) for name, pace in paces.items()}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1100, 390])
@pytest.mark.parametrize("name", ["severe-deadline", "mild-readiness", "no-model"])
def test_a_report_can_be_read(look, reports, name, width, dark):
    sight = look(reports[name], width=width, dark=dark)
    assert sight.faults() == [] and sight.crowded() == []


def test_charts_have_data_and_the_drawing_that_fits_is_seen(look, reports):
    for width, shown, hidden in ((1100, "wide", "slim"), (390, "slim", "wide")):
        page = look(reports["severe-deadline"], width=width).page
        seen = page.locator(f"figure .{shown} svg:visible")
        assert seen.count() >= 6 and page.locator(f"figure .{hidden} svg:visible").count() == 0
        for i in range(seen.count()):
            assert seen.nth(i).locator("path, rect, circle").count() > 0, "a picture without marks"


def test_the_axis_can_be_switched_by_a_click_and_by_the_keyboard(look, reports):
    page = look(reports["severe-deadline"]).page
    assert page.locator(".shown.n1").is_visible() and not page.locator(".shown.n2").is_visible()
    page.get_by_text("models", exact=True).click()
    assert page.locator(".shown.n2").is_visible() and not page.locator(".shown.n1").is_visible()
    page.keyboard.press("ArrowRight")
    assert page.locator(".shown.n3").is_visible()


def test_print_uses_light_colours_the_wide_drawing_and_all_axes(look, reports):
    sight = look(reports["severe-deadline"], width=390, dark=True)
    sight.page.emulate_media(media="print", color_scheme="dark")
    assert sight.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert sight.page.locator(".slim svg:visible").count() == 0 and sight.page.locator(".shown:visible").count() == 3
