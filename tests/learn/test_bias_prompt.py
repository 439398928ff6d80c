"""BiasPrompt: only fast weights move, travel and are charged; the server's momentum; stacked as inline."""

import numpy as np
import pytest
from torch import nn

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.spec import resolve
from fedfleet.core.aggregation import Aggregate
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Trial
from fedfleet.core.records import ServerState, whole_work
from fedfleet.core.trees import content_hash, tree_nbytes
from fedfleet.executors.stacked.form_choice import Form
from fedfleet.learn.bias_prompt import FastWeights
from fedfleet.learn.features import with_variants
from fedfleet.learn.zoo import biasprompt, fedavg
from fedfleet.simulation.simulator import simulate
from fedfleet.tasks.digits import digits_vit
from tests.executors.cohorts import compare, compare_jobs, convolutions, jobs_of, small_task, smooth

pytestmark = pytest.mark.slow

TINY = {"width": 12, "heads": 2, "depth": 2, "backbone": ""}
SMALL = {"lr": 0.05, "batch": 4, "epochs": 1, "prompt_length": 3}
SPEC = {
    "seed": 3, "task": {"use": "digits_vit", **TINY}, "algorithm": {"use": "biasprompt", "prompt_length": 2, "epochs": 1},
    "world": {"clients": 8}, "pace": {"cohort": 3}, "stop": {"rounds": 2},
}  # fmt: skip


def small_vit(method):
    return method.adapt(digits_vit(**TINY)(0), 0)


@pytest.mark.parametrize("form", ["merged", "loop"])
@pytest.mark.parametrize("sizes", [(5, 3, 8), (4, 4)])
def test_a_transformer_trains_stacked_as_it_does_inline(form, sizes):
    method = biasprompt(**SMALL)
    compare(small_vit(method), method, sizes, form, threads=2)


@pytest.mark.parametrize("more", [{"momentum": 0.9}, {"weight_decay": 0.1}])
def test_so_it_does_with_other_linear_steps(more):
    method = biasprompt(**SMALL, **more)
    compare(small_vit(method), method, (5, 3, 8))


def test_so_it_does_with_adam():
    """Not on a transformer: the gradient of its keys' biases is nothing but rounding, which Adam makes as large as any other."""
    method = biasprompt(**SMALL, optimiser="adam")
    compare(method.adapt(small_task(smooth()), 0), method, (5, 3, 8))


@pytest.mark.parametrize("form", ["merged", "loop"])
def test_a_convolutional_backbone_with_frozen_statistics_too(form):
    method = biasprompt(**SMALL)
    task = method.adapt(small_task(convolutions(lambda: nn.BatchNorm2d(6))), 0)
    assert "net.1.running_mean" in task.frozen
    compare_jobs(task, jobs_of(task, method, (5, 3, 8)), form)


def test_frozen_weights_are_bit_for_bit_what_they_were_and_the_rest_learns():
    setup = assemble(resolve(SPEC))
    before = content_hash(setup.task.frozen)
    with open_executor(setup) as execute:
        after = simulate(setup.plan, setup.world, execute).state.server.params
    assert content_hash(setup.task.frozen) == before
    assert {*after} == {*setup.plan.params} and not {*after} & {*setup.task.frozen}
    assert all(not np.array_equal(v, setup.plan.params[n]) for n, v in after.items() if n.startswith(("prom", "head")))


def test_what_is_charged_is_what_travels_scaled_by_the_whole_model():
    setup = assemble(resolve({**SPEC, "world": {"clients": 8, "model_bytes": 1e6}}))
    plan, trained = setup.plan, tree_nbytes(setup.plan.params)
    cost = cost_of(plan.algorithm, plan.algorithm.init(plan.params), whole_work(np.arange(2)), np.array([5, 7]))
    assert cost.bytes_up.tolist() == cost.bytes_down.tolist() == [trained, trained]
    assert plan.byte_scale == pytest.approx(1e6 / (trained + tree_nbytes(setup.task.frozen)))


def test_the_servers_momentum():
    method, server = biasprompt(server_momentum=0.5, server_lr=0.1), ServerState({"w": np.zeros(1, np.float32)})
    for _ in range(2):
        server = method.apply(server, Aggregate({"w": np.ones(1, np.float32)}, 1.0, 1))
    assert server.extra["velocity/w"].tolist() == [1.5]
    assert server.params["w"] == pytest.approx(np.float32(0.25))


def test_without_momentum_the_server_is_that_of_fedavg_bit_for_bit():
    server, change = ServerState({"w": np.full(3, 0.3, np.float32)}), {"w": np.full(3, 0.7, np.float32)}
    a, b = (m.apply(server, Aggregate(change, 1.0, 1)) for m in (biasprompt(server_momentum=0.0, server_lr=1.0), fedavg()))
    assert np.array_equal(a.params["w"], b.params["w"])


def test_the_task_is_adapted_by_value():
    assert biasprompt().adapt == FastWeights(12, 0.134) != biasprompt(prompt_length=3).adapt


def test_some_clients_cannot_have_other_prompts_than_the_rest():
    base = biasprompt()
    with_variants(base, ((np.array([0]), biasprompt(lr=0.2)),), 3)
    with pytest.raises(BadInput, match="share one model"):
        with_variants(base, ((np.array([0]), biasprompt(prompt_length=3)),), 3)


@pytest.mark.slow
def test_a_pretrained_backbone_learns_where_a_random_one_does_not():
    result = {}
    for backbone in ("builtin", ""):
        spec = {
            **SPEC,
            "task": {"use": "digits_vit", "backbone": backbone},
            "pace": {"cohort": 8},
            "stop": {"rounds": 4},
        }
        setup = assemble(resolve({**spec, "run": {"execute": "stacked"}}))
        with open_executor(setup, Form("merged", 1)) as execute:
            done = simulate(setup.plan, setup.world, execute)
            (score,) = execute.evaluate([Trial(done.state.server.params, setup.task.holdout)])
        result[backbone] = score.correct / score.total
    assert result["builtin"] > result[""] + 0.2, result
