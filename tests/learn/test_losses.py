"""A loss of one's own: cross-entropy given by hand is cross-entropy, and both executors agree on others."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Job, Loss, Offer, Trial
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.losses import with_loss
from fedfleet.learn.zoo import fedavg, fedprox
from fedfleet.tasks.digits import digits_mlp

TASK = digits_mlp()(0)
ENTROPY = torch.nn.functional.cross_entropy


def each_entropy(outputs, labels):
    return ENTROPY(outputs, labels, reduction="none")


def weighted(outputs, labels):
    """One value for all samples, which is no mean of single ones: only the samples of one client may meet in it."""
    return ENTROPY(outputs, labels, weight=torch.linspace(0.2, 2.0, 10))


LOSSES = {
    "each": Loss(each_entropy),
    "joint": Loss(ENTROPY, joint=True),
    "power": Loss(lambda o, t: each_entropy(o, t) ** 1.5),
    "weighted": Loss(weighted, joint=True),
}


def jobs(algorithm, sizes=(20, 7, 13)):
    offer, rows = Offer(TASK.init(0)), np.arange(200)
    return [Job(i, i, 40 + i, 1, offer, algorithm.local(i, {}), rows[i * 25 : i * 25 + n]) for i, n in enumerate(sizes)]


@pytest.mark.parametrize("name", ["each", "joint"])
def test_cross_entropy_by_hand_is_cross_entropy(name):
    plain, own = (
        list(inline(replace(TASK, loss=loss)).train(jobs(fedavg() if loss is None else with_loss(fedavg(), loss))))
        for loss in (None, LOSSES[name])
    )
    for a, b in zip(plain, own, strict=True):
        for leaf in a.update:
            np.testing.assert_allclose(a.update[leaf], b.update[leaf], rtol=1e-5, atol=1e-7)
        assert a.stats["loss"] == pytest.approx(b.stats["loss"], rel=1e-5)


@pytest.mark.parametrize("form", ["merged", "loop"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("method", [fedavg, fedprox])
def test_executors_agree(form, name, method):
    task, work = replace(TASK, loss=LOSSES[name]), jobs(with_loss(method(batch=8), LOSSES[name]))
    for a, b in zip(inline(task).train(work), stacked_executor(task, form=form).train(work), strict=True):
        for leaf in a.update:
            assert np.abs(a.update[leaf] - b.update[leaf]).max() <= 1e-4 * np.abs(a.update[leaf]).max() + 1e-7


@pytest.mark.parametrize("name", LOSSES)
def test_models_are_judged_by_the_same_loss(name):
    loss, params = LOSSES[name], TASK.init(0)
    task = replace(TASK, loss=loss)
    shards = [np.arange(30), np.arange(30, 33), np.arange(100, 150)]
    trials = [Trial(params, shard) for shard in shards] + [Trial(TASK.init(1), shards[1])]
    one, other = list(inline(task).evaluate(trials)), list(stacked_executor(task).evaluate(trials))
    assert [s.correct for s in one] == [s.correct for s in other]
    assert [s.loss for s in one] == pytest.approx([s.loss for s in other], rel=1e-5)
    module = TASK.build()
    module.load_state_dict({n: torch.from_numpy(v) for n, v in params.items()})
    with torch.no_grad():
        wanted = loss.compute(
            module(torch.from_numpy(TASK.dataset.x[shards[0]])), torch.from_numpy(TASK.dataset.y[shards[0]])
        )
    assert one[0].loss == pytest.approx(float(wanted.mean()), rel=1e-5)


def test_an_algorithm_with_an_objective_of_its_own_refuses():
    algorithm = with_loss(fedavg(), LOSSES["each"])
    with pytest.raises(BadInput, match="objective of its own"):
        with_loss(algorithm, LOSSES["each"])


def test_an_opaque_algorithm_refuses():
    with pytest.raises(BadInput, match="cannot take a loss"):
        with_loss(replace(fedavg(), local=lambda client, settings: lambda job, data: None), LOSSES["each"])


@pytest.mark.parametrize("kind", [inline, stacked_executor])
def test_a_loss_that_breaks_is_named(kind):
    loss = Loss(lambda o, t: {}["margin"])
    with pytest.raises(RunFailed, match="your loss function failed: KeyError: 'margin'"):
        list(kind(TASK).train(jobs(with_loss(fedavg(), loss))))


def test_tuning_takes_it_too():
    tuned = replace(fedavg(), tune=lambda client: fedavg().local(client, {}))
    assert with_loss(tuned, LOSSES["each"]).tune(0).objective is not None
