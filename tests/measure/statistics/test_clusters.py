"""Runs that share a fleet are not independent, and no interval may say so."""

import numpy as np
import pytest

from fedfleet.measure.statistics.clusters import mean_over, paired_test_over, shared_parts
from fedfleet.measure.statistics.means import mean_of
from fedfleet.measure.statistics.paired_tests import paired_test_by_seed

FLEETS, SEEDS = 4, 6
CELLS = [(seed, fleet) for seed in range(SEEDS) for fleet in range(FLEETS)]
CROSSED = {cell: {"fleets": cell[1], "trainings": cell[0]} for cell in CELLS}


def effects(random, fleet=0.05, training=0.0, rest=0.01):
    by_fleet, by_seed = random.normal(0, fleet, FLEETS), random.normal(0, training, SEEDS)
    return {(s, f): float(by_fleet[f] + by_seed[s] + random.normal(0, rest)) for s, f in CELLS}


def test_seeds_of_their_own_change_nothing():
    own = {i: {"fleets": i, "trainings": i} for i in range(5)}
    a, b = {i: 0.5 + 0.02 * i * i for i in own}, dict.fromkeys(own, 0.5)
    assert shared_parts(list(own.values())) == {} and paired_test_over(a, b, own) == paired_test_by_seed(a, b)
    assert mean_over(list(a.values()), list(own.values())) == mean_of(list(a.values()))
    assert shared_parts([{"fleets": 3}] * 4) == {}, (
        "a fleet that all runs have says nothing of others, and is not redrawn"
    )
    assert paired_test_over(a, {9: 1.0}, own) is None and mean_over([0.5], [{"fleets": 1}]).low is None


def test_the_fleets_count_where_they_differ_and_the_seeds_where_these_do():
    random = np.random.default_rng(1)
    flat = dict.fromkeys(CELLS, 0.0)
    by_fleet = paired_test_over(effects(random), flat, CROSSED)
    assert by_fleet is not None and (by_fleet.unit, by_fleet.n) == ("fleets", FLEETS)
    by_seed = paired_test_over(effects(random, fleet=0.0, training=0.05), flat, CROSSED)
    assert by_seed is not None and (by_seed.unit, by_seed.n) == ("trainings", SEEDS)


@pytest.mark.parametrize(("fleet", "training"), [(0.05, 0.0), (0.0, 0.05), (0.0, 0.0)])
def test_nothing_is_found_where_nothing_is_and_the_mean_is_covered(fleet, training):
    random, flat = np.random.default_rng(2), dict.fromkeys(CELLS, 0.0)
    false, naive, covered = 0, 0, 0
    for _ in range(150):
        result = effects(random, fleet, training)
        one, plain = paired_test_over(result, flat, CROSSED), paired_test_by_seed(result, flat)
        false += one is not None and one.p is not None and one.p < 0.05
        naive += plain is not None and plain.p is not None and plain.p < 0.05
        mean = mean_over(list(result.values()), list(CROSSED.values()))
        covered += mean.low is not None and mean.high is not None and mean.low <= 0.0 <= mean.high
    assert false <= 15 and covered >= 135
    assert naive > 45 or not fleet + training, "what all runs together would have claimed"
