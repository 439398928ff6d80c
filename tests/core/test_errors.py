"""The two ways of saying no, the hint with the nearest name, and foreign text, which can do nothing to a terminal or a log."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import (
    MAX_TEXT_LENGTH,
    BadInput,
    FedFleetError,
    RunFailed,
    error_context,
    nearest_file,
    part_error,
    printable,
    suggest_name,
)


def test_bad_input_and_failed_runs_have_their_own_exit_codes():
    assert (BadInput.exit_code, RunFailed.exit_code) == (2, 1)
    for kind in (BadInput, RunFailed):
        with pytest.raises(FedFleetError, match="why"):
            raise kind("why")


def test_the_nearest_name_is_offered_or_else_what_there_is():
    assert suggest_name("oorrt", ["uniform", "oort"]) == "; did you mean 'oort'?"
    assert suggest_name("zzz", ["b", "a"]) == "; known: a, b"
    assert suggest_name("zzz", []) == ""


def test_an_error_inside_a_part_names_it_and_keeps_its_cause():
    with (
        pytest.raises(RunFailed, match=r"^selector 'mine' failed: ValueError: too few$") as told,
        error_context("selector 'mine'"),
    ):
        raise ValueError("too few")
    assert isinstance(told.value.__cause__, ValueError)


def test_our_own_errors_pass_as_they_are():
    with pytest.raises(BadInput, match=r"^cohort: too small$"), error_context("selector 'mine'"):
        raise BadInput("cohort: too small")
    assert str(part_error("policy 'mine'", KeyError("loss"))) == "policy 'mine' failed: KeyError: 'loss'"


def test_an_interrupt_is_nobodys_fault():
    with pytest.raises(KeyboardInterrupt), error_context("selector 'mine'"):
        raise KeyboardInterrupt


texts = st.text(st.characters(), max_size=300)


@given(st.one_of(texts, st.binary(max_size=300)), st.integers(10, 250))
def test_any_text_becomes_one_short_printable_line(text, longest):
    said = printable(text, longest)
    assert len(said) <= longest
    assert said.isprintable() and len(said.splitlines()) <= 1
    assert not {unicodedata.category(c) for c in said} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    said.encode()  # no lone surrogates
    assert json.loads(json.dumps(said)) == said


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\\"), max_size=MAX_TEXT_LENGTH))
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
    assert len(said) == MAX_TEXT_LENGTH and said.endswith("x..")
    assert len(printable("\n" * 500)) == MAX_TEXT_LENGTH


def test_the_nearest_path_is_offered_in_folders_that_are_misspelt_too(tmp_path):
    for name in ("examples/first.toml", "example/second.toml", "runs/a/spec.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for word, nearest in (
        ("exmples/first.toml", "examples/first.toml"),
        ("exampels/second.toml", "example/second.toml"),
        ("examples/fisrt.toml", "examples/first.toml"),
        ("exmples/fisrt.toml", "examples/first.toml"),
        ("rnus/b/../a/spec.tml", ""),
        ("run/a/spec.tml", "runs/a/spec.toml"),
        ("nothing/like/this.toml", ""),
        ("examples/first.toml", ""),
        ("x" * 5000, ""),
        ("a\0b", ""),
    ):
        assert nearest_file(tmp_path / word) == (f"; did you mean {tmp_path / nearest}?" if nearest else ""), word
