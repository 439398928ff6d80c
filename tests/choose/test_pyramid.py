"""PyramidFL: equal to Oort without its features, less data by rank, and more steps that never make a round longer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.spec import resolve
from fedfleet.choose.oort import oort
from fedfleet.choose.pyramid import SEES, pyramidfl, step_counts
from fedfleet.core.cost import work_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import ModelCommitted, TaskArrived, TasksDropped, TasksSent
from fedfleet.core.parts import Draw
from fedfleet.core.passes import BatchPlan
from fedfleet.core.records import FOLDED, Ended, Roster
from fedfleet.core.rng import client_keys
from fedfleet.simulation.simulator import simulate
from fedfleet.testing import check_selector
from tests.worlds import only

pytestmark = pytest.mark.slow

law = settings(deadline=None, derandomize=True, max_examples=200)
OFF = {"low": 0.0, "high": 0.0, "slack": 0.0}
SPEC = {
    "seed": 3,
    "task": "digits_logreg",
    "algorithm": {"use": "fedavg", "batch": 8},
    "choose": {"use": "pyramidfl", "low": 0.0, "high": 0.0},
    "world": {"clients": 30, "model_bytes": 4e6, "devices": {"use": "spread", "link": 0.6, "compute": 0.6}},
    "pace": {"use": "readiness", "cohort": 8},
    "stop": {"rounds": 5},
}


def roster(n):
    stats = dict(zip(SEES, (np.array([9.0]), *np.array([[3.0], [1.0], [2.0], [1.0], [8.0]])), strict=True))
    return Roster(np.arange(n), client_keys(n), np.full(n, 10), {name: np.repeat(column, n) for name, column in stats.items()})


def lesson(clients, norms):
    stats = {"loss": np.ones(len(clients)), "samples": np.full(len(clients), 10.0), "update_norm": np.array(norms)}
    n = len(clients)
    return Ended(np.arange(n), np.array(clients), np.full(n, 5.0), np.full(n, FOLDED, np.int8), stats)


@pytest.mark.parametrize("features", [OFF, {**OFF, "most": 0.0, "slack": 1.0}])
def test_without_its_features_it_is_oort_pick_for_pick(features):
    plain, mine = oort(explore=0.5), pyramidfl(oort(explore=0.5), **features)
    one, other = plain.initial(40), mine.initial(40)
    for r in range(12):
        expected, result = (s.pick(state, roster(40), 7, Draw(2, r)) for s, state in ((plain, one), (mine, other)))
        for column in ("clients", "steps", "share"):
            assert getattr(result, column).tolist() == getattr(expected, column).tolist()
        told = lesson(result.clients, np.arange(1.0, 8.0))
        one, other = plain.learn(one, told, 0.0), mine.learn(other, told, 0.0)


def test_who_taught_less_trains_on_less():
    choose = pyramidfl(low=0.1, high=0.6)
    state = choose.learn(choose.initial(5), lesson([0, 1, 2, 3], [4.0, 1.0, 3.0, 2.0]), 0.0)
    asked = choose.pick(state, roster(5), 5, Draw(1, 0))
    share = dict(zip(asked.clients.tolist(), asked.share.tolist(), strict=True))
    # The one who has not told comes first, and then by the norm of their updates.
    assert [share[c] for c in (4, 0, 2, 3, 1)] == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5])


def test_gradients_that_are_no_numbers_tell_nothing():
    choose = pyramidfl()
    state = choose.learn(choose.initial(2), lesson([0, 1], [math.nan, math.inf]), 0.0)
    assert not state["gradient"].any() and not len(state["log"])


@st.composite
def cohorts(draw):
    """Members of a cohort: sizes, speeds and shares; and the batches that they walk in."""
    n = draw(st.integers(1, 6))

    def column(strategy):
        return np.array(draw(st.lists(strategy, min_size=n, max_size=n)), np.float64)

    batches = BatchPlan(draw(st.integers(1, 20)), draw(st.integers(1, 4)), draw(st.sampled_from([None, None, 1, 7, 30])))
    share = column(st.sampled_from([1.0, 1.0, 0.9, 0.55, 0.2]))
    speeds = (column(st.floats(0.01, 2.0)), column(st.sampled_from([0.0, 0.0, 0.3, 2.0])), column(st.floats(0.0, 50.0)))
    return batches, column(st.integers(1, 60)).astype(np.int64), share, *speeds


def seconds_of(batches, steps, share, samples, per_sample, per_batch, transfer):
    seen, made = work_of(batches, np.broadcast_to(steps, len(samples)), np.broadcast_to(share, len(samples)), samples)
    return transfer + per_sample * seen + per_batch * made


def foreseen(batches, samples, per_sample, per_batch, transfer, latency=0.25):
    """The columns that the runtime would show of these members."""
    whole = seconds_of(batches, 0, 1.0, samples, per_sample, per_batch, latency)
    step = seconds_of(batches, 1, 1.0, samples, per_sample, per_batch, latency)
    steps = work_of(batches, np.zeros(len(samples), np.int64), np.ones(len(samples)), samples)[1]
    return dict(zip(SEES, (whole, transfer, np.full(len(samples), latency), step, per_batch + latency, steps), strict=True))


@law
@given(cohorts(), st.sampled_from([1.0, 1.0, 0.77, 0.5]), st.sampled_from([math.inf, 40.0]), st.sampled_from([1.0, 0.5]))
def test_nobody_who_makes_more_steps_ends_after_the_round(cohort, wait_for, seconds, slack):
    batches, samples, share, per_sample, per_batch, transfer = cohort
    columns = foreseen(batches, samples, per_sample, per_batch, transfer)
    steps = step_counts(columns, share, wait_for=wait_for, seconds=seconds, slack=slack, most=10.0)
    took = seconds_of(batches, steps, share, samples, per_sample, per_batch, transfer)
    end = min(np.sort(took)[math.ceil(wait_for * len(took) - 1e-9) - 1], seconds)
    adapted = steps > 0
    assert (took[adapted] <= end).all()
    assert (steps[adapted] > columns["steps"][adapted]).all() and (steps <= 11 * columns["steps"]).all()
    plain = seconds_of(batches, 0, share, samples, per_sample, per_batch, transfer)
    assert wait_for < 1.0 or seconds < math.inf or steps[np.argmax(plain)] == 0 or (share < 1.0).any()


@law
@given(cohorts())
def test_the_slowest_does_no_more_than_it_was_asked_for_and_the_rest_use_their_time(cohort):
    batches, samples, _, per_sample, per_batch, transfer = cohort
    columns, share = foreseen(batches, samples, per_sample, per_batch, transfer), np.ones(len(samples))
    steps = step_counts(columns, share, wait_for=1.0, seconds=math.inf, slack=1.0, most=1e9)
    plain = seconds_of(batches, 0, share, samples, per_sample, per_batch, transfer)
    assert steps[np.argmax(plain)] == 0
    took = seconds_of(batches, steps, share, samples, per_sample, per_batch, transfer)
    step = columns["step_seconds"] - columns["latency_seconds"]
    unused = plain.max() - plain - np.maximum(steps - columns["steps"], 0) * step
    assert (unused < step * (1 + 1e-6) + 1e-6).all() and (took <= plain.max()).all()


def test_who_cannot_be_foreseen_or_cannot_do_the_work_does_the_usual():
    columns = foreseen(BatchPlan(4), np.full(4, 10), *np.array([[0.1, 0.1, 1.0, np.inf], [0.0] * 4, [1.0] * 4]))
    columns["steps"][0] = np.nan
    how = {"wait_for": 1.0, "seconds": math.inf, "slack": 1.0, "most": 10.0}
    steps = step_counts(columns, np.ones(4), **how)
    assert steps[[0, 2, 3]].tolist() == [0, 0, 0] and steps[1] > 3
    nobody = {name: np.full(4, np.inf) for name in SEES}
    assert not step_counts(nobody, np.ones(4), **how).any()


def trips(spec):
    """Round by round: steps asked for and seconds taken of the folded, and what else happened."""
    events = []
    setup = assemble(resolve(spec))
    with open_executor(setup) as execute:
        simulate(setup.plan, setup.world, execute, watch=events.extend)
    came = {e.task: e for e in only(TaskArrived, events)}
    rounds = []
    for sent in only(TasksSent, events):
        tasks = [sent.first + i for i in range(len(sent.clients))]
        took = np.array([came[t].seconds if t in came else np.inf for t in tasks])
        rounds.append((sent.time, sent.steps, took))
    return rounds, only(ModelCommitted, events), only(TasksDropped, events)


PACES = {
    "readiness": ({}, {}),
    "data too": ({"low": 0.1, "high": 0.6}, {}),
    "overcommit": (
        {"wait_for": 0.5},
        {"use": "overcommit", "factor": 2.0, "policy": {"use": "readiness", "cohort": 6}},
    ),
    "deadline": ({"seconds": 9.0}, {"use": "deadline", "cohort": 8, "seconds": 9.0}),
}


@pytest.mark.parametrize("name", PACES)
def test_in_a_run_nobody_who_makes_more_steps_ends_after_the_round(name):
    choose, pace = PACES[name]
    rounds, commits, dropped = trips({**SPEC, "choose": {**SPEC["choose"], **choose}, "pace": pace or SPEC["pace"]})
    assert len(commits) == len(rounds) == 5
    for (sent_at, steps, took), commit in zip(rounds, commits, strict=True):
        assert (sent_at + took[steps > 0] <= commit.time).all()
        assert steps[np.argmax(took)] == 0
    assert sum(int((steps > 0).sum()) for _, steps, _ in rounds) > 10, "or nothing was shown"
    assert bool(dropped) == (name in ("overcommit", "deadline"))


def test_it_fits_no_policy_without_rounds():
    with pytest.raises(BadInput, match=r"'pyramidfl\(oort\)' .*'buffered' has no rounds"):
        assemble(resolve({**SPEC, "pace": {"use": "buffered", "k": 2, "concurrency": 4}}))
    assemble(resolve({**SPEC, "choose": "oort", "pace": {"use": "buffered", "k": 2, "concurrency": 4}}))


def test_a_best_that_leaves_out_more_than_the_last_is_refused():
    with pytest.raises(BadInput, match="swap low and high"):
        pyramidfl(low=0.5, high=0.2)


def test_it_is_a_selector_as_others_are():
    check_selector(pyramidfl())


def test_one_around_another_keeps_columns_of_its_own():
    inner = pyramidfl(low=0.0, high=0.0, slack=0.0)
    choose = pyramidfl(inner, low=0.1, high=0.6)
    state = choose.learn(choose.initial(5), lesson([0, 1, 2, 3], [4.0, 1.0, 3.0, 2.0]), 0.0)
    plain = pyramidfl(low=0.1, high=0.6)
    alone = plain.learn(plain.initial(5), lesson([0, 1, 2, 3], [4.0, 1.0, 3.0, 2.0]), 0.0)
    asked, same = (c.pick(s, roster(5), 5, Draw(1, 0)) for c, s in ((choose, state), (plain, alone)))
    assert asked.clients.tolist() == same.clients.tolist() and asked.share.tolist() == same.share.tolist()
    check_selector(pyramidfl(pyramidfl()))
