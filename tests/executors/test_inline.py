"""The literal executor: the batches it walks through, the steps it takes, and whom it names when something fails."""

import math
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedfleet.core.cost import work_of
from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Job, Offer, Trial
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.records import Assignments
from fedfleet.core.trees import content_hash
from fedfleet.executors.client_half import batches, client_errors
from fedfleet.executors.inline import inline, score, split_second_model, tensors
from fedfleet.learn.optimisers import adam, sgd
from fedfleet.learn.zoo import fedavg, fedprox
from tests.executors.cohorts import jobs_of, jobs_with, small_task, smooth


def job(rows, steps=0, task=0, key=1):
    return Job(task, 0, key, 7, Offer({}), lambda job, dataset: None, np.arange(100, 100 + rows), steps)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    samples=st.integers(1, 70),
    size=st.integers(1, 20),
    epochs=st.integers(1, 4),
    plan_steps=st.one_of(st.none(), st.integers(1, 12)),
    asked_steps=st.integers(0, 12),
    share=st.sampled_from([0.01, 0.3, 0.5, 1.0]),
)
def test_the_price_is_what_the_batches_really_hold(samples, size, epochs, plan_steps, asked_steps, share):
    plan = BatchPlan(size, epochs, plan_steps)
    asked = Assignments(np.array([0]), np.array([asked_steps]), np.array([share]))
    real = [len(rows) for rows in batches(plan, job(math.ceil(share * samples), asked_steps))]
    assert [v.tolist() for v in work_of(plan, asked.steps, asked.share, np.array([samples]))] == [
        [float(sum(real))],
        [float(len(real))],
    ]


def test_every_epoch_sees_every_row_once_in_a_fresh_order():
    result = [rows.tolist() for rows in batches(BatchPlan(4, 2), job(10))]
    assert [len(rows) for rows in result] == [4, 4, 2, 4, 4, 2]
    first, second = list(chain(*result[:3])), list(chain(*result[3:]))
    assert sorted(first) == sorted(second) == list(range(100, 110))
    assert first != second


@pytest.mark.parametrize(("plan_steps", "asked", "expected"), [(None, 0, 6), (5, 0, 5), (5, 2, 2), (None, 9, 9)])
def test_steps_replace_epochs_and_the_selector_has_the_last_word(plan_steps, asked, expected):
    assert len(list(batches(BatchPlan(4, 2, plan_steps), job(10, asked)))) == expected


def test_batches_are_addressed_by_client_and_task():
    def order(**where):
        return np.concatenate(list(batches(BatchPlan(4, 1), job(30, **where)))).tolist()

    assert order() == order()
    assert order() != order(task=1)
    assert order() != order(key=2)


def test_later_stages_walk_through_orders_of_their_own():
    plan, one = BatchPlan(4, 1), job(30)
    orders = [np.concatenate(list(batches(plan, one, stage))).tolist() for stage in (0, 1, 2)]
    assert [sorted(order) for order in orders] == [list(range(100, 130))] * 3
    assert len({tuple(order) for order in orders}) == 3


def test_an_empty_shard_has_no_batches_whatever_is_asked():
    assert list(batches(BatchPlan(4, 2, 5), job(0, 3))) == []


def torch_loop(task, one, optimiser):
    """What anybody would write with torch itself."""
    module = task.build()
    module.load_state_dict({n: torch.from_numpy(v) for n, v in one.offer.params.items()})
    made, losses = optimiser(module), []
    for rows in batches(one.local.batches, one):
        x, y = torch.from_numpy(task.dataset.x[rows]), torch.from_numpy(task.dataset.y[rows])
        made.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        loss.backward()
        made.step()
        losses += [float(loss.detach())] * len(rows)
    return {n: v.detach().numpy() for n, v in module.state_dict().items()}, float(np.mean(losses))


@pytest.mark.parametrize(
    ("local", "theirs"),
    [
        (LocalPass(sgd(), BatchPlan(4, 2), rate=0.1), lambda m: torch.optim.SGD(m.parameters(), 0.1)),
        (
            LocalPass(sgd(momentum=0.9, weight_decay=0.01), BatchPlan(4, 2), rate=0.1),
            lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, weight_decay=0.01),
        ),
        (LocalPass(adam(), BatchPlan(4, 2), rate=0.01), lambda m: torch.optim.Adam(m.parameters(), 0.01)),
    ],
    ids=["sgd", "momentum and decay", "adam"],
)
def test_a_pass_is_torchs_own_training(local, theirs):
    task = small_task(smooth())
    (one,) = jobs_with(task, local, (11,))
    (report,) = inline(task).train([one])
    model, loss = torch_loop(task, one, theirs)
    for name, value in report.update.items():
        assert np.allclose(one.offer.params[name] + value, model[name], atol=1e-6)
    assert report.stats["loss"] == pytest.approx(loss, rel=1e-5)


