"""Private algorithms: bounded influence, plain weights, a fixed denominator, noise where it belongs, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core import aggregation
from fedfleet.core.aggregation import Entry
from fedfleet.core.errors import BadInput
from fedfleet.core.noise import Noise, add_noise, seeded_key
from fedfleet.core.parts import Job, Promise
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.rng import client_keys
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.differential_privacy import gaussian, local, tree
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.folds import median, norm_bound, with_fold
from fedfleet.learn.zoo import centralized
from tests.learn.digits import models, task, trained

SERVER = ServerState({"w": np.zeros(6, np.float32)})


def sum_of(algorithm, updates, weights=None):
    acc = aggregation.zero(algorithm.fold, SERVER)
    for i, u in enumerate(updates):
        report = Report(i, i, {"w": np.asarray(u, np.float32)}, 1.0 if weights is None else weights[i], {})
        aggregation.add(algorithm.fold, acc, report, Context(0, 0.0, i))
    return aggregation.finish(algorithm.fold, acc).mean["w"]


@pytest.mark.parametrize("make", [gaussian, tree])
def test_one_client_moves_the_sum_by_the_clip_at_most_whatever_it_claims(make):
    private = make(cohort=4, clip=0.5).around(fedavg())
    rng = np.random.default_rng(0)
    updates = [rng.normal(size=6) * scale for scale in (0.01, 1.0, 30.0, 900.0)]
    with_all = sum_of(private, updates, weights=(1.0, 7.0, 1e6, 1e-6))
    for left_out in range(4):
        zeroed = [u * (i != left_out) for i, u in enumerate(updates)]
        moved = np.linalg.norm(with_all.astype(np.float64) - sum_of(private, zeroed))
        assert moved <= 0.5 / 4 + 1e-7, "clip over the denominator, and nothing else"
    assert np.array_equal(with_all, sum_of(private, updates)), "weights are claims"


def test_the_denominator_is_fixed_and_reports_weigh_one():
    private = gaussian(cohort=10).around(fedavg())
    assert (private.fold.denominator, private.local(0, {}).weigh) == (10.0, "one")
    assert sum_of(private, [np.full(6, 0.1)] * 2).tolist() == pytest.approx([0.02] * 6)


def test_a_discount_for_staleness_survives_and_a_weight_above_one_does_not():
    slow = replace(fedavg(), fold=replace(fedavg().fold, enter=lambda w, s, c: Entry(w * 3.0, factor=0.5)))
    private = gaussian(cohort=1, clip=100.0).around(slow)
    assert sum_of(private, [np.ones(6)]).tolist() == [0.5] * 6


def test_a_private_fold_has_one_sum():
    named = replace(fedavg(), fold=replace(fedavg().fold, enter=lambda w, s, c: Entry(w, sum="late" * c.staleness)))
    private = gaussian(cohort=1).around(named)
    report = Report(0, 0, {"w": np.zeros(6, np.float32)}, 1.0, {})
    why = aggregation.check_and_add(private.fold, aggregation.zero(private.fold, SERVER), report, Context(1, 0.0, 0))
    assert why == "with algorithm.private all reports are added to one sum, but this report is for the sum 'late'"


def test_noise_and_promise_follow_from_the_parameters():
    central = gaussian(cohort=5, clip=0.5, noise=2.0, delta=1e-6).around(fedavg())
    assert central.fold.noise == Noise(1.0, "fresh")
    assert central.private == Promise("gaussian", 2.0, 1e-6)
    assert tree(cohort=5).around(fedavg()).fold.noise == Noise(1.0, "tree")
    bounded = gaussian(cohort=5, clip=2.0).around(with_fold(fedavg(), norm_bound(1.0)))
    assert (bounded.fold.clip, bounded.fold.noise) == (1.0, Noise(2.0))


DRAWS = 100_000
FIVE_ERRORS = 5.0 / np.sqrt(2.0 * DRAWS)  # of a standard deviation that is measured on so many draws, relatively


def released(algorithm, commit, value=0.0):
    """What one commit of a wide model releases when one client's update has this value everywhere."""
    server = ServerState({"w": np.zeros(DRAWS, np.float32)})
    acc = aggregation.zero(algorithm.fold, server)
    report = Report(0, 0, {"w": np.full(DRAWS, value, np.float32)}, 1.0, {})
    aggregation.add(algorithm.fold, acc, report, Context(0, 0.0, 0))
    noisy = add_noise(algorithm.fold.noise, acc, seeded_key(3), commit)
    return aggregation.finish(algorithm.fold, noisy).mean["w"].astype(np.float64)


