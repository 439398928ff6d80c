"""Shapley values: what each of several causes contributes to a figure, whichever of the others are removed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations


def subsets(causes: Sequence[str]) -> Iterator[frozenset[str]]:
    """All sets of these causes, small ones first: 2^n of them.

    >>> [sorted(s) for s in subsets(["a", "b"])]
    [[], ['a'], ['b'], ['a', 'b']]
    """
    for size in range(len(causes) + 1):
        for subset in combinations(causes, size):
            yield frozenset(subset)


def shapley(values: Mapping[frozenset[str], float], causes: Sequence[str]) -> dict[str, Fraction]:
    """By how much removing each cause changes a figure, on average over all orders in which causes could be removed.

    Shapley 1953: phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! (v(S + i) - v(S)), where v(S) is the figure with the
    causes S removed. In fractions, so that the values add up to v(all) - v(none) exactly.

    >>> v = {frozenset(): 10.0, frozenset("a"): 6.0, frozenset("b"): 9.0, frozenset("ab"): 1.0}
    >>> {cause: float(value) for cause, value in shapley(v, ["a", "b"]).items()}
    {'a': -6.0, 'b': -3.0}
    """
    n, result = len(causes), dict.fromkeys(causes, Fraction(0))
    for cause in causes:
        for s in subsets([c for c in causes if c != cause]):
            weight = Fraction(math.factorial(len(s)) * math.factorial(n - len(s) - 1), math.factorial(n))
            result[cause] += weight * (Fraction(values[s | {cause}]) - Fraction(values[s]))
    return result
