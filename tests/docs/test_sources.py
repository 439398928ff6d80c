"""An entry of the ledger that its page or its source contradicts is found, and says which of them."""

import pytest

from tests.docs.sources import KNOWN, LEDGER, cell, default, fault, most, option, table_under, text_of

PAGE = "# Things\n\n| | kinds |\n| --- | --- |\n| `fedavg` | 88.4 ± 2.0 |\n\nIt was 13.6 times as fast, 254x at best.\n"


@pytest.mark.parametrize("page", LEDGER)
def test_the_sources_say_so(page):
    assert [said for entry in LEDGER[page] if (said := fault(page, text_of(page), entry))] == []


def entry(says="It was 13.6 times as fast", **rest):
    return {"says": says, **rest}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (entry(**{"in": "benchmarks/RESULTS.md", "found": "| char_lstm | 100 | 10.9 | 0.80 | 13.6x |"}), None),
        (entry(**{"in": "benchmarks/RESULTS.md", "found": "33.1x ours"}), "says 13.6"),
        (entry(**{"in": "benchmarks/RESULTS.md", "found": "13.6x theirs"}), "does not say '13.6x theirs' any more"),
        (entry(**{"is": "10.9 / 0.80"}), None),
        (entry(**{"is": "10.9 / 0.90"}), "correct the page"),
        (entry("13.6 times as fast, 254x", **{"is": ["13.6", "254"]}), None),
        (entry("13.6 times as fast, 254x", **{"is": ["254", "13.6"]}), "correct the page"),
        (entry("It was 14 times"), "does not say 'It was 14 times' any more"),
        (entry(because="a definition"), None),
        (entry(because="so"), "has no source"),
        (entry(test="tests/docs/test_sources.py"), None),  # which names a.md
        (entry(test="tests/docs/__init__.py"), "does not look at a.md"),
        ({"table": "Things", "in": "benchmarks/RESULTS.md", "columns": {"kinds": "digits_mlp: accuracy"}}, None),
        (
            {"table": "Things", "in": "benchmarks/RESULTS.md", "columns": {"kinds": "wisdm_cnn: accuracy"}},
            "says '88.4 ± 2.0' of fedavg",
        ),
        ({"table": "Things", "in": "benchmarks/RESULTS.md", "columns": {}}, "nobody vouches for the column 'kinds'"),
        ({"table": "Nothing", "in": "benchmarks/RESULTS.md", "columns": {}}, "no table below 'Nothing'"),
    ],
)
def test_an_entry_is_held_to_page_and_source(given, told):
    result = fault("a.md", PAGE, given)
    assert (result is None) if told is None else (result is not None and told in result)


def test_what_expressions_can_ask():
    assert default("policies", "deadline", "t_break") == 20.0
    assert option("device", "patience") == 600.0
    assert most("Epochs") == 10_000
    assert cell("digits_mlp: accuracy", "fedavg") == "88.4 ± 2.0 %"
    with pytest.raises(LookupError, match="no row 'fedavgg'"):
        cell("digits_mlp: accuracy", "fedavgg")
    assert KNOWN["ahead"]("wisdm", "heterofl") == 5.4


def test_a_table_is_the_first_below_its_heading():
    assert table_under(PAGE, "Things") == ["| | kinds |", "| `fedavg` | 88.4 ± 2.0 |"]
    assert table_under("# Things\nno\n# More\n| a |\n", "Things") == []
