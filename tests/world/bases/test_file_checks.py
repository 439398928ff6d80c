"""Reading foreign files with care: spans are joined, and every refusal names file, row and reason."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.world.bases.file_checks import join_spans, numbers, phases, read_json, state_table

pytestmark = pytest.mark.slow

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(spans)
def test_joined_spans_are_sorted_disjoint_and_cover_the_same(result):
    once = join_spans([(float(a), float(b)) for a, b in result])
    assert all(a < b for a, b in once)
    assert all(before[1] < after[0] for before, after in pairwise(once)), "touching ones are joined"
    covered = {x for a, b in result for x in range(a, b)}
    assert {x for a, b in once for x in range(int(a), int(b))} == covered
    assert join_spans(once) == once


def test_pairs_cover_their_last_second_and_are_cut_at_the_end():
    assert phases([[100, 109], [110, 119], [190, 400]], 100.0, 200.0, "row") == [(0.0, 20.0), (90.0, 100.0)]


@pytest.mark.parametrize(
    ("ready", "why"),
    [
        (None, "row: it is never ready"),
        ([], "row: it is never ready"),
        ([[5, 3]], "row: interval 0 ends before it begins"),
        ([[0, 1], [10, 11]], "row: interval 1 begins outside"),
        ([[-1, 1]], "row: interval 0 begins outside"),
        ([[1]], r"row: interval 0 must be a list of 2 number"),
        (["ab"], "row: interval 0 must be a list"),
    ],
)
def test_bad_pairs_are_named(ready, why):
    with pytest.raises(BadInput, match=why):
        phases(ready, 0.0, 10.0, "row")


def test_kinds_of_numbers():
    assert numbers([1, 2.5], "w") == [1.0, 2.5]
    assert numbers([-1], "w", signed=True) == [-1.0]
    assert numbers([0], "w") == [0.0]
    for values, flags in (([0], {"positive": True}), ([-1], {}), ([float("inf")], {"signed": True}), ([10**400], {})):
        with pytest.raises(BadInput, match=r"^w: .* is not"):
            numbers(values, "w", **flags)
    for values in ("12", [True], [], None, ["1"], [1, 2]):
        with pytest.raises(BadInput, match="must be a list of"):
            numbers(values, "w", length=1)


def test_what_is_no_json_is_refused_with_its_path(tmp_path):
    with pytest.raises(BadInput, match=r"there is no file .*none\.json"):
        read_json(str(tmp_path / "none.json"))
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(BadInput, match=r"a\.json cannot be read as JSON"):
        read_json(str(tmp_path / "a.json"))


def test_a_table_from_rows():
    table = state_table([("a", 0.0, 10.0, [(0.0, 1.0), (2.0, 4.0)]), ("b", 5.0, 20.0, [(3.0, 5.0)])])
    assert table.ids.tolist() == ["a", "b"]
    assert np.array_equal(table.traces.total, [3.0, 2.0])
    assert table.traces.offsets.tolist() == [0, 2, 3]
