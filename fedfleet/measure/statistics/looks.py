"""Looking again after more seeds: the level of each look, and how many seeds would decide.

Whoever looks at 3 seeds, adds some and looks again finds a difference sooner or later, true or not. The 5 % are therefore spent
over the looks: the first takes four fifths, each later one half of what is left. The chance that any look errs is at most their
sum, whenever the looks are taken and however many there are (alpha spending with Bonferroni's bound).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fedfleet.measure.statistics.means import scipy_special

ERROR = 0.05  # of all looks together
FIRST = 0.8  # the share of it that the first look spends
POWER = 0.8  # with which a true difference is to be found
MOST_SEEDS = 200  # that a proposal names

Quantile = Callable[[float, float], float]  # of a level and degrees of freedom, in standard errors


def level_of_look(look: int) -> float:
    """The two-sided level of the look of this number, counted from 1.

    >>> [round(level_of_look(i), 5) for i in (1, 2, 3, 4)]
    [0.04, 0.005, 0.0025, 0.00125]
    """
    left = ERROR * (1 - FIRST)
    return ERROR * FIRST if look <= 1 else left * 0.5 ** (look - 1)


def power(difference: float, sd: float, seeds: int, arms: int, critical: float) -> float:
    """The chance to find a true difference of two arms in a design of so many seeds, whose runs deviate by `sd` from its model.

    >>> round(power(1.0, 1.0, 20, 2, 2.093), 2)  # a paired t test of 20 differences with a standard deviation of 1.41
    0.85
    """
    freedom = (arms - 1) * (seeds - 1)
    return float(1.0 - scipy_special().nctdtr(freedom, difference / (sd * math.sqrt(2 / seeds)), critical))


def seeds_to_decide(difference: float, sd: float, seeds: int, arms: int, level: float, quantile: Quantile) -> int | None:
    """How many seeds in all find this difference in four of five studies, if it is the true one; None: more than MOST_SEEDS.

    `seeds` is how many there are already: the answer is larger.

    >>> seeds_to_decide(1.0, 1.0, 3, 3, 0.05, lambda level, freedom: float(scipy_special().stdtrit(freedom, 1 - level / 2)))
    17
    """
    difference = abs(difference)
    if not difference or sd <= 0:
        return None if sd > 0 or not difference else seeds + 1

    def is_enough(count: int) -> bool:
        return power(difference, sd, count, arms, quantile(level, (arms - 1) * (count - 1))) >= POWER

    low, high = seeds, MOST_SEEDS
    if not is_enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
