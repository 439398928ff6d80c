"""Slices of a model: their bytes and work, where they go, what they leave alone, and stacks of them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core import aggregation
from fedfleet.core.aggregation import Aggregate, Entry
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Trial
from fedfleet.core.records import Context, ServerState, whole_work
from fedfleet.core.rng import stream
from fedfleet.executors.gather import admit
from fedfleet.executors.inline import inline
from fedfleet.executors.worker_jobs import Recipe, to_parcel, train_chunk
from fedfleet.learn.submodels import MODEL_COPIES
from fedfleet.learn.zoo import fedavg, fjord, heterofl
from fedfleet.tasks.narrow_models import at_width
from fedfleet.testing import check_algorithm
from tests.learn.unlike import FORMS, applied, executor, facts, hashes, jobs_of, model, reports_like, task

pytestmark = pytest.mark.slow

WIDTHS = [1.0, 0.5, 0.25]
SHAPES = {"1.weight": (8, 64), "1.bias": (8,), "3.weight": (10, 8), "3.bias": (10,)}


def sliced(**more):
    return heterofl(**{"widths": WIDTHS, "epochs": 1, "fleet": facts(), **more})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", [heterofl, fjord])
def test_at_width_1_it_is_fedavg_to_the_last_bit(form, method):
    plain, _ = hashes(fedavg(epochs=1), form)
    assert hashes(method(widths=[1.0], epochs=1, fleet=facts()), form)[0] == plain
    assert len(plain) == 3
    assert hashes(sliced(), form)[0] != plain


def test_the_offer_is_the_leading_part_and_shared_by_all_of_a_width():
    server, jobs = jobs_of(sliced())
    shapes = {tuple(v.shape for v in job.offer.params.values()) for job in jobs}
    assert shapes == {((16 * k // 4, 64), (16 * k // 4,), (10, 16 * k // 4), (10,)) for k in (4, 2, 1)}
    for job in jobs:
        n = len(job.offer.params["1.bias"])
        assert np.array_equal(job.offer.params["1.weight"], server.params["1.weight"][:n])
        assert np.array_equal(job.offer.params["3.weight"], server.params["3.weight"][:, :n])
    for a, b in itertools.combinations(jobs, 2):
        same = len(a.offer.params["1.bias"]) == len(b.offer.params["1.bias"])
        assert (a.offer.params is b.offer.params) == same, "one start for all of a width, or nothing stacks well"


def test_half_the_width_costs_its_own_bytes_and_work():
    half, whole = sliced(widths=[0.5]), fedavg(epochs=1)
    server, asked, samples = whole.init(task().init(0)), whole_work(np.arange(3)), np.array([20, 11, 16])
    mine, theirs = cost_of(half, server, asked, samples), cost_of(whole, server, asked, samples)
    assert mine.bytes_down.tolist() == mine.bytes_up.tolist() == [4.0 * (64 * 8 + 8 + 8 * 10 + 10)] * 3
    np.testing.assert_allclose(mine.samples, theirs.samples * (8 * 74) / (16 * 74))
    assert mine.batches.tolist() == theirs.batches.tolist()
    report = next(iter(executor("inline").train(jobs_of(half)[1])))
    assert sum(v.nbytes for v in report.update.values()) == mine.bytes_up[0], "what is charged is what goes up"


def test_each_element_moves_by_the_mean_over_those_who_have_it():
    algorithm = sliced(weigh="samples")
    server, jobs = jobs_of(algorithm, range(9))
    rng = stream(1, "updates")
    reports = reports_like(algorithm, jobs, lambda job, name, shape: rng.normal(size=shape))
    after = applied(algorithm, server, reports)
    for name, before in server.params.items():
        total, weight = np.zeros(before.shape), np.zeros(before.shape)
        for report in reports:
            inside = tuple(slice(0, n) for n in report.update[name].shape)
            total[inside] += report.weight * report.update[name].astype(np.float64)
            weight[inside] += report.weight
        np.testing.assert_allclose(after.params[name] - before, total / weight, atol=3e-7)


@pytest.mark.parametrize("form", FORMS)
def test_what_nobody_trained_does_not_change_by_a_bit(form):
    algorithm = sliced(widths=[0.5, 0.25])
    server, jobs = jobs_of(algorithm)
    after = applied(algorithm, server, executor(form).train(jobs)).params
    assert np.array_equal(after["1.weight"][8:], server.params["1.weight"][8:])
    assert np.array_equal(after["3.weight"][:, 8:], server.params["3.weight"][:, 8:])
    assert (after["1.weight"][:8] != server.params["1.weight"][:8]).any()
    assert (after["3.bias"] != server.params["3.bias"]).all()


@pytest.mark.parametrize("form", FORMS[1:])
def test_stacks_by_width_train_what_inline_trains(form):
    _, jobs = jobs_of(sliced(), range(9))
    for a, b in zip(executor("inline").train(jobs), executor(form).train(jobs), strict=True):
        assert (a.task, a.weight) == (b.task, b.weight)
        for name, value in a.update.items():
            np.testing.assert_allclose(b.update[name], value, atol=1e-5 * float(np.abs(value).max()))


@pytest.mark.parametrize("method", [heterofl, fjord])
def test_both_halves_fit_with_hidden_layers(method):
    check_algorithm(method(epochs=1, fleet=facts()), task(), executor("inline"))


@pytest.mark.parametrize("method", [heterofl, fjord])
def test_a_model_that_nobody_holds_whole_does_what_the_widest_slice_does(method):
    algorithm = method(widths=[0.5, 0.25], epochs=1, fleet=facts())
    server, jobs = jobs_of(algorithm)
    rows = np.arange(200)
    for _ in range(2):
        slices = {n: v[tuple(slice(0, k) for k in SHAPES[n])] for n, v in server.params.items()}
        (whole,) = inline(task()).evaluate([Trial(server.params, rows)])
        (half,) = inline(at_width(task(), 0.5)).evaluate([Trial(slices, rows)])
        assert (whole.correct, whole.loss) == (half.correct, pytest.approx(half.loss, rel=1e-5))
        server = applied(algorithm, server, executor("inline").train(jobs))


def test_units_outside_learn_once_somebody_has_them():
    server = heterofl(widths=[0.5], fleet=facts()).init(task().init(0))
    assert (server.params["3.weight"][:, 8:] == 0).all() and (server.params["1.weight"][8:] != 0).any()
    wide = heterofl(widths=[1.0], epochs=1, fleet=facts())
    job = replace(jobs_of(wide, [0])[1][0], offer=wide.offer(server, 0, {}), steps=3)
    (report,) = executor("inline").train([job])
    assert (report.update["3.weight"][:, 8:] != 0).any() and (report.update["1.weight"][8:] != 0).any()


# ---- faults -------------------------------------------------------------------------------------------------------


def test_a_report_of_no_width_is_refused_with_the_reason():
    algorithm = sliced()
    server, jobs = jobs_of(algorithm)
    report = next(iter(executor("inline").train(jobs)))
    acc = aggregation.zero(algorithm.fold, server)
    odd = replace(report, update={**report.update, "1.weight": np.zeros((7, 64), np.float32)})
    context = Context(0, 1.0, report.client)
    assert admit(algorithm.fold, server, acc, odd, context, algorithm.accept) == (
        "its leaves have the shapes of no width of the model"
    )
    with pytest.raises(RunFailed, match="do not match any of the widths"):
        list(executor("inline").train([replace(jobs[0], offer=replace(jobs[0].offer, params=odd.update))]))


def test_a_fold_that_collects_refuses_what_it_cannot_weigh():
    algorithm = sliced(widths=[0.5])
    server, jobs = jobs_of(algorithm)
    fold = replace(algorithm.fold, combine=lambda collected: collected[0][0].update)
    (report,) = executor("inline").train(jobs[:1])
    why = admit(fold, server, aggregation.zero(fold, server), report, Context(0, 1.0, 0), algorithm.accept)
    assert why is not None and "only a part of the model" in why


def test_a_fold_that_weighs_leaves_itself_weighs_slices_too():
    algorithm = sliced(widths=[0.5])
    server, jobs = jobs_of(algorithm)
    halved = replace(algorithm.fold, enter=lambda weight, stats, c: Entry(weight, parts={"1.bias": 0.0 if c.client else 1.0}))
    reports = reports_like(algorithm, jobs[:2], lambda job, name, shape: np.full(shape, 1.0 + job.client))
    after = applied(replace(algorithm, fold=halved), server, reports)
    moved = after.params["1.bias"] - server.params["1.bias"]
    np.testing.assert_allclose(moved, [1.0] * 8 + [0.0] * 8, atol=1e-6)


@pytest.mark.parametrize("method", [heterofl, fjord])
def test_slices_cannot_be_kept_at_home(method):
    algorithm = method(widths=[0.5], fleet=facts())
    _, (job,) = jobs_of(algorithm, [0])
    kept = replace(job, local=replace(job.local, keep=lambda name: name == "3.bias"))
    with pytest.raises(BadInput, match="cannot keep leaves or models of their own"):
        list(executor("inline").train([kept]))


def test_edges_say_that_they_cannot():
    spec = {
        "task": "digits_mlp",
        "algorithm": "heterofl",
        "edge": "hierfl",
        "world": {"clients": 12, "users": "households"},
    }
    with pytest.raises(BadInput, match="'heterofl' decodes what devices send, which edges cannot do yet"):
        assemble(resolve({**spec, "pace": {"cohort": 2}}))


def test_a_worker_without_the_server_trains_the_same_slice():
    spec = {"task": {"use": "digits_mlp", "hidden": 16}, "algorithm": "heterofl", "world": {"clients": 9}}
    spec = resolve({**spec, "pace": {"cohort": 3}})
    algorithm = assemble(spec).plan.algorithm
    _, jobs = jobs_of(algorithm)
    recipe = Recipe("fedfleet.app.assemble:rebuild_for_worker", spec.toml())
    done = train_chunk(recipe, [to_parcel(j) for j in jobs], range(len(jobs)), *(j.offer for j in jobs))
    assert not done.failure
    for mine, theirs in zip(executor("inline").train(jobs), done.results, strict=True):
        assert all(np.array_equal(v, theirs.update[n]) for n, v in mine.update.items())


def test_facts_are_those_of_the_model():
    assert sum(model(0.5).work.values()) == 8 * 74


BATCH = 16
HIDDEN = {16: 1.0, 8: 0.5, 4: 0.25, 12: 0.75}


def width_of(algorithm, client, server=None):
    server = server or algorithm.init(task().init(0))
    return HIDDEN[len(algorithm.offer(server, client, {}).params["1.bias"])]


def widths(algorithm, clients=9, server=None):
    return [width_of(algorithm, c, server) for c in range(clients)]


def need_mb(width, scale=1.0):
    """4 bytes for each of four copies of the slice and for the activations of a batch."""
    shape = model(width)
    size = sum(np.prod([len(at) for at in axes]) for axes in shape.places.values())
    return 4.0 * (MODEL_COPIES * size + BATCH * shape.activations) * scale / 2**20


def test_widths_are_dealt_evenly_and_never_change():
    algorithm = heterofl(widths=WIDTHS, fleet=facts())
    result = widths(algorithm)
    assert sorted(result) == sorted(WIDTHS * 3)
    later = ServerState({n: v + 1 for n, v in task().init(0).items()})
    assert widths(algorithm, server=later) == result
    assert widths(heterofl(widths=WIDTHS, fleet=facts())) == result


def test_a_device_gets_the_widest_slice_that_it_can_hold():
    memory = [need_mb(1.0), need_mb(1.0) * 0.999, need_mb(0.5), need_mb(0.25), 1e-9, np.nan, 1e9, 0.0, np.nan]
    by_memory = heterofl(widths=WIDTHS, assign="memory", fleet=facts(memory))
    assert widths(by_memory) == [1.0, 0.5, 0.5, 0.25, 0.25, 1.0, 1.0, 0.25, 1.0]
    assert widths(heterofl(widths=WIDTHS, assign="memory", fleet=facts())) == [1.0] * 9, "unknown is enough"
    dealt, capped = widths(heterofl(widths=WIDTHS, fleet=facts())), widths(heterofl(widths=WIDTHS, fleet=facts(memory)))
    assert capped == [min(a, b) for a, b in zip(dealt, widths(by_memory), strict=True)]


def test_a_declared_size_of_the_model_counts():
    memory = [need_mb(0.5, 1000.0)] * 9
    assert widths(heterofl(widths=WIDTHS, assign="memory", fleet=facts(memory, byte_scale=1000.0))) == [0.5] * 9


@given(st.lists(st.floats(0.0, 1.0) | st.just(np.nan), min_size=9, max_size=9), st.sampled_from(["evenly", "memory"]))
@settings(max_examples=25, deadline=None)
def test_nobody_gets_more_than_its_memory_holds(memory, assign):
    result = widths(heterofl(widths=WIDTHS, assign=assign, fleet=facts(memory)))
    for width, own in zip(result, memory, strict=True):
        assert np.isnan(own) or need_mb(width) <= own or width == 0.25


# ---- FjORD --------------------------------------------------------------------------------------------------------


def versions(algorithm, count):
    """Servers after so many commits that changed nothing."""
    server = algorithm.init(task().init(0))
    for _ in range(count):
        yield server
        server = algorithm.apply(server, Aggregate({}, 1.0, 1))


def test_widths_are_drawn_anew_for_each_version_up_to_the_own():
    memory = [need_mb(0.5)] * 4 + [np.nan] * 5
    algorithm = fjord(fleet=facts(memory))
    drawn = np.array([widths(algorithm, server=server) for server in versions(algorithm, 120)])
    assert set(drawn[:, :4].ravel()) == {0.5, 0.25} and set(drawn[:, 4:].ravel()) == {1.0, 0.75, 0.5, 0.25}
    for width in (1.0, 0.75, 0.5, 0.25):
        assert 0.2 < (drawn[:, 4:] == width).mean() < 0.3
    assert 0.43 < (drawn[:, :4] == 0.5).mean() < 0.57
    again = fjord(fleet=facts(memory))
    assert np.array_equal(drawn[:3], [widths(again, server=server) for server in versions(again, 3)])


def test_what_is_drawn_is_charged():
    algorithm = fjord(fleet=facts())
    for server in versions(algorithm, 3):
        cost = cost_of(algorithm, server, whole_work(np.arange(9)), np.full(9, 20))
        offered = [sum(v.nbytes for v in algorithm.offer(server, c, {}).params.values()) for c in range(9)]
        assert cost.bytes_down.tolist() == cost.bytes_up.tolist() == offered


# ---- specs --------------------------------------------------------------------------------------------------------


def test_kinds_of_device_may_have_widths_of_their_own():
    spec = {
        "task": {"use": "digits_mlp", "hidden": 16},
        "world": {"clients": 9, "devices": "spread"},
        "pace": {"cohort": 3},
    }
    spec |= {"algorithm": {"use": "heterofl", "widths": [1.0]}}
    spec |= {"override": [{"kinds": ["slow"], "algorithm": {"widths": [0.25]}}]}
    setup = assemble(resolve(spec))
    result = widths(setup.plan.algorithm)
    assert result == [0.25 if kind == "slow" else 1.0 for kind in setup.world.devices.kinds]


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        ({"widths": []}, "1 to 16 different shares"),
        ({"widths": [1 / n for n in range(1, 18)]}, "1 to 16 different shares"),
        ({"widths": [0.5, 1.0]}, "the widest first"),
        ({"widths": [0.5, 0.5]}, "different shares"),
        ({"widths": [0.0]}, "greater than 0"),
        ({"widths": [1.5]}, "at most 1"),
        ({"assign": "size"}, "'evenly' or 'memory'"),
        ({"fleet": 3}, "has no key 'fleet'"),
    ],
)
def test_bad_widths_are_one_sentence(algorithm, says):
    with pytest.raises(BadInput, match=says):
        assemble(resolve({"task": "digits_mlp", "algorithm": {"use": "heterofl", **algorithm}}))


def test_without_a_run_it_says_what_it_needs():
    bare = heterofl()
    with pytest.raises(BadInput, match=r"give fleet=FleetFacts\(model"):
        bare.init(task().init(0))
