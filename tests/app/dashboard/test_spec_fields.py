"""Fields come from signatures: every parameter of every part has one, and its text is read back as the same value."""

import math

import pytest

from fedfleet.app.dashboard.spec_fields import (
    CHOICE,
    NUMBER,
    PARTS,
    PLAIN_TABLES,
    TEXT,
    YES_NO,
    part_choices,
    part_fields,
    plain_fields,
)
from fedfleet.app.spec.resolution import PART_KINDS
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import names

EVERY = [(key, kind, name) for key, kind in PART_KINDS.items() for name in names(kind)]


def field(kind, name, key, last):
    return next(one for one in part_fields(kind, name, key) if one.name == last)


@pytest.mark.parametrize(("key", "kind", "name"), EVERY)
def test_every_default_is_its_own_text(key, kind, name):
    for one in part_fields(kind, name, key):
        if one.default is not None and not one.part_kind:
            value = one.value_of(one.text_of(one.default))
            assert value == one.default and type(value) is type(one.default)


@pytest.mark.parametrize("table", PLAIN_TABLES)
def test_tables_that_are_no_parts_have_fields_too(table):
    fields = {one.key: one for one in plain_fields(table)}
    assert fields and all(key.startswith(f"{table}.") for key in fields)
    assert not any("ray" in key or key in PART_KINDS for key in fields)


def test_a_field_has_the_type_and_the_limits_of_its_parameter():
    cohort = field("policies", "deadline", "pace", "cohort")
    assert (cohort.input, cohort.low, cohort.whole, cohort.default) == (NUMBER, 1, True, 20)
    assert field("policies", "deadline", "pace", "if_few").input == CHOICE
    assert field("algorithms", "fedavg", "algorithm", "feedback").input == YES_NO
    assert field("algorithms", "fedavg", "algorithm", "up").input == PARTS
    assert field("selectors", "only", "choose", "ids").input == TEXT
    assert field("policies", "buffered", "pace", "lease").high == math.inf


def test_what_has_no_meaning_stays_text():
    assert field("policies", "deadline", "pace", "cohort").value_of("x") == "x"
    assert field("selectors", "only", "choose", "ids").value_of("[1") == "[1"


def test_menus_say_what_each_part_is():
    assert dict(part_choices("policies"))["deadline"].startswith("Commit what has arrived")
    assert any("data not here" in about for _, about in part_choices("tasks"))
    with pytest.raises(BadInput, match="did you mean 'deadline'"):
        part_fields("policies", "deadlin", "pace")
