"""A sampler's parameters as keywords of the call that draws with it."""

import inspect
from typing import Any, Literal

import pytest

from fedfleet.app.api.sample import check_options, with_parameters
from fedfleet.app.cli.call_options import read_call
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Positive
from fedfleet.core.registry import parameters


def first(*, kinds: Count = 5, mean_mbps: Positive = 2.5, exact: bool = False) -> None:
    """One part."""


def second(*, kinds: Count = 5, mode: Literal["a", "b"] = "a", limit: Count | None = None) -> None:
    """Another part."""


PARTS = {"first": parameters(first), "second": parameters(second)}
MEANING = {"kinds": "Kinds", "mean_mbps": "Speed", "exact": "Exactness", "mode": "Mode", "limit": "Limit"}


def draw(*, part: str = "first", given: dict[str, Any], seed: int = 0) -> Any:
    """Return what was given."""
    return {"part": part, "given": given, "seed": seed}


call = with_parameters(draw, PARTS, MEANING)


def test_what_is_given_arrives_and_nothing_else():
    assert call(kinds=3, mean_mbps=4.0, limit=None, part="first", seed=7) == {
        "part": "first", "given": {"kinds": 3, "mean_mbps": 4.0}, "seed": 7,
    }  # fmt: skip
    assert call(part="second", seed=0)["given"] == {}


def test_keywords_stand_where_given_stood():
    names = list(inspect.signature(call).parameters)
    assert names == ["part", "kinds", "mean_mbps", "exact", "mode", "limit", "seed"]


def test_help_has_meaning_part_type_and_default():
    read = {p.name: (p.kind, p.help) for p in read_call(call)}
    assert read["kinds"] == (int, "Kinds (int >= 1; default 5)."), "all parts have it"
    assert read["mean_mbps"] == (float, "Speed (first; float > 0; default 2.5).")
    assert read["mode"] == (str, "Mode (second; 'a' or 'b'; default a).") and read["exact"][0] is bool


def test_values_are_checked_against_the_chosen_part():
    assert check_options({"kinds": 3}, "first", PARTS["first"]) == {"kinds": 3}
    assert check_options({"kinds": 3, "mode": "b"}, "first", PARTS["first"], ignored=("mode",)) == {"kinds": 3}
    for given, says in (
        ({"kinds": 0}, "--kinds = 0"),
        ({"mean_mbps": float("inf")}, "--mean-mbps inf must be finite"),
        ({"mode": "b"}, "--mode does not apply to first; it takes --kinds, --mean-mbps, --exact"),
    ):
        with pytest.raises(BadInput, match=says):
            check_options(given, "first", PARTS["first"])
