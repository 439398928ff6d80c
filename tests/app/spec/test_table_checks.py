"""Tables against signatures: what a builder declares is what a spec may say."""

from collections.abc import Callable
from typing import Literal

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.app.spec.spec_file import apply_overrides, set_values
from fedfleet.app.spec.table_checks import build_part, check_table, check_value, is_spec_type, resolve_part
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateScorer
from fedfleet.core.limits import Count, Positive
from fedfleet.core.parts import Policy
from fedfleet.core.registry import register


def builder(*, size: Count, speed: Positive = 2.0, mode: Literal["a", "b"] = "a", test: Callable[[str], bool] = str.isalpha):
    """A part that records what it was given."""
    return size, speed, mode, test


def test_defaults_are_filled_in_and_functions_left_out():
    assert check_table(builder, {"size": 3}, "part") == {"size": 3, "speed": 2.0, "mode": "a"}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "part needs the key 'size'"),
        ({"size": float("nan")}, r"part.size = nan is not a number"),
        ({"size": 0}, r"part.size = 0: must be at least 1"),
        ({"size": 1, "sped": 3.0}, "did you mean 'speed'"),
        ({"size": 1, "mode": "c"}, "part.mode = 'c': must be 'a' or 'b'"),
        ({"size": 1, "test": 3}, "no key 'test'"),
    ],
)
def test_what_a_builder_does_not_take_is_refused(table, says):
    with pytest.raises(BadInput, match=says):
        check_table(builder, table, "part")


def test_a_value_of_several_kinds_hears_of_all_but_none():
    assert check_value(Count | None, None, "x") is None
    with pytest.raises(BadInput) as wrong:
        check_value(Count | str | None, 2.5, "x")
    assert "integer" in str(wrong.value) and "text" in str(wrong.value) and "None" not in str(wrong.value)


def test_a_part_is_built_from_its_table_with_what_is_provided():
    register("devices", "recorded", "tests.app.spec.test_table_checks:builder")
    table = resolve_part("devices", {"use": "recorded", "size": 4}, "world.devices")
    assert build_part("devices", table) == (4, 2.0, "a", str.isalpha)
    provided = build_part("devices", table, {Callable[[str], bool]: str.isdigit})
    assert provided == (4, 2.0, "a", str.isdigit)


def test_a_part_may_hold_a_part():
    spec = resolve({"pace": {"use": "overcommit", "policy": {"use": "deadline", "cohort": 5, "seconds": 9}}})
    assert spec.pace["policy"]["seconds"] == 9.0
    assert assemble(spec).plan.pace.name == "overcommit(deadline)"


def test_parts_can_be_said_and_other_functions_cannot():
    assert is_spec_type(Policy) and is_spec_type(Count) and not is_spec_type(StateScorer)


def either(policies: list[Policy], *, other: Policy | None = None) -> Policy:
    """A policy of several, and perhaps of another one."""
    return policies[0] if other is None else other


def test_a_bare_name_stands_for_a_part_in_lists_and_where_there_may_be_none():
    register("policies", "either", either)
    table = resolve_part("policies", {"use": "either", "policies": ["deadline", {"use": "readiness", "cohort": 3}]}, "pace")
    assert [p["use"] for p in table["policies"]] == ["deadline", "readiness"] and table["other"] is None
    assert build_part("policies", table).name == "deadline"
    given = {"use": "either", "policies": ["deadline"], "other": "readiness"}
    assert build_part("policies", resolve_part("policies", given, "pace")).name == "readiness"
    for wrong, says in (
        (3, "policies: 3 is not|not a table"),
        ("dedline", r"policies\[0\].use.*'deadline'"),
        (["dedline"], r"policies\[0\].use.*'deadline'"),
        ([3], "not a table"),
    ):
        with pytest.raises(BadInput, match=says):
            resolve_part("policies", {"use": "either", "policies": wrong}, "pace")


def test_codecs_are_lists_of_parts_of_every_algorithm():
    table = resolve_part("algorithms", {"use": "fedprox", "up": [{"use": "topk", "share": 0.1}, "int8"]}, "algorithm")
    assert table["up"] == [{"use": "topk", "share": 0.1}, {"use": "int8", "rounding": "nearest"}]
    assert table["down"] is None and resolve_part("algorithms", table, "algorithm") == table
    assert build_part("algorithms", table).local(0, {}).up.name == "topk+int8"
    for given_, said in (
        ({"up": "int9"}, r"algorithm.up\[0\].use: unknown codec 'int9'; did you mean 'int"),
        ({"up": True}, "algorithm.up: True is not a list of codecs"),
        ({"up": ["int9"]}, r"algorithm.up\[0\].use: unknown codec 'int9'; did you mean 'int"),
        (
            {"down": [{"use": "topk", "share": 2.0}]},
            r"algorithm.down\[0\].share = 2.0: must be at most 1",
        ),
        ({"feedback": 1}, "algorithm.feedback = 1"),
    ):
        with pytest.raises(BadInput, match=said):
            resolve_part("algorithms", {"use": "fedavg", **given_}, "algorithm")


@pytest.mark.parametrize(
    ("key", "one", "several"),
    [
        ("algorithm.up", "int8", ["int8"]),
        ("algorithm.down", {"use": "topk", "share": 0.1}, [{"use": "topk", "share": 0.1}]),
        ("algorithm", {"use": "heterofl", "widths": 0.5}, {"use": "heterofl", "widths": [0.5]}),
        ("choose", {"use": "only", "ids": 3}, {"use": "only", "ids": [3]}),
        ("choose", {"use": "only", "tags": "old"}, {"use": "only", "tags": ["old"]}),
        ("world.tags", {"old": 3}, {"old": [3]}),
        ("world.faults", "lossy", ["lossy"]),
        ("override", [{"clients": 3, "algorithm": {"lr": 0.01}}], [{"clients": [3], "algorithm": {"lr": 0.01}}]),
        ("override", [{"kinds": "a", "algorithm": {"lr": 0.01}}], [{"kinds": ["a"], "algorithm": {"lr": 0.01}}]),
    ],
)
def test_one_where_several_may_stand_is_the_list_of_this_one(key, one, several):
    short, long = (resolve(set_values({"world": {"clients": 9}}, {key: value})) for value in (one, several))
    if key != "world.faults":  # one fault is a part of its own, and needs nothing around it
        assert short.digest == long.digest and short.table() == long.table()
    assert resolve(short.table()).digest == short.digest


def test_one_word_of_a_command_line_is_a_list_too():
    base = {"algorithm": {"use": "fedavg", "up": ["int8"]}}
    assert resolve(apply_overrides({}, ["algorithm.up=int8"])).digest == resolve(base).digest
    assert resolve(apply_overrides({}, ['algorithm.up="int8"'])).digest == resolve(base).digest


def test_a_resolved_table_can_be_resolved_again_with_parts_that_it_does_not_have():
    once = resolve_part("algorithms", {"use": "fedavg"}, "algorithm")
    assert once["fold"] is None
    assert resolve_part("algorithms", once, "algorithm") == once
    with pytest.raises(BadInput, match="is not a table"):
        resolve_part("policies", {"use": "overcommit", "policy": None}, "pace")
