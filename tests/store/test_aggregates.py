"""Aggregates that were kept come back whole, with statistics and refusals."""

import numpy as np
import pytest

from fedfleet.core.aggregation import finish
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import ReportsGathered
from fedfleet.store.aggregates import keep_aggregate, load_aggregate
from tests.worlds import commits_at, even_fleet, events_of, toy_plan, world_of


def test_what_was_gathered_comes_back(tmp_path):
    plan = toy_plan(commits_at(3, 2), 6)
    log, end = events_of(plan, world_of(even_fleet(6)))
    fact = next(e for e in log if isinstance(e, ReportsGathered))
    keep_aggregate(tmp_path, 0, fact)
    again = load_aggregate(plan, tmp_path, end.state.server, 0, fact.time)
    assert again.tasks.tolist() == fact.tasks.tolist() and again.rejected == fact.rejected
    assert {n: v.tolist() for n, v in again.stats.items()} == {n: v.tolist() for n, v in fact.stats.items()}
    ours, theirs = (finish(plan.algorithm.fold, f.aggregate) for f in (again, fact))
    assert all(np.array_equal(v, theirs.mean[n]) for n, v in ours.mean.items())
    with pytest.raises(RunFailed, match="kept aggregate 1 is missing or damaged"):
        load_aggregate(plan, tmp_path, end.state.server, 1, 0.0)
