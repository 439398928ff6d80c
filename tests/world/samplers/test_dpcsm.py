"""DPCSM: ranks, sticks, and the published number of states."""

import numpy as np
import pytest
from scipy import stats

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateTable, client_ids
from fedfleet.world.samplers.dpcsm import rank_states, released_topics, sample_dpcsm, stick, warnings
from tests.worlds import traces_of


def test_released_dpcsm_opens_as_many_states_as_published():
    result = [len(set(released_topics(100, alpha, 2022).tolist())) for alpha in (1, 2, 3, 4, 5, 10, 100)]
    assert result == [6, 8, 11, 13, 16, 27, 68]
    topics = released_topics(100, 4, 2022)
    assert topics[0] == 0
    assert set(topics.tolist()) == set(range(topics.max() + 1)), "ranks have no gaps"


def some_states(n=40):
    spans = [((0.0, 1.0 + i),) for i in range(n)]
    return StateTable(np.array([f"s{i:02d}" for i in range(n)]), traces_of(spans, [100.0] * n))


def test_ranks_go_by_score_then_availability_then_id():
    states = some_states(4)
    assert rank_states(states, np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [1, 2, 0, 3]
    same = StateTable(np.array(["b", "a"]), traces_of([((0.0, 5.0),)] * 2, [10.0] * 2))
    assert rank_states(same, np.ones(2)).tolist() == [1, 0]
    with pytest.raises(BadInput, match="3 scores for 4 states"):
        rank_states(states, np.ones(3))


def test_dpcsm_starts_at_its_rank_and_ends_at_the_last():
    states, scores = some_states(), np.linspace(1, 0, 40)
    for semantics in ("paper", "released"):
        table = sample_dpcsm(states, 300, scores, alpha=5.0, start_rank=30, semantics=semantics, seed=1)
        assert set(table.ids) <= {f"s{i}" for i in range(30, 40)}
    with pytest.raises(BadInput, match="start_rank 40"):
        sample_dpcsm(states, 5, scores, alpha=5.0, start_rank=40, semantics="paper", seed=1)


def test_paper_dpcsm_draws_independently_from_the_stick():
    states, scores, n = some_states(), np.linspace(1, 0, 40), 4000
    for alpha in (1.0, 4.0):
        weights = stick(alpha, 40, 3)
        assert weights.sum() == pytest.approx(1.0)
        table = sample_dpcsm(states, n, scores, alpha=alpha, start_rank=0, semantics="paper", seed=3)
        counts = np.array([(client_ids(table) == i).sum() for i in states.ids])
        often = weights * n >= 5
        seen = np.append(counts[often], counts[~often].sum())
        hoped = np.append(weights[often], weights[~often].sum()) * n
        kept = hoped > 0
        assert stats.chisquare(seen[kept], hoped[kept]).pvalue > 1e-3


def distinct(alpha, states, clients=100, seeds=10):
    base, scores = some_states(states), np.linspace(1, 0, states)
    drawn = [sample_dpcsm(base, clients, scores, alpha=alpha, start_rank=0, semantics="paper", seed=s) for s in range(seeds)]
    return np.mean([len(table.ids) for table in drawn])


@pytest.mark.parametrize(("states", "quiet", "loud"), [(99, (1.0, 4.0, 20.0), (100.0, 1e3, 1e6)), (30, (1.0, 4.0), (50.0, 1e4))])
def test_the_dial_rises_where_nothing_is_said_and_falls_where_it_is_warned_of(states, quiet, loud):
    assert not any(warnings(alpha, states=states) for alpha in quiet)
    assert all(len(warnings(alpha, states=states)) == 1 for alpha in loud)
    rising, falling = ([distinct(alpha, states) for alpha in alphas] for alphas in (quiet, loud))
    assert rising == sorted(rising) and falling == sorted(falling, reverse=True)


def test_the_published_grid_is_within_the_range_and_what_lies_beyond_is_said():
    for alpha in (1, 2, 3, 4, 5, 10, 100):
        for rank in (0, 100, 350):
            assert warnings(alpha) == warnings(alpha, states=700 - rank) == []
    (sentence,) = warnings(1000.0, states=700)
    assert "alpha 1000" in sentence and "about 50 % of the clients get the worst of the 700 states" in sentence
    assert "lower alpha" in warnings(101.0)[0]
    for states in (None, 700):
        assert warnings(1e6, states=states, semantics="released") == [], "it opens states one by one"
    assert warnings(5e-324, states=700) == warnings(4.0, states=1) == warnings(4.0, states=0) == []
