"""The page of a comparison, from runs on the disk."""

import re

import pytest

from fedfleet.app.pages.comparison_page import comparison_page, write_comparison
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.pages.sides.accuracy_figures import accuracy_figure, standings_figure
from fedfleet.app.pages.sides.run_rows import runs_table
from fedfleet.app.pages.sides.sections import participation_section
from fedfleet.app.pages.time_chart import cost_section, time_section
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.app.studies.compare.comparison import compare
from fedfleet.core.errors import BadInput
from tests.app.pages.sides.looks import made, side

pytestmark = pytest.mark.slow

BASE = {"task": {"use": "digits_logreg"}, "stop": {"rounds": 3}}


def ran(folder, name, **table):
    done = perform(resolve({**BASE, **table}, name), folder / name)
    write_report(done)
    return done.out


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two fleets, two pacings, one seed; and a second seed of the first."""
    folder = tmp_path_factory.mktemp("compared")
    worlds = {"even": {"clients": 8}, "skew": {"clients": 8, "data": {"use": "dirichlet", "alpha": 0.3}}}
    paces = {"wait": {"use": "readiness", "cohort": 3}, "go": {"use": "deadline", "cohort": 3, "seconds": 60.0}}
    made = [ran(folder, f"{w}-{p}", world=world, pace=pace) for w, world in worlds.items() for p, pace in paces.items()]
    return [*made, ran(folder, "even-wait-1", world=worlds["even"], pace=paces["wait"], seed=1)]


def test_every_run_is_linked_and_every_link_leads_somewhere(runs, tmp_path):
    path = write_comparison(compare(runs), tmp_path / "page.html")
    links = re.findall(r'href="([^"#]+)"', path.read_text())
    assert len({link for link in links if link.endswith("report.html")}) == len(runs)
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_page_answers_in_order_without_scripts(runs, tmp_path):
    page = comparison_page(compare(runs), tmp_path / "page.html")
    heads = re.findall(r"<h2>([^<]+)</h2>", page)
    assert heads[:3] == ["Five runs", "Participation", "Where the time went"] and heads[-1] == "How to check it"
    assert "<script" not in page and page.index("<h1>") < page.index("How sure?") < page.index("<svg viewBox")
    assert len(page.encode()) < 1e6


def test_fleets_are_judged_apart(runs, tmp_path):
    page = comparison_page(compare(runs), tmp_path / "page.html")
    assert (page.count('<li class="c') >= 2 and "alpha 0.3" in page) or "dirichlet" in page


def test_an_unfinished_run_is_shown_too(runs, run_copy, tmp_path):
    for name in ("seal.json", "metrics.json", "report.html"):
        (run_copy / name).unlink(missing_ok=True)
    page = comparison_page(compare([runs[0], run_copy]), tmp_path / "page.html")
    assert "<h1>" in page and page.count("report.html") >= 1


def test_a_place_that_cannot_be_written_is_told(runs, tmp_path):
    with pytest.raises(BadInput, match="choose another file with --out"):
        write_comparison(compare(runs[:2]), tmp_path / "none" / "page.html")


@pytest.mark.parametrize(
    "draw",
    [
        accuracy_figure,
        runs_table,
        participation_section,
        time_section,
        cost_section,
        lambda sides: standings_figure(sides, "t", "how"),
    ],
)
def test_names_are_text_wherever_they_stand(draw):
    """Whoever gets a study from somebody else opens its page: the name of an arm must not become a part of it."""
    named = ['"><img src=x onerror=alert(1)>', "</title></p><script>alert(1)</script>"]
    causes = [{"compute": 60.0}, {"upload": 60.0}]
    sides = [side(n, made(used=[9] + [1] * 11, late=[0] * 12, causes=c)) for n, c in zip(named, causes, strict=True)]
    page = draw(sides)
    assert "<img" not in page and "<script" not in page
    assert "&lt;img src=x" in page and "&lt;script&gt;" in page
