"""Foreign text can do nothing to a terminal, a log or a reply; of statistics only what was declared remains."""

import json
import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.security.sanitiser import LONGEST, MOST_STATS, clean_stats, printable

texts = st.text(st.characters(), max_size=300)


@given(st.one_of(texts, st.binary(max_size=300)), st.integers(10, 250))
def test_any_text_becomes_one_short_printable_line(text, longest):
    said = printable(text, longest)
    assert len(said) <= longest
    assert said.isprintable() and len(said.splitlines()) <= 1
    assert not {unicodedata.category(c) for c in said} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    said.encode()  # no lone surrogates
    assert json.loads(json.dumps(said)) == said


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\\"), max_size=LONGEST))
def test_plain_text_stays_as_it_is(text):
    assert printable(text) == text


@given(texts.filter(lambda t: len(t) < 15), texts.filter(lambda t: len(t) < 15))
def test_different_short_texts_stay_different(one, other):
    assert (printable(one) == printable(other)) == (one == other)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\nb\r\n", r"a\nb\r\n"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2066\u2069\u200b\ufeff", r"\u2066\u2069\u200b\ufeff"),
        ("\u2028", r"\u2028"),
        ("\ud800", r"\ud800"),
        ("\\n", r"\\n"),
        (b"\xff\x00ok", r"\\xff\x00ok"),
        ("höchstes 日本", "höchstes 日本"),
    ],
)
def test_what_could_do_harm_is_escaped(text, said):
    assert printable(text) == said


def test_long_text_is_cut_before_anything_else_is_done_with_it():
    said = printable("x" * 50_000_000)
    assert len(said) == LONGEST and said.endswith("x..")
    assert len(printable("\n" * 500)) == LONGEST


@given(
    st.dictionaries(
        st.one_of(st.text(max_size=40), st.from_regex(r"[a-z][a-z0-9_./]{0,31}", fullmatch=True)), st.floats()
    )
)
def test_statistics_that_remain_are_plain_finite_and_few(said):
    kept, dropped = clean_stats(said)
    assert len(kept) <= MOST_STATS and len(kept) + dropped == len(said)
    assert all(math.isfinite(value) and said[name] == value for name, value in kept.items())
    assert all(name.isascii() and len(name) <= 32 and name[0].isalpha() for name in kept)


def test_only_declared_statistics_remain():
    assert clean_stats({"loss": 1.0, "norm": 2.0}, {"loss"}) == ({"loss": 1.0}, 1)


@pytest.mark.parametrize("name", ["", "Loss", "1loss", "lo ss", "loss\n", "l" * 33, "löss"])
def test_names_that_are_not_plain_are_dropped(name):
    assert clean_stats({name: 1.0, "fine_1.a/b": 1.0}) == ({"fine_1.a/b": 1.0}, 1)


def test_of_too_many_the_first_by_name_remain_in_whatever_order_they_came():
    names = [f"s{i:02d}" for i in range(20)]
    forth, back = (clean_stats(dict.fromkeys(order, 1.0)) for order in (names, names[::-1]))
    assert forth == back == (dict.fromkeys(names[:16], 1.0), 4)
