"""The chain: every column of every row decides every link after it, and the first batch that does not fit is named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.store.hash_chain import Chain, check_chain
from fedfleet.store.journal_rows import COLUMNS, Kind, Row, digest_bytes

ROWS = [
    tuple(
        Row(
            float(i),
            Kind.NOTE if i % 5 == 4 else Kind.ARRIVED,
            1,
            2,
            i,
            3,
            0.5,
            None,
            "b" * (i % 3),
            "n" if i % 2 else None,
        )
    )
    for i in range(12)
]


def links_over(rows, at, identity="me"):
    chain, result = Chain(identity), {}
    for row in rows:
        chain.add_row(row, digest_bytes(row))
        if chain.rows in at:
            result[chain.rows] = chain.add_link()
    return result


def numbered(rows):
    return list(enumerate(rows, 1))


def test_a_chain_holds_over_what_it_was_made_of():
    links = links_over(ROWS, {3, 7, 12})
    result = check_chain("me", numbered(ROWS), links)
    assert result.fault is None and result.rows == 12 and set(result.links) == {3, 7, 12}
    assert result.link == links[12].hex()
    assert check_chain("you", numbered(ROWS), links).fault == "rows 1 to 3 do not fit their link"


@settings(deadline=None, derandomize=True, max_examples=120)
@given(st.integers(0, 11), st.sampled_from(COLUMNS))
def test_no_column_of_any_row_can_change(at, column):
    links = links_over(ROWS, {3, 7, 12})
    other = {"time": 99.0, "kind": Kind.LOST, "a": 0.25, "b": 7.0, "body": "other", "note": "other"}.get(column, 77)
    rows = [*ROWS[:at], tuple(Row._make(ROWS[at])._replace(**{column: other})), *ROWS[at + 1 :]]
    result = check_chain("me", numbered(rows), links)
    first = 1 if at < 3 else 4 if at < 7 else 8
    assert result.fault is not None and result.fault.startswith(f"rows {first} to")
    assert all(n < first for n in result.links)


@pytest.mark.parametrize(
    ("rows", "links", "says"),
    [
        (numbered(ROWS)[:-1], None, "the rows after 11 are missing, up to row 12"),
        (numbered(ROWS)[:4] + numbered(ROWS)[5:], None, "row 5 is missing"),
        (numbered([*ROWS, ROWS[0]]), None, "row 13 and what follows it have no link"),
        (numbered(ROWS), {}, "row 1 and what follows it have no link"),
        (numbered([(0.0, "x", *ROWS[0][2:]), *ROWS[1:]]), None, "row 1 has unexpected content"),
    ],
)
def test_what_is_missing_or_too_much_is_named(rows, links, says):
    result = check_chain("me", rows, links_over(ROWS, {3, 7, 12}) if links is None else links)
    assert result.fault == says