@pytest.mark.parametrize(("clip", "multiple", "cohort"), [(1.0, 1.0, 1), (0.5, 2.0, 20), (3.0, 0.3, 7), (0.01, 5.0, 100)])
def test_the_noise_that_is_released_has_the_standard_deviation_that_is_declared(clip, multiple, cohort):
    """N(0, (multiple clip)^2) in the sum, so (multiple clip / cohort)^2 in the mean: what epsilon is computed from."""
    algorithm = gaussian(cohort=cohort, clip=clip, noise=multiple).around(fedavg())
    assert algorithm.private.noise == multiple and algorithm.fold.clip == clip
    draws = released(algorithm, 1) * cohort
    declared = algorithm.private.noise * algorithm.fold.clip
    assert draws.std() == pytest.approx(declared, rel=FIVE_ERRORS)
    assert abs(draws.mean()) < 5.0 * declared / np.sqrt(DRAWS)
    assert np.mean(np.abs(draws) > 1.959964 * declared) == pytest.approx(0.05, abs=5.0 * np.sqrt(0.05 * 0.95 / DRAWS))
    assert abs(np.corrcoef(draws, released(algorithm, 2) * cohort)[0, 1]) < 5.0 / np.sqrt(DRAWS)
    # A client's part is on top of it, and no longer than the clip.
    part = released(algorithm, 1, 100.0) * cohort - draws
    assert np.linalg.norm(part) == pytest.approx(clip, rel=1e-3)


def test_the_noise_of_a_tree_is_that_of_the_nodes_of_a_commit():
    """The noise in all that was released up to commit t has the variance of as many nodes as t has binary ones."""
    algorithm = tree(cohort=2, clip=0.5, noise=4.0).around(fedavg())
    total = np.zeros(DRAWS)
    for commit in range(1, 9):
        total += released(algorithm, commit) * 2
        assert total.std() == pytest.approx(2.0 * np.sqrt(bin(commit).count("1")), rel=FIVE_ERRORS)


@pytest.mark.parametrize("privacy", [gaussian(cohort=4, noise=1e-3, clip=1.0), tree(cohort=4, noise=1e-3, clip=1.0)])
def test_little_noise_leaves_the_model_where_it_would_be(privacy):
    plain = replace(fedavg(weigh="one"), fold=replace(fedavg().fold, denominator=4.0, clip=1.0))
    a, b = trained(plain)[1].state.server.params, trained(privacy.around(fedavg()))[1].state.server.params
    assert all(np.allclose(a[n], b[n], atol=5e-3) for n in a)
    assert any(not np.array_equal(a[n], b[n]) for n in a)


def reports(algorithm, make, seed=3):
    server = algorithm.init(task().init(3))
    keys = client_keys(3)
    jobs = [
        Job(
            c,
            c,
            int(keys[c]),
            seed,
            algorithm.offer(server, c, {}),
            algorithm.local(c, {}),
            np.arange(20 * c, 20 * c + 20),
        )
        for c in range(3)
    ]
    return list(make(task()).train(jobs))


def flat(report):
    return np.concatenate([report.update[n].reshape(-1).astype(np.float64) for n in sorted(report.update)])


@pytest.mark.parametrize("make", [inline, stacked_executor], ids=["inline", "stacked"])
def test_local_noise_is_drawn_by_each_client_for_itself(make):
    bare = [flat(r) for r in reports(fedavg(), make)]
    noisy = reports(local(clip=0.1, noise=2.0).around(fedavg()), make)
    short = [u * min(1.0, 0.1 / np.linalg.norm(u)) for u in bare]
    drawn = np.array([flat(r) - s for r, s in zip(noisy, short, strict=True)])
    assert drawn.std(1) == pytest.approx([0.2] * 3, rel=0.1)
    assert np.abs(np.corrcoef(drawn) - np.eye(3)).max() < 0.15
    assert {r.weight for r in noisy} == {1.0}
    again = reports(local(clip=0.1, noise=2.0).around(fedavg()), make)
    assert all(np.array_equal(flat(a), flat(b)) for a, b in zip(noisy, again, strict=True))


def test_local_noise_stacks():
    algorithm = local().around(fedavg())
    assert algorithm.local(0, {}) == algorithm.local(5, {})
    assert models(trained(algorithm)[0]) == models(trained(local().around(fedavg()))[0])


REFUSED = {
    "collects whole reports": lambda: gaussian(cohort=4).around(with_fold(fedavg(), median())),
    "no client to protect": lambda: gaussian(cohort=4).around(centralized()),
    "is private already": lambda: local().around(gaussian(cohort=4).around(fedavg())),
    "already divides by 7": lambda: gaussian(cohort=4).around(replace(fedavg(), fold=replace(fedavg().fold, denominator=7.0))),
    "raise algorithm.bound": lambda: gaussian(cohort=4, clip=1e4, noise=1e4).around(fedavg(bound=2.0**-4)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_private_is_refused_in_one_sentence(why):
    with pytest.raises(BadInput, match=why) as wrong:
        REFUSED[why]()
    assert str(wrong.value).startswith("algorithm.private") and "\n" not in str(wrong.value)


def spec(**more):
    algorithm = {"private": {"use": "gaussian", "cohort": 4}}
    return {"task": "digits_logreg", "world": {"clients": 12}, "pace": {"cohort": 2}, "algorithm": algorithm, **more}


def test_edges_and_overrides_are_refused():
    users = {"world": {"clients": 12, "users": {"use": "groups", "count": 3}}, "edge": "hierfl"}
    with pytest.raises(BadInput, match=r"edge.use = 'hierfl': .* leave algorithm.private out"):
        assemble(resolve(spec(**users)))
    with pytest.raises(BadInput, match=r"override\[0\].algorithm.private: .*server"):
        assemble(resolve(spec(override=[{"clients": [0], "algorithm": {"private": {"noise": 0.1}}}])))
