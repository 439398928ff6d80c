"""The demo's page."""

from fedfleet.app.demo import demo_findings
from fedfleet.app.demo.demo_runs import FLEETS, WAYS
from fedfleet.app.pages.demo_page import demo_page, fleet_sides
from tests.app.demo.doing import demo_of


def test_the_page_answers_first_and_shows_everything(tiny_run):
    done, path = demo_of([tiny_run.out]), tiny_run.out.parent / "index.html"
    page = demo_page(done, path)
    parts = [
        "<h1>",
        "How sure?",
        "What was tried",
        "54 runs",
        "Who took part",
        "Where the time went",
        "What it cost",
        "One person, several devices",
    ]
    places = [page.index(part) for part in (*parts, "How to check it")]
    assert places == sorted(places)
    assert demo_findings.headline(done) in page.replace("\u00a0", " ")
    assert all(text in page for text, _ in FLEETS.values()) and all(name in page for name in WAYS)
    sides = fleet_sides(done, path)
    assert len(sides) == 18 and {side.colour for side in sides} == {1, 2, 3}
    assert page.count('href="out/report.html"') >= 18 * 4, "every row and every seed opens its run"
