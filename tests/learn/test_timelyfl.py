"""Partial layers: whole work is FedAvg, a part is the output's side, and nobody's layer stays as it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core import aggregation
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import Refused
from fedfleet.core.parts import Job
from fedfleet.core.records import Assignments, Context
from fedfleet.core.rng import stream
from fedfleet.executors.gather import admit
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.timelyfl import LeafSet, layers_of
from fedfleet.learn.zoo import fedavg, timelyfl
from fedfleet.testing import check_algorithm
from tests.learn.unlike import FORMS, applied, executor, facts, hashes, jobs_of, reports_like, task
from tests.testing.registered import assembled

HEAD = 160 / (160 + 1024)  # the last layer's share of the multiply-adds of 64-16-10
HEAD_BYTES = 170 / (170 + 1040)


def partly(**more):
    return timelyfl(epochs=1, fleet=facts(), **more)


def portions(*values):
    return [{"portion": float(v)} for v in values]


@pytest.mark.parametrize("form", FORMS)
def test_the_whole_portion_is_fedavg_to_the_last_bit(form):
    plain, _ = hashes(fedavg(epochs=1), form)
    assert hashes(partly(), form)[0] == plain
    assert hashes(timelyfl(epochs=1), form)[0] == plain, "also where nothing is known about the model"


@pytest.mark.parametrize("form", FORMS)
def test_a_part_is_the_output_side_and_nothing_else_goes_up(form):
    _, jobs = jobs_of(partly(), settings=portions(1.0, 0.5, 0.2, 1e-6, 0.99, 1.0))
    whole = list(executor(form).train(jobs_of(fedavg(epochs=1))[1]))
    for i, report in enumerate(executor(form).train(jobs)):
        if i in (0, 5):
            assert all(np.array_equal(v, whole[i].update[n]) for n, v in report.update.items())
        else:
            assert report.update.keys() == {"3.weight", "3.bias"}
            assert all((v != 0).any() for v in report.update.values())


def test_stacks_of_parts_train_what_inline_trains():
    _, jobs = jobs_of(partly(), settings=portions(1.0, 0.5, 0.5, 1.0, 0.5, 1.0))
    for form in FORMS[1:]:
        for a, b in zip(executor("inline").train(jobs), executor(form).train(jobs), strict=True):
            assert a.update.keys() == b.update.keys()
            for name, value in a.update.items():
                np.testing.assert_allclose(b.update[name], value, atol=1e-5 * float(np.abs(value).max()))


@pytest.mark.parametrize("portion", [1.0, 0.5])
def test_a_stack_is_filled_as_each_report_is(portion):
    algorithm = partly()
    server, jobs = jobs_of(algorithm, settings=portions(*[portion] * 6))
    reports = list(executor("inline").train(jobs))
    stack = {n: torch.from_numpy(np.stack([r.update[n] for r in reports])) for n in reports[0].update}
    contexts = [Context(0, 1.0, job.client) for job in jobs]
    update, parts = algorithm.accept.stack(server, stack, contexts)
    for i, (report, context) in enumerate(zip(reports, contexts, strict=True)):
        wanted = algorithm.accept(server, report, context)
        assert wanted.parts == parts
        assert all(np.array_equal(update[n][i].numpy(), v) for n, v in wanted.update.items())
    with pytest.raises(Refused, match="whole layers"):
        algorithm.accept.stack(server, {n: v for n, v in stack.items() if n != "3.bias"}, contexts)


def test_each_layer_moves_by_the_mean_over_those_who_sent_it():
    algorithm = partly()
    server, jobs = jobs_of(algorithm, settings=portions(1.0, 0.5, 0.5, 1.0, 0.5, 0.5))
    rng = stream(2, "updates")
    reports = reports_like(algorithm, jobs, lambda job, name, shape: rng.normal(size=shape))
    after = applied(algorithm, server, reports)
    for name, before in server.params.items():
        having = [r for r in reports if name in r.update]
        assert len(having) == (6 if name.startswith("3") else 2)
        wanted = sum(r.weight * r.update[name].astype(np.float64) for r in having) / sum(r.weight for r in having)
        np.testing.assert_allclose(after.params[name] - before, wanted, atol=3e-7)


@pytest.mark.parametrize("semantics", ["paper", "released"])
def test_a_layer_that_nobody_sent_stays_to_the_last_bit(semantics):
    algorithm = partly(semantics=semantics)
    server, jobs = jobs_of(algorithm, settings=portions(*[0.5] * 6))
    after = applied(algorithm, server, executor("inline").train(jobs)).params
    assert all(np.array_equal(after[n], server.params[n]) == n.startswith("1") for n in after)


def test_released_counts_the_old_model_as_one_more_client():
    algorithm = partly(semantics="released")
    server, jobs = jobs_of(algorithm, settings=portions(1.0, 0.5, 0.5, 1.0, 0.5, 0.5))
    reports = reports_like(algorithm, jobs, lambda job, name, shape: np.full(shape, 1.0 + job.client))
    after = applied(algorithm, server, reports).params
    np.testing.assert_allclose(after["1.bias"] - server.params["1.bias"], (1.0 + 4.0) / 3, atol=1e-6)
    np.testing.assert_allclose(after["3.bias"] - server.params["3.bias"], 21.0 / 7, atol=1e-6)
    models = [server.params["3.weight"] + r.update["3.weight"] for r in reports]
    np.testing.assert_allclose(after["3.weight"], (server.params["3.weight"] + sum(models)) / 7, atol=1e-6)


def test_the_forward_pass_is_paid_in_full_and_the_rest_by_what_is_trained():
    algorithm, plain = partly(), fedavg(epochs=1)
    server = algorithm.init(task().init(0))
    asked = Assignments(np.arange(3), np.zeros(3, np.int64), np.ones(3), {"portion": np.array([1.0, 0.5, 0.01])})
    mine, theirs = (cost_of(a, server, asked, np.array([20, 20, 11])) for a in (algorithm, plain))
    np.testing.assert_allclose(mine.samples / theirs.samples, [1.0, *[1 / 3 + 2 / 3 * HEAD] * 2])
    assert mine.bytes_down.tolist() == theirs.bytes_down.tolist()
    assert mine.bytes_up.tolist() == [4 * 1210, 4 * 170, 4 * 170]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=6), st.floats(0.0, 1.0))
def test_the_layers_within_a_portion_take_no_more_than_it(sizes, portion):
    params = {f"{i}.weight": np.zeros(n, np.float32) for i, (n, _) in enumerate(sizes)}
    result = layers_of(params, {f"{i}.weight": float(w) for i, (_, w) in enumerate(sizes)})
    (count,) = result.count_within(np.array([portion]))
    assert count >= 1 and f"{len(sizes) - 1}.weight" in result.leaf_names(count)
    if count > 1:
        assert result.work[count - 1] <= portion + 1e-6 and result.bytes[count - 1] <= portion + 1e-6
    if count < len(sizes):
        assert max(result.work[count], result.bytes[count]) > portion
    assert result.count_within(np.array([1.0])).tolist() == [len(sizes)]


def test_who_trains_the_same_layers_has_an_equal_pass():
    assert LeafSet(frozenset("ab")) == LeafSet(frozenset("ba")) != LeafSet(frozenset("a"))
    assert not LeafSet(frozenset("ab"), also=lambda n: n == "b")("a")


@pytest.mark.parametrize("semantics", ["paper", "released"])
def test_both_halves_fit_with_hidden_layers(semantics):
    check_algorithm(partly(semantics=semantics), task(), executor("inline"))


@pytest.mark.parametrize("lost", [["3.bias"], ["3.weight", "3.bias"], ["1.weight"], ["1.weight", "1.bias", "3.weight"]])
def test_half_a_layer_or_one_in_the_middle_is_refused(lost):
    algorithm = partly()
    server, jobs = jobs_of(algorithm, [0])
    (report,) = executor("inline").train(jobs)
    odd = replace(report, update={n: v for n, v in report.update.items() if n not in lost})
    why = admit(algorithm.fold, server, aggregation.zero(algorithm.fold, server), odd, Context(0, 1.0, 0), algorithm.accept)
    assert why == "it does not hold whole layers from the output on"


@pytest.mark.parametrize("make", [inline, stacked_executor])
def test_what_a_codec_lost_of_layers_that_stay_away_this_time_is_still_owed(make):
    setup = assembled("timelyfl", up=["int2"], feedback=True)
    algorithm, memory = setup.plan.algorithm, {}
    server, owed = algorithm.init(setup.plan.params), []
    for number, portion in enumerate((1.0, 0.01)):
        settings = {"portion": portion}
        offer, half = algorithm.offer(server, 0, settings), algorithm.local(0, settings)
        job = Job(number, 0, 70, 7, offer, half, np.arange(12), memory=memory, settings=settings)
        (report,) = make(setup.task).train([job])
        memory = report.memory
        owed.append(memory["feedback"])
    assert set(owed[0]) == set(owed[1]) == set(setup.plan.params) and set(report.update) < set(owed[1])
    for name in set(owed[0]) - set(report.update):
        assert np.array_equal(owed[0][name], owed[1][name]) and np.any(owed[0][name])
