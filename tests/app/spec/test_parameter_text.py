"""Signatures in words."""

from typing import Literal

import pytest

from fedfleet.app.spec.parameter_text import describe, describe_parts, parts_text, type_text
from fedfleet.core.limits import Count, Positive, Share
from fedfleet.core.registry import builder


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (Positive, "float > 0"),
        (Share, "float > 0 and <= 1"),
        (Count | None, "int >= 1"),
        (Literal["a", "b"], "'a' or 'b'"),
        (list[Count], "list of int >= 1"),
        (str, "str"),
    ],
)
def test_types_are_said_with_their_limits(hint, said):
    assert type_text(hint) == said


def test_a_builder_is_described_by_its_signature():
    told = describe(builder("policies", "overcommit"))
    assert told["policy"] == {"type": "a part of policies", "required": True}
    assert told["factor"]["default"] == 1.3
    assert "score" not in describe(builder("states", "dpcsm")), "no spec can say a function"


def test_all_parts_of_a_kind_are_listed():
    got = describe_parts("states")
    assert [i["name"] for i in got["items"]] == sorted(i["name"] for i in got["items"])
    assert all(i["summary"].endswith(".") for i in got["items"])


def test_what_goes_around_any_algorithm_is_listed_with_them():
    result = describe_parts("algorithms")["around"]
    assert set(result) == {"fold", "keep", "fine_tune", "attack", "private", "up", "down", "feedback"}
    assert result["up"]["type"] == "a part of codecs" and not any(p["required"] for p in result.values())
    assert "around" not in describe_parts("codecs")


def test_parts_are_listed_with_their_parameters():
    part = {"name": "x", "summary": "An x.", "parameters": {"n": {"type": "int", "required": True}}}
    assert parts_text({"kind": "devices", "items": [part]}).splitlines()[1].split() == ["n", "int", "required"]
    assert parts_text({"kind": "codecs", "items": []}) == "there are no codecs yet"