def test_a_settings_rate_replaces_the_passes():
    task, local = small_task(smooth()), LocalPass(sgd(), BatchPlan(4, 1), rate=0.3)
    slow, fast = jobs_with(task, local, (8,)), jobs_with(task, replace(local, rate=0.1), (8,))
    told = [replace(slow[0], settings={"rate": 0.1})]
    hashes = [content_hash(next(iter(inline(task).train(jobs))).update) for jobs in (slow, fast, told)]
    assert hashes[0] != hashes[1] == hashes[2]


def test_who_trained_before_leaves_no_trace_and_the_offer_stays_as_it_is():
    task = small_task(lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(144), nn.Linear(144, 5)))
    jobs = jobs_of(task, fedprox(lr=0.1, mu=0.5), (9, 20, 3))
    before = content_hash(jobs[0].offer.params)
    execute = inline(task)
    together = [content_hash(r.update) for r in execute.train(jobs)]
    alone = [content_hash(next(iter(execute.train([one]))).update) for one in jobs[::-1]][::-1]
    assert together == alone
    assert content_hash(jobs[0].offer.params) == before


def failing(wrong):
    def local(job, dataset):
        raise wrong

    return local


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ValueError("out of range"), "client 0, task 0: local training failed: out of range"),
        (KeyError("w"), "client 0, task 0: local training failed: KeyError: 'w'"),
    ],
)
def test_what_fails_is_said_with_the_clients_name(wrong, said):
    task = small_task(smooth())
    with pytest.raises(RunFailed) as result:
        list(inline(task).train(jobs_with(task, failing(wrong), (3,))))
    assert str(result.value) == said
    assert result.value.__cause__ is wrong


def test_what_was_said_properly_and_what_is_no_error_pass():
    with pytest.raises(BadInput, match=r"^as it is$"), client_errors(job(3)):
        raise BadInput("as it is")
    with pytest.raises(KeyboardInterrupt), client_errors(job(3)):
        raise KeyboardInterrupt


def test_an_edge_needs_the_nested_executor():
    task = small_task(smooth())
    with pytest.raises(RunFailed, match="needs the nested executor"):
        list(inline(task).train(jobs_with(task, NestedPass(fedavg(), None, None), (3,))))


def test_scores_are_counts_and_the_mean_loss(monkeypatch):
    task = small_task(smooth())
    params, rows = task.init(3), np.arange(31)
    module = task.build().eval()
    module.load_state_dict(tensors(params))
    with torch.no_grad():
        logits = module(torch.from_numpy(task.dataset.x[rows]))
    y = torch.from_numpy(task.dataset.y[rows])
    (result,) = inline(task).evaluate([Trial(params, rows)])
    assert (result.correct, result.total) == (int((logits.argmax(1) == y).sum()), 31)
    assert result.loss == pytest.approx(float(nn.functional.cross_entropy(logits, y)), rel=1e-5)
    monkeypatch.setattr("fedfleet.executors.inline.EVALUATION_BATCH", 7)
    (parts,) = inline(task).evaluate([Trial(params, rows)])
    assert (parts.correct, parts.total) == (result.correct, result.total)
    assert parts.loss == pytest.approx(result.loss, rel=1e-6)


def test_no_rows_score_nothing():
    task = small_task(smooth())
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    result = score(task.build(), tensors(task.init(0)), x, y, Trial(task.init(0), np.zeros(0, np.int64)), task)
    assert (result.correct, result.total, result.loss) == (0, 0, 0.0)


def test_the_second_models_parameters_have_names_of_their_own():
    own, other = split_second_model({"w": 1, "second/w": 2, "second/b": 3})
    assert (own, other) == ({"w": 1}, {"w": 2, "b": 3})


def test_tensors_are_private_copies():
    tree = {"w": np.zeros(2, np.float32)}
    tensors(tree)["w"].add_(1)
    assert tree["w"].tolist() == [0.0, 0.0]
