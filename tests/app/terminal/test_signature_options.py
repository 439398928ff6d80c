"""Options from signatures."""

import inspect
from typing import Any, Literal

import pytest

from fedfleet.app.terminal.lazy_commands import Group, LazyVerb, group_command
from fedfleet.app.terminal.signature_options import check_options, flag, with_options
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Positive
from fedfleet.core.registry import parameters

HERE = "tests.app.terminal.test_signature_options"
seen: list[dict[str, Any]] = []


def first(*, kinds: Count = 5, mean_mbps: Positive = 2.5, exact: bool = False) -> None:
    """One part."""


def second(*, kinds: Count = 5, mode: Literal["a", "b"] = "a", limit: Count | None = None) -> None:
    """Another part."""


PARTS = {"first": parameters(first), "second": parameters(second)}
MEANING = {"kinds": "Kinds", "mean_mbps": "Speed", "exact": "Exactness", "mode": "Mode", "limit": "Limit"}


def verb(*, part: str = "first", given: dict[str, Any], seed: int = 0) -> None:
    """Say what was given."""
    seen.append({"part": part, "given": given, "seed": seed})


made = LazyVerb(lambda: with_options(verb, PARTS, MEANING))


def call(*words):
    seen.clear()
    command = group_command("test", Group("", {"verb": f"{HERE}:made"}))
    command(["verb", *words], prog_name="test", standalone_mode=False)
    return seen


def test_what_is_given_arrives_with_its_type_and_nothing_else():
    assert call("--kinds", "3", "--mean-mbps", "4", "--seed", "7") == [
        {"part": "first", "given": {"kinds": 3, "mean_mbps": 4.0}, "seed": 7}
    ]
    assert call("--part", "second", "--mode", "b", "--limit", "2")[0]["given"] == {"mode": "b", "limit": 2}
    assert call("--exact")[0]["given"] == {"exact": True}
    assert call()[0]["given"] == {}


def test_options_stand_where_given_stood():
    names = list(inspect.signature(with_options(verb, PARTS, MEANING)).parameters)
    assert names == ["part", "kinds", "mean_mbps", "exact", "mode", "limit", "seed"]


def test_help_says_meaning_part_type_and_default(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    call("--help")
    words = " ".join(capsys.readouterr().out.split())
    assert "Kinds (int >= 1; default 5)." in words, "all parts have it"
    assert "Speed (first; float > 0; default 2.5)." in words
    assert "Mode (second; 'a' or 'b'; default a)." in words


def test_values_are_checked_against_the_chosen_part():
    assert check_options({"kinds": 3}, "first", PARTS["first"]) == {"kinds": 3}
    assert check_options({"kinds": 3, "mode": "b"}, "first", PARTS["first"], ignored=("mode",)) == {"kinds": 3}
    for given, says in (
        ({"kinds": 0}, "--kinds = 0: input should be greater than or equal to 1"),
        ({"mean_mbps": float("inf")}, "--mean-mbps inf must be finite"),
        ({"mode": "b"}, "--mode does not apply to first; it takes --kinds, --mean-mbps, --exact"),
    ):
        with pytest.raises(BadInput, match=says):
            check_options(given, "first", PARTS["first"])


def test_flags_are_spelt_with_dashes():
    assert flag("start_rank") == "--start-rank"
