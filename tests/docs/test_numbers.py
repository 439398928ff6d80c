"""Numbers that pages state are measured, computed or defined, and the page says what its source says."""

import re
import tomllib
from dataclasses import replace
from importlib import import_module

import pytest

from fedfleet.app.runs import counterfactuals
from fedfleet.core.registry import names
from fedfleet.measure.montecarlo.references import fair_work
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.runtime.wire.options import Serve
from tests.docs.numbers import stated
from tests.docs.pages import ROOT, blocks

LEDGER = tomllib.loads((ROOT / "docs/numbers.toml").read_text())
# Tables of which every figure is in RESULTS.md, and pages with checks of their own.
MEASURED = {"docs/explanation/which-method.md"}
ELSEWHERE = {"docs/explanation/builtin-base.md"}  # tests/world/bases/test_builtin.py
PAGES = ["README.md", *(f"docs/explanation/{path.name}" for path in sorted((ROOT / "docs/explanation").glob("*.md")))]
KNOWN = {
    "first": tomllib.loads((ROOT / "examples/first.toml").read_text()),
    "names": names,
    "Settings": Settings,
    "fair_work": fair_work,
    "replace": replace,
    "shuffle": import_module("fedfleet.shuffle.solve"),
    "Serve": Serve,
    "counterfactuals": counterfactuals,
}
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def value(text):
    return float(text.replace(",", ""))


def rounds_to(source, told):
    """Whether a value is what the page says, to the digits that it says; trailing zeros of a whole number are no digits."""
    digits = (
        len(told.replace(",", "").replace(".", "").strip("0"))
        if "." not in told
        else len(re.sub(r"\D", "", told).lstrip("0"))
    )
    return float(f"{source:.{max(1, digits)}g}") == value(told)


def executed(page):
    """All numbers that commands of a page print when a test runs them."""
    return [
        value(n) for block in blocks(ROOT / page) if block.language == "console" for n in NUMBER.findall(block.text)
    ]


def measured():
    texts = [ROOT / "benchmarks/RESULTS.md", *sorted((ROOT / "studies").glob("*.md"))]
    return [value(n) for path in texts for n in NUMBER.findall(path.read_text())]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_every_number_has_a_source(page):
    seen = executed(page) + (measured() if page in MEASURED else [])
    known = [entry["says"] for entry in LEDGER.get(page, [])]
    for said in stated((ROOT / page).read_text()):
        told = any(words in said.line and said.number in NUMBER.findall(words) for words in known)
        assert told or any(rounds_to(one, said.number) for one in seen), (
            f"{page}: {said.number} in {said.line!r}: say in docs/numbers.toml where it comes from"
        )


@pytest.mark.parametrize(
    ("page", "entry"),
    [pytest.param(page, entry, id=f"{page}: {entry['says']}") for page, entries in LEDGER.items() for entry in entries],
)
def test_the_source_says_so(page, entry):
    assert entry["says"] in (ROOT / page).read_text(), "the page does not say that any more"
    told = NUMBER.findall(entry["says"])
    if "is" in entry:
        found = float(eval(entry["is"], dict(KNOWN)))
        assert any(abs(found - value(one)) < 0.06 for one in told), found
    elif "found" in entry:
        sources = entry["found"] if isinstance(entry["found"], list) else [entry["found"]]
        text = (ROOT / entry["in"]).read_text()
        assert all(source in text for source in sources), "the source does not say that any more"
        there = [value(n) for source in sources for n in NUMBER.findall(source)]
        assert all(any(rounds_to(one, number) for one in there) for number in told if number != "32"), there
    else:
        assert len(entry["because"]) > 10


def test_a_number_without_a_source_is_noticed():
    text = "It is 12.5 times as fast `as 3 s` and takes [7 days](4 h).\n```\n5 %\n```\n"
    assert [said.number for said in stated(text)] == ["12.5", "7"]
    assert rounds_to(13.6, "14") and rounds_to(254, "250") and not rounds_to(13.2, "14") and not rounds_to(80.8, "82")
    assert rounds_to(108_456, "100,000") and rounds_to(1.84, "1.8")
