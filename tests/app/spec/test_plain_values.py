"""Without pydantic a device takes the values that pydantic takes, and makes the same of them."""

import subprocess
import sys
from typing import Annotated, Literal

import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedfleet.app.spec.plain_values import Unfit, fit_value
from fedfleet.app.spec.table_checks import builder_of, is_spec_type, nested_kind
from fedfleet.core.bounds import Ge, MinLen
from fedfleet.core.limits import TargetText
from fedfleet.core.registry import KINDS, names, parameters

INF, NAN = float("inf"), float("nan")
WORDS = ("", "a", "sgd", "auto", "none", "rmse <= 3", "linear")
NUMBERS = (0, 1, 2, 3, -1, 1000, 10**9, 2**31, 10**30, 10**400, 0.0, -0.0, 0.5, 1.0, 1.5, 1e-13, 1e16, INF, -INF, NAN)
PLAIN = (None, True, False, *NUMBERS, *WORDS)
VALUES = (*PLAIN, [], {}, *([one] for one in PLAIN), ["a", 1], (1, 2), {"a": {"b": 1.0}}, {"a": 1}, {1: {"b": 1}}, {"a": [0.5]})


def hints():
    """Every type that a parameter of a registered part has in a spec, and some that none has."""
    result = {}
    for kind in KINDS:
        for name in names(kind):
            for hint, _ in parameters(builder_of(kind, name)).values():
                if is_spec_type(hint) and nested_kind(hint) is None:
                    result.setdefault(repr(hint), hint)
    return [*result.values(), TargetText, Annotated[list[int], MinLen(1)], Literal["a", "b"], dict[str, float] | None]


def test_the_same_values_are_taken_and_become_the_same():
    def seen(read, error):
        result = []
        for value in VALUES:
            try:
                one = read(value)
                result.append((repr(one), type(one)))
            except error:
                result.append("refused")
        return result

    for hint in hints():
        pydantic = TypeAdapter(hint, config=ConfigDict(strict=True, arbitrary_types_allowed=True)).validate_python
        ours, theirs = seen(lambda value, hint=hint: fit_value(hint, value), Unfit), seen(pydantic, ValidationError)
        odd = [(value, a, b) for value, a, b in zip(VALUES, ours, theirs, strict=True) if a != b]
        assert not odd, (hint, odd)


@pytest.mark.parametrize(
    ("hint", "value", "says"),
    [(int | None, 1.5, "an integer"), (Annotated[float, Ge(1)], 0, "at least 1"), (Literal["a", "b"], "c", "one of 'a', 'b'")],
)
def test_what_it_must_be_is_said(hint, value, says):
    with pytest.raises(Unfit, match=f"^{says}$"):
        fit_value(hint, value)


CHILD = """
import sys
for name in ("pydantic", "annotated_types", "safetensors", "google_crc32c", "immutables"):
    sys.modules[name] = None
from fedfleet.app.spec.table_checks import resolve_part
from fedfleet.core.errors import BadInput
print(resolve_part("algorithms", {"use": "fedavg", "batch": 8}, "algorithm")["batch"])
for table in ({"use": "fedavg", "batch": 0}, {"use": "fedavg", "lr": "much"}, {"use": "fedavg", "bath": 1}):
    try:
        resolve_part("algorithms", table, "algorithm")
    except BadInput as error:
        print(error)
"""


def test_a_part_is_checked_where_pydantic_is_missing():
    out = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[0] == "8"
    assert out[1] == "algorithm.batch = 0: must be at least 1"
    assert out[2] == "algorithm.lr = 'much': must be a number"
    assert out[3].startswith("algorithm has no key 'bath'")
