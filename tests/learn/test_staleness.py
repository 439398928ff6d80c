"""What late reports count: the weights, and the methods by the recurrences that define them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.uniform import uniform
from fedfleet.core import aggregation
from fedfleet.core.decoders import Decoder
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.parts import Plan
from fedfleet.core.records import Context, Report, ServerState, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import World
from fedfleet.executors.gather import admit
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.staleness import staleness_weight, with_damping, with_mixing
from fedfleet.learn.zoo import fedasync, fedbuff, stale_fedavg
from fedfleet.pace.asynchronous import buffered
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.world.partitions import iid, make_shards
from fedfleet.world.states import always_on
from tests.learn.digits import models, task
from tests.worlds import devices_of, even_fleet

pytestmark = pytest.mark.slow

law = settings(deadline=None, derandomize=True, max_examples=60)
POLICIES = st.sampled_from(["polynomial", "constant", "hinge"])


@law
@given(POLICIES, st.floats(0, 20), st.integers(0, 9), st.integers(0, 500))
def test_weights_begin_at_one_and_never_rise(damping, a, b, tau):
    weight = staleness_weight(damping, a, b)
    assert weight(0) == 1.0
    assert 0.0 <= weight(tau + 1) <= weight(tau) <= 1.0


def test_weights_as_printed():
    assert staleness_weight("polynomial", 0.5, 4)(3) == 0.5
    assert staleness_weight("constant", 0.5, 4)(30) == 1.0
    assert [staleness_weight("hinge", 10.0, 4)(tau) for tau in (4, 6)] == [1.0, 1 / 21]


def tree(value):
    return {"w": np.asarray(value, np.float32)}


def committed(algorithm, now, reports):
    """The model after one commit of (update, start, staleness, weight)."""
    server = ServerState(tree(now))
    acc = aggregation.zero(algorithm.fold, server)
    for i, (update, start, tau, weight) in enumerate(reports):
        context = Context(tau, 1.0, i, {}, i, tree(start))
        assert admit(algorithm.fold, server, acc, Report(i, i, tree(update), weight, {}), context, algorithm.accept) is None
    aggregate = aggregation.finish(algorithm.fold, acc)
    return algorithm.apply(server, aggregate).params["w"]


values = st.integers(-64, 64).map(lambda n: n / 8)
reports = st.lists(st.tuples(values, values, st.integers(0, 6), st.integers(1, 4).map(float)), min_size=1, max_size=5)


@law
@given(values, reports, st.sampled_from([1.0, 0.5]), POLICIES)
def test_fedbuff_adds_damped_updates_from_their_start(now, came, server_lr, damping):
    s = staleness_weight(damping, 0.5, 4)
    total = sum(weight for *_, weight in came)
    wanted = now + server_lr * sum(w * s(tau) * delta for delta, _, tau, w in came) / total
    result = committed(fedbuff(server_lr=server_lr, damping=damping), [now], [([d], [b], t, w) for d, b, t, w in came])
    assert result[0] == pytest.approx(wanted, abs=1e-5)


@law
@given(values, reports)
def test_normalised_weights_divide_by_what_counts(now, came):
    s = staleness_weight("polynomial", 0.5, 4)
    total = sum(weight * s(tau) for *_, tau, weight in came)
    wanted = now + sum(w * s(tau) * delta for delta, _, tau, w in came) / total
    given_reports = [([d], [b], t, w) for d, b, t, w in came]
    for algorithm in (stale_fedavg(), fedbuff(average="normalised")):
        assert committed(algorithm, [now], given_reports)[0] == pytest.approx(wanted, abs=1e-5)


@law
@given(values, values, values, st.integers(0, 6), st.sampled_from([0.25, 0.6, 1.0]))
def test_fedasync_mixes_the_clients_model_into_the_present_one(now, start, delta, tau, alpha):
    s = staleness_weight("polynomial", 0.5, 4)(tau)
    model = start + delta
    result = committed(fedasync(alpha=alpha), [now], [([delta], [start], tau, 3.0)])
    assert result[0] == pytest.approx((1 - alpha * s) * now + alpha * s * model, abs=1e-5)
    adds = committed(fedbuff(server_lr=alpha), [now], [([delta], [start], tau, 3.0)])
    assert result[0] - adds[0] == pytest.approx(alpha * s * (start - now), abs=1e-5)  # equal only if nothing moved


def test_a_report_of_another_shape_is_not_stretched():
    algorithm, server = fedasync(), ServerState(tree([1.0, 2.0]))
    small = Report(0, 0, tree([5.0]), 1.0, {})
    acc = aggregation.zero(algorithm.fold, server)
    why = admit(algorithm.fold, server, acc, small, Context(1, 1.0, 0, start=tree([0.0, 0.0])), algorithm.accept)
    assert why == "leaf 'w' has shape (1,), not (2,)"


def test_a_stack_of_late_reports_is_decoded_to_the_bits_of_each():
    algorithm, rng = fedasync(), np.random.default_rng(0)
    trees = [{"w": rng.normal(size=(3, 2)).astype(np.float32), "n": np.array(7)} for _ in range(6)]
    server, starts = ServerState(trees[0]), [trees[1], None, trees[2], trees[1]]
    reports = [Report(i, i, {**t, "w": t["w"] * 3}, 1.0, {}) for i, t in enumerate(trees[2:])]
    contexts = [Context(1, 1.0, i, start=start) for i, start in enumerate(starts)]
    stack = {n: torch.from_numpy(np.stack([r.update[n] for r in reports])) for n in ("w", "n")}
    update, parts = algorithm.accept.stack(server, stack, contexts)
    assert parts is None
    for i, (report, context) in enumerate(zip(reports, contexts, strict=True)):
        wanted = algorithm.accept(server, report, context).update
        assert all(np.array_equal(update[n][i].numpy(), v) for n, v in wanted.items())
    fresh, _ = algorithm.accept.stack(server, stack, [Context(0, 1.0, i) for i in range(4)])
    assert fresh["w"] is stack["w"], "nothing moved"
    with pytest.raises(Refused, match=r"leaf 'w' has shape \(2, 2\), not \(3, 2\)"):
        algorithm.accept.stack(server, {**stack, "w": stack["w"][:, 1:]}, contexts)


def test_what_decodes_reports_one_by_one_does_so_under_fedasync():
    one_by_one = replace(fedavg(), accept=lambda server, report, context: report)
    assert not isinstance(with_mixing(one_by_one).accept, Decoder)
    assert isinstance(with_mixing(fedasync()).accept, Decoder)


def test_a_fold_that_collects_cannot_be_damped():
    median = replace(fedavg(), fold=replace(fedavg().fold, combine=lambda inside: inside[0][0].update))
    with pytest.raises(BadInput, match="collects whole reports, so late reports cannot be damped"):
        with_damping(median)


# ---- runs: where the methods are FedAvg, and that late reports really come --------------------------------------------


def equal_world(clients=6):
    """Clients whose tasks all take as long."""
    keys = client_keys(clients)
    data = make_shards(iid(), task(), keys, 0)
    return World(keys, devices_of(even_fleet(clients), steady=True), always_on()(keys, 0), data)


def run(algorithm, pace, world, execute, rounds=3):
    events = []
    plan = Plan(3, algorithm, uniform(), pace, Stop(rounds=rounds), task().init(3), len(world.keys))
    simulate(plan, world, execute, watch=events.extend)
    return events


@pytest.mark.parametrize("make", [inline, lambda t: stacked_executor(t, form="merged"), lambda t: stacked_executor(t, form="loop")])
@pytest.mark.parametrize("method", [fedbuff, stale_fedavg, lambda **more: fedbuff(average="normalised", damping="hinge", **more)])
def test_with_k_as_concurrency_and_equal_times_it_is_fedavg_to_the_last_bit(make, method):
    world = equal_world()
    async_ = run(method(lr=0.5), buffered(k=4, concurrency=4, refill=2.0), world, make(task()))
    rounds = run(fedavg(lr=0.5), readiness(4), world, make(task()))
    assert models(async_) == models(rounds)
    assert len(models(rounds)) == 3


def test_fedasync_with_all_of_a_fresh_model_is_fedavg_in_reports_of_one():
    # Mixing everything of a fresh model is adding its update; rounding is that of one more float32 sum.
    world = equal_world()
    ends = [
        simulate(Plan(3, a, uniform(), p, Stop(rounds=3), task().init(3), 6), world, inline(task())).state.server.params
        for a, p in (
            (fedasync(lr=0.5, alpha=1.0), buffered(k=1, concurrency=1)),
            (fedavg(lr=0.5), readiness(1, min_clients=1)),
        )
    ]
    assert all(np.allclose(ends[0][n], ends[1][n], atol=1e-6) for n in ends[0])


@pytest.mark.parametrize("method", [fedbuff, fedasync, stale_fedavg])
def test_late_reports_move_the_model_as_the_recurrence_says(method):
    """The same run with the weights turned off gives another model: lateness reaches the fold."""
    keys = client_keys(6)
    world = World(
        keys,
        devices_of(even_fleet(6, [1.0, 2.0, 5.0, 9.0, 9.0, 20.0])),
        always_on()(keys, 0),
        make_shards(iid(), task(), keys, 0),
    )
    pace = buffered(k=2, concurrency=4, refill=1.0)
    late, even = (run(method(lr=0.5, damping=d), pace, world, inline(task()), rounds=6) for d in ("polynomial", "constant"))
    assert models(late)[0] == models(even)[0]
    assert models(late)[-1] != models(even)[-1]
