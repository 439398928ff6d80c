"""ShuffleFL as an edge's turn: what is planned is what moves, what moves is what is charged, and the slow get less."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.edges import Abilities, Visit
from fedfleet.core.part_facts import TaskFacts
from fedfleet.core.rng import client_keys
from fedfleet.edges.shufflefl.gateways import exact_seconds, planning_seconds, profile_of
from fedfleet.edges.shufflefl.rule import exchange_seconds, move_rows, shufflefl
from fedfleet.engine.hierarchy import make_visits, turn_cost, turn_seconds
from fedfleet.shuffle.problem import effort, latencies, link, problem_from
from tests.engine.test_hierarchy import edge_job

pytestmark = pytest.mark.slow

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
FEW = settings(deadline=None, derandomize=True, max_examples=12)
BITS, EPOCHS = 2e5, 5.0
SOLVERS = ("quick", "exact", "proportional", "none")


def facts_of(classes, *, asked=None, bits=BITS, epochs=EPOCHS):
    """Row r has label r mod classes; classes look alike in pairs. `asked` notes each time features are wanted."""

    def features():
        if asked is not None:
            asked.append(classes)
        return np.repeat(np.arange(-(-classes // 2)), 2)[:classes, None] * np.array([[9.0, 4.0, 1.0]])

    return lambda: TaskFacts(lambda rows: rows % classes, classes, bits, epochs, features)


def visit_of(counts, able=None, *, memory=None, task=0, seed=3, edge=1):
    """A user whose device v holds counts[v][i] rows of class i, in no particular order."""
    counts = np.array(counts)
    devices, classes = counts.shape
    starts = np.cumsum(counts, 0) - counts

    def held(v):
        mine = [i + classes * (starts[v, i] + np.arange(counts[v, i])) for i in range(classes)]
        return np.random.default_rng(v).permutation(np.concatenate(mine))

    rows = tuple(held(v) for v in range(devices))
    able = able or Abilities(np.full(devices, 0.05), np.full(devices, 1e7), np.full(devices, 2e7))
    return Visit(edge, task, task, seed, np.arange(devices), client_keys(devices), able, rows, memory or {})


def rule(classes, **given_):
    return shufflefl(**given_, facts=facts_of(classes))


def counts_by_class(rows, classes):
    return np.stack([np.bincount(mine % classes, minlength=classes) for mine in rows])


def flows(visit, rows, classes):
    """How many rows of class i went from device v to device j, found by looking at them: [V, c, V]."""
    result = np.zeros((len(rows), classes, len(rows)), np.int64)
    for v, before in enumerate(visit.rows):
        for j, after in enumerate(rows):
            result[v, :, j] = np.bincount(before[np.isin(before, after)] % classes, minlength=classes)
    return result


@st.composite
def owners(draw, most=4):
    """What a user's devices hold: some empty, some classes absent."""
    devices, classes = draw(st.integers(1, most)), draw(st.integers(1, 5))
    row = st.lists(st.sampled_from([0, 0, 1, 2, 5, 9]), min_size=classes, max_size=classes)
    counts = np.array(draw(st.lists(row, min_size=devices, max_size=devices)))
    counts[0, 0] += counts.sum() == 0
    return counts


@st.composite
def abilities(draw, devices):
    def some(*of):
        return np.array(draw(st.lists(st.sampled_from(of), min_size=devices, max_size=devices)))

    return Abilities(some(0.01, 0.02, 0.13), some(5e5, 4e6, 1e8), some(1e6, 8e6, 1e8))


