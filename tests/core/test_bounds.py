"""Limits in signatures, with annotated_types and without."""

import subprocess
import sys

import annotated_types

from fedfleet.core import bounds

CHILD = """
import sys
sys.modules["annotated_types"] = None
from fedfleet.core import bounds
from fedfleet.core.limits import Count
print(bounds.Ge(1).ge, bounds.Gt(1).gt, bounds.Le(2).le, bounds.Lt(2).lt)
print(bounds.MinLen(3).min_length, bounds.Predicate(len).func("ab"))
print([repr(limit) for limit in Count.__metadata__], bounds.Ge(1) == bounds.Ge(1), hash(bounds.Ge(1)) == hash(bounds.Ge(1)))
"""


def test_they_are_those_that_pydantic_reads():
    assert all(getattr(bounds, name) is getattr(annotated_types, name) for name in bounds.__all__)


def test_without_the_package_they_say_the_same():
    out = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout.splitlines()
    assert out == ["1 1 2 2", "3 2", "['Ge(ge=1)', 'Le(le=2147483647)'] True True"]
