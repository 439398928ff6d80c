"""The registry: names, nearest names, parameters from signatures."""

from importlib.metadata import EntryPoint
from typing import get_args

import pytest

from fedfleet.core import registry
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.limits import Count

EVERYTHING = [(kind, name) for kind in registry.KINDS for name in registry.names(kind)]


@pytest.fixture
def added():
    """Whatever a test registers is taken out again."""
    before = {kind: dict(parts) for kind, parts in registry._added.items()}
    yield
    for kind, parts in registry._added.items():
        parts.clear()
        parts.update(before[kind])


@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_every_registered_builder_resolves_and_says_what_it_does(kind, name):
    build = registry.builder(kind, name)
    assert callable(build)
    line = registry.summary(build)
    assert 10 < len(line) <= 120


@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_parameters_come_with_types(kind, name):
    for parameter, (hint, _) in registry.parameters(registry.builder(kind, name)).items():
        assert not isinstance(hint, str), f"{parameter} is not resolved"


def test_names_are_sorted():
    assert registry.names("policies") == sorted(registry.names("policies"))
    assert {"readiness", "deadline", "overcommit"} <= set(registry.names("policies"))


def test_an_unknown_name_is_refused_with_the_nearest_and_the_place():
    with pytest.raises(BadInput, match=r"^choose.use: unknown selector 'unifrom'; did you mean 'uniform'\?$"):
        registry.builder("selectors", "unifrom", "choose.use")


def test_an_unknown_kind_is_refused_with_the_nearest():
    for call in (
        registry.names,
        lambda kind: registry.builder(kind, "x"),
        lambda kind: registry.register(kind, "x", list),
    ):
        with pytest.raises(BadInput, match="did you mean 'algorithms'"):
            call("algoritms")


def test_far_from_everything_all_names_are_listed():
    assert suggest_name("zzz", ["b", "a"]) == "; known: a, b"
    assert suggest_name("zzz", []) == ""


def mine(*, width: Count = 3, label: str = "x"):
    """My own part."""
    return width, label


@pytest.mark.usefixtures("added")
def test_a_part_can_be_registered_as_function_or_as_string():
    assert not registry.added_here()
    registry.register("selectors", "mine", mine)
    assert registry.added_here()
    registry.register("selectors", "text", f"{__name__}:mine")
    assert registry.builder("selectors", "mine") is mine
    assert registry.builder("selectors", "text")() == (3, "x")
    assert {"mine", "text"} <= set(registry.names("selectors"))
    assert "mine" not in registry.names("policies")


def test_third_parties_add_parts_by_entry_point(monkeypatch):
    point = EntryPoint("theirs", f"{__name__}:mine", "fedfleet.selectors")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    assert "theirs" in registry.names("selectors")
    assert registry.builder("selectors", "theirs")() == (3, "x")
    with pytest.raises(BadInput):
        registry.builder("policies", "theirs")


def test_parameters_and_limits_are_read_from_the_signature():
    result = registry.parameters(mine)
    assert list(result) == ["width", "label"]
    hint, parameter = result["width"]
    assert get_args(hint)[0] is int
    assert parameter.default == 3
    assert result["label"][0] is str


def test_the_summary_is_the_first_line():
    assert registry.summary(mine) == "My own part."
    assert registry.summary(lambda: None) == ""