@LAWS
@given(owners(), st.integers(0, 10_000))
def test_exactly_the_planned_samples_move(counts, seed):
    rng = np.random.default_rng(seed)
    devices, classes = counts.shape
    plan = np.stack([rng.multinomial(counts[v], rng.dirichlet(np.ones(devices))) for v in range(devices)])
    visit = visit_of(counts, seed=seed)
    task = facts_of(classes)()
    rows = move_rows(visit, task, plan)
    assert np.array_equal(flows(visit, rows, classes), plan)
    assert np.array_equal(np.sort(np.concatenate(rows)), np.sort(np.concatenate(visit.rows)))
    for before, after in zip(visit.rows, rows, strict=True):
        stayed = before[np.isin(before, after)]
        assert np.array_equal(after[: len(stayed)], stayed), "what stays keeps its order"
    assert all(np.array_equal(a, b) for a, b in zip(rows, move_rows(visit, task, plan), strict=True))


def test_which_samples_go_is_drawn_anew_for_each_turn():
    plan = np.array([[[10, 10]], [[0, 20]]])
    one, two = (move_rows(visit_of([[20], [20]], task=task), facts_of(1)(), plan) for task in (0, 1))
    assert len(one[0]) == len(two[0]) == 10 and set(one[0]) != set(two[0])


@FEW
@given(st.data(), owners())
def test_a_turn_keeps_all_samples_and_charges_what_it_moves(data, counts):
    devices, classes = counts.shape
    visit = visit_of(counts, data.draw(abilities(devices)))
    for solver in SOLVERS:
        turn = rule(classes, solver=solver).plan([visit])[0]
        went = flows(visit, turn.rows, classes)
        assert np.array_equal(went.sum(2), counts), "row sums"
        across = went.sum(1) * (1 - np.eye(devices))
        hop = BITS * (1 / visit.abilities.up_bps[:, None] + 1 / visit.abilities.down_bps[None, :])
        np.testing.assert_allclose(turn.exchange, (across * hop).sum(1) + (across * hop).sum(0))
        held = np.array([len(rows) for rows in turn.rows])
        own = turn.exchange + 3 * EPOCHS * visit.abilities.seconds_per_sample * held
        assert turn.stats["latency_after"] == pytest.approx(own.max())
        assert (turn.memory["samples"][0], turn.memory["moved"][0]) == (counts.sum(), across.sum())
        sync = turn.syncs[0]
        assert sync.slots.tolist() == np.flatnonzero(held).tolist() and len(turn.syncs) == 1 and sync.steps == 0
        assert all(np.array_equal(r, turn.rows[k]) for k, r in zip(sync.slots.tolist(), sync.rows, strict=True))


