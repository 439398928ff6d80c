"""Pages of several runs in a browser: comparison, study and demo, in light and dark, wide and on a phone."""

from html import escape

import pytest

from fedfleet.app.pages.comparison_page import write_comparison
from fedfleet.app.pages.demo_page import write_demo
from fedfleet.app.pages.html import page
from fedfleet.app.pages.sides.accuracy_figures import accuracy_figure
from fedfleet.app.pages.sides.run_rows import Head, html_table
from fedfleet.app.pages.sides.sections import PageFacts, checks, participation_section
from fedfleet.app.pages.sides.verdicts import verdict_list
from fedfleet.app.pages.study_page import write_pages
from fedfleet.app.pages.time_chart import time_section
from fedfleet.app.studies.compare.comparison import compare
from fedfleet.app.studies.grid.run_study import study
from fedfleet.app.studies.grid.study_file import study_of
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
from tests.app.demo.doing import demo_of
from tests.app.pages.sides.looks import side
from tests.app.pages.test_comparison_page import runs
from tests.app.pages.test_study_page import TABLE

pytestmark = pytest.mark.slow

__all__ = ["runs"]
SIGHTS = [(1100, False), (1100, True), (390, False), (390, True)]


def seen(look, path):
    """What is wrong with a page, however it is looked at."""
    return {
        f"{width} px, {'dark' if dark else 'light'}": result
        for width, dark in SIGHTS
        if (result := look(path, width=width, dark=dark).faults())
    }


def lines(page):
    """Lines that are drawn with more than one point, in the drawing that is seen."""
    return page.page.evaluate(
        "[...document.querySelectorAll('path.line')].filter(e => e.checkVisibility() && e.getTotalLength() > 50).length"
    )


def test_a_comparison(look, runs, tmp_path):
    path = write_comparison(compare(runs), tmp_path / "page.html")
    assert seen(look, path) == {}
    assert lines(look(path)) >= 4 and lines(look(path, width=390)) >= 4


def test_every_row_of_a_comparison_opens_its_run(look, runs, tmp_path):
    sight = look(write_comparison(compare(runs), tmp_path / "page.html"))
    sight.page.click("table.rows tbody tr:first-child a")
    assert sight.page.url.endswith("report.html") and sight.page.locator("h1").count() == 1


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    return study(
        study_of(TABLE),
        tmp_path_factory.mktemp("seen") / "s",
        worker_settings=WorkerSettings(1),
        tell=lambda said: None,
    )


def test_a_study(look, studied):
    path = write_pages(studied).page
    assert seen(look, path) == {}
    assert look(path).page.locator("svg circle").count() > 4


def test_the_demo(look, runs, tmp_path):
    path = write_demo(tmp_path, demo_of(runs))
    assert seen(look, path) == {}
    assert lines(look(path)) >= 4


def test_folded_parts_open(look, runs, tmp_path):
    sight = look(write_comparison(compare(runs), tmp_path / "page.html"), width=390, dark=True)
    for fold in sight.page.locator("summary").all():
        fold.click()
    assert sight.faults() == []


def test_names_that_never_break_stay_on_the_page(look, tmp_path):
    sides = [side("x" * 90), side("waiting <b> & " * 6), side("a")]
    heads = [
        Head("run"),
        *(Head(word) for word in ("accuracy", "worst tenth", "total time", "never took part", "traffic")),
    ]
    body = [
        verdict_list({"": ((), None)}, sides, None), accuracy_figure(sides[:1], target=0.95), accuracy_figure(sides),
        html_table(heads, [[escape(one.name), *["1,234 of 5,678"] * 5] for one in sides]),
        time_section(sides), participation_section(sides), checks(PageFacts("", "", names=[one.name for one in sides], differs={"seed": [1, 2, 3]})),
    ]  # fmt: skip
    path = tmp_path / "long.html"
    path.write_text(page("long", body))
    assert seen(look, path) == {}
    for width in (390, 1100):
        sight = look(path, width=width)
        sight.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert sight.faults() + sight.crowded() == []
        assert not sight.page.evaluate(
            "[...document.querySelectorAll('main p, td, li')].some(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth)"
        )
