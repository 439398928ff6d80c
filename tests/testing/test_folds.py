"""Every registered fold passes its check; folds that break a rule do not."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet import testing
from fedfleet.core.aggregation import Entry
from fedfleet.core.records import ServerState
from fedfleet.core.registry import names
from tests.testing.registered import built

pytestmark = pytest.mark.slow

SERVER = ServerState({"a": np.zeros(3, np.float32)})


@pytest.mark.parametrize("name", names("folds"))
def test_folds(name):
    testing.check_fold(
        built("folds", name), ServerState({"a": np.zeros((3, 2), np.float32), "n": np.zeros(2, np.int64)}), quiet=True
    )


def test_a_fold_whose_entries_depend_on_who_came_before_is_caught():
    seen = []

    def enter(weight, stats, context):
        seen.append(context)
        return Entry(weight / len(seen))

    with pytest.raises(AssertionError, match="order of arrival"):
        testing.check_fold(replace(built("folds", "mean"), enter=enter), ServerState({"a": np.zeros(3, np.float32)}))


def test_a_fold_that_refuses_what_it_declares_is_caught():
    with pytest.raises(AssertionError, match="must be accepted"):
        testing.check_fold(replace(built("folds", "mean"), bound=1e-9), SERVER)


def test_a_fold_that_collects_passes():
    def middle(collected):
        return {"a": np.median([r.update["a"] for r, _ in collected], axis=0).astype(np.float32)}

    testing.check_fold(replace(built("folds", "mean"), combine=middle), SERVER)


def test_a_fold_that_says_what_it_divides_by_may_grow_with_the_reports():
    def total(collected):
        return {"a": np.sum([r.update["a"] for r, _ in collected], axis=0).astype(np.float32)}

    growing = replace(built("folds", "mean"), combine=total)
    with pytest.raises(AssertionError, match="say `denominator`"):
        testing.check_fold(growing, SERVER)
    testing.check_fold(replace(growing, denominator=1.0), SERVER)