@FEW
@given(owners())
def test_no_solver_means_no_movement_and_no_charge(counts):
    visit = visit_of(counts)
    for gateway in ("ours", "raspberry_pi4"):
        turn = rule(counts.shape[1], solver="none", gateway=gateway, gamma=0.1).plan([visit])[0]
        assert all(np.array_equal(a, b) for a, b in zip(turn.rows, visit.rows, strict=True))
        assert turn.planning == 0.0 and not turn.exchange.any()
        assert turn.stats["latency_after"] == turn.stats["latency_before"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("gateway", ["ours", "jetson_nano_2"])
def test_one_device_has_nothing_to_plan_or_exchange(solver, gateway):
    visit = visit_of([[3, 0, 8]])
    turn = rule(3, solver=solver, gateway=gateway).plan([visit])[0]
    assert np.array_equal(turn.rows[0], visit.rows[0])
    assert turn.planning == 0.0 and turn.exchange.tolist() == [0.0]


def test_without_alpha_only_time_counts():
    for seed in range(25):
        rng = np.random.default_rng(seed)
        visit = visit_of(
            rng.integers(0, 5, (2, 2)) + [[1, 0], [0, 1]],
            Abilities(rng.uniform(0.01, 0.2, 2), rng.uniform(1e5, 1e6, 2), rng.uniform(1e5, 1e6, 2)),
        )
        turn = rule(2, alpha=0.0, time_balance=False, adaptive=False).plan([visit])[0]
        n = [len(rows) for rows in visit.rows]
        problem = problem_from({
            "counts": counts_by_class(visit.rows, 2), "seconds_per_sample": visit.abilities.seconds_per_sample, "alpha": 0.0,
            "up_bps": visit.abilities.up_bps, "down_bps": visit.abilities.down_bps, "bits_per_sample": BITS, "epochs": EPOCHS,
        })  # fmt: skip
        every = [
            latencies(np.array([[n[0] - a, a], [b, n[1] - b]], float), effort(problem), link(problem)).max()
            for a in range(n[0] + 1)
            for b in range(n[1] + 1)
        ]
        assert turn.stats["latency_after"] == pytest.approx(min(every))
        assert turn.stats["objective"] == pytest.approx(min(every)), "imbalance weighs nothing"


def test_the_plan_is_never_worse_than_doing_nothing_and_makes_devices_alike():
    visit = visit_of([[40, 0, 0], [0, 40, 0], [0, 0, 40]])
    turn = rule(3, alpha=1e4).plan([visit])[0]
    assert turn.stats["imbalance_before"] > 0.2 and turn.stats["imbalance_after"] < 0.01
    assert counts_by_class(turn.rows, 3).min() >= 12


def test_a_whole_turn_takes_what_the_hand_computes():
    able = Abilities(np.array([0.1, 0.1]), np.array([8000.0, 8000.0]), np.array([8000.0, 8000.0]))
    facts = facts_of(2, bits=8000.0, epochs=2.0)  # a sample needs 1 s to the edge and 1 s from there
    slots = [0, 1] * 4  # device 0 holds class 0, device 1 class 1
    # Each hands two samples to the other and pays for both hops: 4 x 2 s. Model (8000 bits) and training: 1 + 2.4 + 1.
    for solver, planning in (("proportional", 0.0), ("quick", exact_seconds(2, 2, 8))):
        job = edge_job(slots, able, rule=shufflefl(solver=solver, alpha=1e5, facts=facts))
        visit = make_visits([job])[0]
        turn = job.local.rule.plan([visit])[0]
        assert counts_by_class(turn.rows, 2).tolist() == [[2, 2], [2, 2]]
        assert turn_seconds(turn_cost(job, visit, turn)) == pytest.approx(1 + planning + (1 + 8 + 3 * 0.1 * 2 * 4 + 1) + 1)


def test_whoever_exchanges_pays_half_a_trip_of_each_end():
    able = Abilities(np.full(3, 0.1), np.full(3, 8000.0), np.full(3, 8000.0), latency=np.array([1.0, 3.0, 10.0]))
    problem = problem_from({
        "counts": [[9], [9], [9]], "seconds_per_sample": able.seconds_per_sample, "up_bps": able.up_bps,
        "down_bps": able.down_bps, "bits_per_sample": 8000.0, "alpha": 0.0,
    })  # fmt: skip
    flows = np.array([[5, 4, 0], [1, 8, 0], [0, 0, 9]])
    # Five samples pass between 0 and 1 at 2 s each, in two transfers of (1 + 3) / 2 s; what stays costs nothing.
    assert exchange_seconds(problem, flows, able).tolist() == [14.0, 14.0, 0.0]
    still = replace(able, latency=0.0)
    assert exchange_seconds(problem, flows, still).tolist() == [10.0, 10.0, 0.0]


# ---- the server weighs users against each other -------------------------------------------------------------------

TWO = [[12, 0], [2, 9]]


def after(turn, seconds):
    """What an edge remembers of a turn that took so long."""
    return {**turn.memory, "seconds": np.array([seconds])}


def alphas(edge, visits):
    return [turn.stats["alpha"] for turn in edge.plan(visits)]


def test_the_first_time_everybody_has_alpha_itself():
    assert alphas(rule(2, alpha=20.0), [visit_of(TWO), visit_of([[1, 2]])]) == [20.0, 20.0]
    auto = alphas(rule(2), [visit_of(TWO), visit_of(TWO)])
    assert auto[0] == auto[1] > 0.0


def test_the_slow_look_after_their_time_and_the_quick_even_out_their_data():
    edge = rule(2, alpha=20.0)
    first = edge.plan([visit_of(TWO)])[0]
    waves = [visit_of(TWO, memory=after(first, s), task=1) for s in (10.0, 30.0)]
    assert alphas(edge, [*waves, visit_of(TWO, task=1)]) == pytest.approx([40.0, 40.0 / 3, 20.0])
    assert alphas(edge, waves[:1]) == pytest.approx([20.0]), "alone it is the mean itself"
    assert alphas(rule(2, alpha=20.0, adaptive=False), waves) == [20.0, 20.0]


def test_equation_8_as_printed_calls_slowed_devices_quick():
    edge, printed = rule(2, alpha=20.0), rule(2, alpha=20.0, printed_eq8=True)
    able = visit_of(TWO).abilities
    slowed = Abilities(able.seconds_per_sample * 4, able.up_bps / 4, able.down_bps / 4)
    first = edge.plan([visit_of(TWO)])[0]
    wave = [visit_of(TWO, now, memory=after(first, 10.0), task=1) for now in (able, slowed)]
    right, wrong = alphas(edge, wave), alphas(printed, wave)
    assert right == pytest.approx([20 * 25 / 10, 20 * 25 / 40])
    assert wrong == pytest.approx([20 * 6.25 / 10, 20 * 6.25 / 2.5])


# ---- gateways and merged classes ----------------------------------------------------------------------------------


def ten_classes(devices=4, each=4):
    return np.random.default_rng(0).integers(0, each, (devices, 10))


def test_a_gateway_charges_the_seconds_of_its_table():
    visit = visit_of(ten_classes())
    assert rule(10, gateway="raspberry_pi4").plan([visit])[0].planning == 25.26
    assert rule(10, gateway="raspberry_pi4", solver="proportional").plan([visit])[0].planning == 0.0
    ours = rule(10).plan([visit])[0]
    assert ours.planning == exact_seconds(10, 4, int(ten_classes().sum())) < 1.0
    mixed = rule(10, gateway="mixed").plan([visit])[0].planning
    assert mixed == planning_seconds(profile_of(visit.keys[:1], seed=visit.seed)[0], 10, 4, merged=False)


def test_merged_classes_are_planned_as_fewer_and_still_handed_out_exactly():
    counts, asked = ten_classes(), []
    visit = visit_of(counts)
    for gamma, groups in ((1.0, 10), (0.5, 5), (0.1, 1)):
        edge = shufflefl(gamma=gamma, facts=facts_of(10, asked=asked))
        for task in range(2):
            turn = edge.plan([visit_of(counts, task=task)])[0]
            assert turn.planning == exact_seconds(groups, 4, int(counts.sum()))
            assert np.array_equal(flows(visit, turn.rows, 10).sum(2), counts)
        assert counts_by_class(turn.rows, 10).sum(0).tolist() == counts.sum(0).tolist()
    assert asked == [10, 10], "features are asked for once, and not at all where nothing is merged"


def test_a_papers_gateway_merges_classes_as_its_table_says():
    counts = np.random.default_rng(1).integers(0, 2, (3, 62))
    turn = rule(62, gateway="raspberry_pi4").plan([visit_of(counts)])[0]
    assert turn.planning == planning_seconds("raspberry_pi4", 62, 3, merged=True) == 7.56
    assert np.array_equal(flows(visit_of(counts), turn.rows, 62).sum(2), counts)


def test_devices_that_need_no_time_can_be_planned_for():
    able = Abilities(np.zeros(2), np.full(2, 1e6), np.full(2, 1e6))
    turn = rule(2, alpha=5.0).plan([visit_of(TWO, able)])[0]
    assert np.isfinite(turn.stats["objective"]) and np.array_equal(counts_by_class(turn.rows, 2).sum(0), np.sum(TWO, axis=0))
