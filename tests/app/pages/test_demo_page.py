"""The demo's page."""

from html import escape

import pytest

from fedfleet.app.demo import demo_findings
from fedfleet.app.demo.demo_study import FLEETS, METHODS, USERS, WAYS
from fedfleet.app.pages.demo_page import demo_page, exchange_of_one_user, fleet_sides, users_section, users_sentence
from tests.app.demo.doing import demo_of
from tests.app.pages.sides.arms import compared
from tests.app.pages.sides.looks import made, side

pytestmark = pytest.mark.slow


def test_the_page_answers_first_and_shows_everything(tiny_run):
    done, path = demo_of([tiny_run.out]), tiny_run.out.parent / "index.html"
    page = demo_page(done, path)
    parts = [
        "<h1>",
        "How sure?",
        "What was tried",
        "90 runs",
        "Participation",
        "Where the time went",
        "Cost",
        "One person, several devices",
    ]
    places = [page.index(part) for part in (*parts, "How to check it")]
    assert places == sorted(places)
    assert escape(demo_findings.headline(done)) in page.replace("\u00a0", " ")
    assert all(text in page for text in FLEETS.values()) and all(name in page for name in WAYS)
    sides = fleet_sides(done, path)
    assert len(sides) == 9 and {side.colour for side in sides} == {1, 2, 3}
    assert page.count('href="out/report.html"') >= 9 * 11, "every row and every seed opens its run"


def test_how_much_faster_sharing_is_is_computed():
    slow, fast = ([compared([*[0.1] * n, 0.9], seed=s) for s, n in enumerate(steps)] for steps in ((4, 4, 4, 5), (2, 2, 2, 2)))
    done = {(USERS, way): fast if way == "ShuffleFL" else slow for way in METHODS}
    assert "'ShuffleFL' reaches 80 % 2.1 times as fast as" in users_sentence(done)
    page = users_section(done, [side(way, made([0.1, 0.9])) for way in METHODS])
    assert "Exchange of samples" in page and page.count("<svg") >= 4


def test_what_is_never_reached_is_not_compared():
    done = {(USERS, way): [compared([0.1, 0.2])] for way in METHODS}
    assert "times as fast" not in users_sentence(done)


def test_the_user_that_is_shown_has_most_devices_and_some_data():
    problem = exchange_of_one_user(0)
    assert problem.counts.shape == (5, 10)
    assert problem.counts.sum() > 20
