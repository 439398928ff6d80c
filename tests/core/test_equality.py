"""Values that were built twice are the same if they would do the same."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

from fedfleet.core.equality import same
from fedfleet.learn.zoo import fedavg, fedprox


def scaling(factor, power=1):
    def scaled(x):
        return factor * x**power

    return scaled


def counting(n):
    def count(k):
        return count(k - 1) + n if k else 0

    return count


@dataclass
class Pair:
    one: object
    hidden: float = field(default=0.0, compare=False)


ALIKE = {
    "closures": (scaling(2.0), scaling(2.0)),
    "functions that hold themselves": (counting(3), counting(3)),
    "records": (Pair(scaling(1)), Pair(scaling(1))),
    "arrays": ({"a": np.array([1.0, np.nan])}, {"a": np.array([1.0, np.nan])}),
    "partials": (partial(scaling, 3), partial(scaling, 3)),
    "passes": (fedavg(lr=0.2).local(0, {}), fedavg(lr=0.2).local(1, {})),
}
UNLIKE = {
    "closures": (scaling(2.0), scaling(3.0)),
    "code": (scaling(2.0), counting(2.0)),
    "functions that hold themselves": (counting(3), counting(4)),
    "what equality leaves out": (Pair(1, 0.5), Pair(1, 0.6)),
    "arrays": (np.zeros(2), np.zeros(3)),
    "types": (np.zeros(2, np.float32), np.zeros(2)),
    "order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "lengths": ([1], [1, 2]),
    "rates": (fedavg(lr=0.2).local(0, {}), fedavg(lr=0.3).local(0, {})),
    "terms": (fedprox(mu=0.2).local(0, {}), fedprox(mu=0.3).local(0, {})),
    "kinds": (1, 1.0),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_does_the_same_is_the_same(name):
    assert same(*ALIKE[name])


@pytest.mark.parametrize("name", UNLIKE)
def test_what_differs_inside_is_not(name):
    assert not same(*UNLIKE[name])
