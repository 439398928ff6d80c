"""Shapley values: their axioms, exactly."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.measure.shapley import shapley, subsets

CAUSES = ["links", "computing", "reachability", "data", "faults"]


def games(n):
    figures = st.floats(-1e9, 1e9, allow_nan=False)
    return st.lists(figures, min_size=2**n, max_size=2**n).map(lambda values: dict(zip(subsets(CAUSES[:n]), values, strict=True)))


def test_there_are_two_to_the_n_sets():
    assert [len(set(subsets(CAUSES[:n]))) for n in range(6)] == [1, 2, 4, 8, 16, 32]


@given(st.integers(0, 5).flatmap(lambda n: st.tuples(st.just(n), games(n))))
def test_they_add_up_to_the_whole_difference_exactly(drawn):
    n, v = drawn
    result = shapley(v, CAUSES[:n])
    everything = frozenset(CAUSES[:n])
    assert sum(result.values(), Fraction(0)) == Fraction(v[everything]) - Fraction(v[frozenset()])


@given(games(3))
def test_a_cause_that_changes_nothing_has_no_value_and_the_others_keep_theirs(v):
    with_fourth = {s: v[s - {"data"}] for s in subsets(CAUSES[:4])}
    result = shapley(with_fourth, CAUSES[:4])
    assert result.pop("data") == 0
    assert result == shapley(v, CAUSES[:3])


@given(games(3))
def test_the_order_of_the_causes_does_not_matter(v):
    assert shapley(v, CAUSES[:3]) == shapley(v, CAUSES[2::-1])


def test_causes_that_are_redundant_share_what_they_save_together():
    """Either of two keeps a round waiting: removing one alone saves nothing."""
    v = {s: 10.0 if len(s) < 2 else 4.0 for s in subsets(CAUSES[:2])}
    assert shapley(v, CAUSES[:2]) == {"links": -3, "computing": -3}
