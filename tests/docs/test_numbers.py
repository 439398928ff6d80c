"""Numbers that pages claim are measured, computed or defined, and the page says what its source says."""

import pytest

from docs.make_reference import PAGES as MADE
from tests.docs.numbers import Said, indented, passages, printed, settings, stated
from tests.docs.pages import PAGES, ROOT, blocks_of, name_of
from tests.docs.sources import LEDGER, text_of, unsourced
from tests.docs.sources import fault as _fault

# The studies are sources themselves, and builtin-base.md is held by tests/world/bases/test_builtin.py.
ELSEWHERE = {*MADE, *(ROOT / "studies").glob("*.md"), ROOT / "docs/explanation/builtin-base.md"}
HELD = [name_of(page) for page in PAGES if page not in ELSEWHERE]


@pytest.mark.parametrize("page", HELD)
def test_every_number_has_a_source(page):
    assert unsourced(page, text_of(page)) == []


def test_every_kind_of_page_is_held():
    assert {"README.md", "docs/tutorial.md", "docs/how-to/tune.md", "docs/reference/spec.md"} <= {*HELD}
    assert {*LEDGER} <= {*HELD}


@pytest.mark.parametrize(
    ("page", "true", "false"),
    [
        ("docs/how-to/first-run.md", "it has 27 %", "it has 29 %"),  # printed by a command
        ("docs/tutorial.md", "without 43 people", "without 44 people"),
        ("docs/how-to/tune.md", "saved 32 to 36 %", "saved 32 to 46 %"),
        ("docs/how-to/gpu.md", "14 (LSTM) to 250", "14 (LSTM) to 350"),
        ("docs/how-to/energy.md", "| 0.399 | 3.761 |", "| 0.399 | 3.861 |"),
        ("docs/how-to/serve.md", "(600 s)", "(700 s)"),
        ("docs/explanation/which-method.md", "| 91.5 ± 1.4 | 69.9 ± 2.1 |", "| 91.5 ± 1.4 | 69.9 ± 2.1 and 12.25 s |"),
        ("docs/how-to/runs.md", "# Resume", "# Twice as fast: 12.5x\n# Resume"),
        ("docs/how-to/runs.md", "- **Explain**", "```text\nreplayed in 2.96 s\n```\n- **Explain**"),
    ],
)
def test_a_page_that_is_changed_is_named_with_its_sentence_and_the_cure(page, true, false):
    text = text_of(page)
    assert true in text and unsourced(page, text) == []
    result = unsourced(page, text.replace(true, false, 1), LEDGER)
    faults = result + [one for entry in LEDGER.get(page, []) if (one := _fault(page, text.replace(true, false, 1), entry))]
    assert faults and all(one.startswith(page) for one in faults)
    assert any("docs/numbers.toml" in one or "correct the page" in one for one in faults)


def test_what_is_claimed():
    text = "It is 12.5 times as fast `as 3 s`, takes [7 days](4 h), and 3, 4 and 8 points or -0.25.\n```toml\n5 %\n```\n"
    assert [said.number for said in stated(text)] == ["12.5", "7", "3", "4", "8", "0.25"]
    assert [said.outcome for said in stated(text)] == [True, False, True, True, True, False]
    assert stated("14 (LSTM) to 250 (perceptron) times")[0] == Said("14", "14 (LSTM) to 250 (perceptron) times", True)
    assert [said.number for said in stated("| 3 | about 9 | 0.5, 0.75 | 12 % |\n")] == ["0.5", "0.75", "12"]


def test_what_is_no_claim():
    names = "Python 3.11, Eq. 3, section 8, TLS 1.3, in 2024, Dirichlet(0.5), INT8, H200, step 2, 2^63, v1.2.3 and 3 steps"
    assert stated(names) == []


def test_text_that_nobody_executes_claims_what_has_a_unit():
    text = "```text\nlow = 0.01\nreplayed in 2.96 s\n```\n\n    it took 7 h\n\n<!-- not run: why -->\n```text\n5 s\n```\n"
    assert sorted(said.number for said in stated(text)) == ["2.96", "7"]


def test_passages_are_paragraphs_points_and_rows():
    text = "# Head\nOne\ntwo.\n\n- a\n  b\n1. c\n    d\n\n    e\n| x |\n| y |\n"
    assert passages(text) == ["# Head", "One\ntwo.", "- a\n  b", "1. c\n    d", "    e", "| x |", "| y |"]
    assert indented("Words\n\n    code\n    more\n\nwords\n") == ["    code", "    more"]


def test_a_page_vouches_for_what_it_runs_and_sets():
    text = "```console\n$ fedfleet run a.toml pace.seconds=90\naccuracy 80.8 % in 1.8 h\n```\n```toml\nmodel_bytes = 1e8\n```\n"
    there = blocks_of(text, "a.md")
    assert printed(there, outcomes=True) == [80.8]
    assert printed(there, outcomes=False) == [1.8]
    assert settings(there) == [1e8, 90.0]
    assert unsourced("a.md", text + "So 81 % after 1.8 hours, with 90 s each.") == []
    (one,) = unsourced("a.md", text + "So 90 % after 1.8 hours.")
    assert one.startswith("a.md: nobody vouches for 90 in 'So 90 % after 1.8 hours.': quote it from a command")
