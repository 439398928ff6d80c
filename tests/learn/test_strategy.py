"""Functions with Flower's names as an algorithm: plain averaging is FedAvg, in simulation and in the halves of a network."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.core import aggregation, registry
from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.core.parts import Job, Offer
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Context
from fedfleet.core.tensor_format import unpack_tree
from fedfleet.core.trees import content_hash
from fedfleet.executors.gather import fold_in_order
from fedfleet.executors.inline import inline
from fedfleet.learn.codecs.quantisation import int8
from fedfleet.learn.compression import with_compression
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.folds import median, with_fold
from fedfleet.learn.server_optimisers import with_momentum
from fedfleet.learn.strategy import algorithm_from_strategy
from fedfleet.network.device.client_runtime import Assignment, ClientRuntime, train_task
from fedfleet.network.protocol.frames import offer_to_bytes
from fedfleet.testing import check_algorithm
from tests.testing.models import TASKS

SPEC = {"task": "digits_mlp", "world": {"clients": 12}, "pace": {"cohort": 4}, "stop": {"rounds": 4}}


def averaged(server_round, results, failures):
    """The mean by samples, as everybody writes it first."""
    assert server_round >= 1 and failures == []
    total = sum(result.num_examples for _, result in results)
    leaves = range(len(results[0][1].parameters))
    return [sum(r.num_examples / total * r.parameters[i].astype(np.float64) for _, r in results) for i in leaves], {}


def a_step(parameters, config, data):
    """Some noise, by a global generator, as a data loader draws it."""
    x, y = data
    assert len(x) == len(y)
    noisy = [p + np.asarray(config.get("rate", 0.01) * random.random() * torch.rand(p.shape).numpy(), p.dtype) for p in parameters]
    return noisy, len(y), {"loss": 0.5, "note": "not a number"}


def gap(one, other):
    return max(float(np.abs(one[n].astype(np.float64) - other[n]).max()) for n in one)


@pytest.fixture
def own(monkeypatch):
    def put(build):
        monkeypatch.setitem(registry._added["algorithms"], "own", build)

    return put


def test_plain_averaging_is_fedavg(own):
    own(lambda: algorithm_from_strategy(aggregate_fit=averaged, train=fedavg(lr=0.1, epochs=1)))
    here = fedfleet.run(SPEC, "algorithm.use=own")
    there = fedfleet.run(SPEC, "algorithm.use=fedavg", "algorithm.lr=0.1", "algorithm.epochs=1")
    assert gap(here.params, there.params) < 1e-6


def test_a_server_optimiser_goes_around_it():
    task = TASKS["dense"]()
    inner = fedavg(lr=0.1, epochs=1)
    expected, actual = (
        with_momentum(a, server_momentum=0.5, server_lr=1.0)
        for a in (inner, algorithm_from_strategy(aggregate_fit=averaged, train=inner))
    )
    models = []
    for algorithm in (expected, actual):
        server = algorithm.init(task.init(0))
        for commit in range(3):
            server = algorithm.apply(server, aggregate_of(algorithm, server, task, commit))
        models.append(server.params)
    assert gap(*models) < 1e-6


def jobs_of(algorithm, server, first=0):
    rows = np.split(np.arange(30), [12, 20])
    return [
        Job(first + c, c, 50 + c, 7, algorithm.offer(server, c, NO_SETTINGS), algorithm.local(c, NO_SETTINGS), rows[c])
        for c in range(3)
    ]


def aggregate_of(algorithm, server, task, commit):
    reports = list(inline(task).train(jobs_of(algorithm, server, 3 * commit)))
    contexts = [Context(0, 1.0, r.client, task=r.task) for r in reports]
    folded = fold_in_order(algorithm.fold, server, reports, contexts, algorithm.accept)
    assert folded.rejected == ()
    return aggregation.finish(algorithm.fold, folded.accumulator)


def test_parameters_come_in_the_order_of_the_model_and_configs_arrive():
    task, seen = TASKS["dense"](), []

    def fit(parameters, config, data):
        seen.append(([p.shape for p in parameters], config))
        return parameters, len(data[1]), {}

    def configure_fit(server_round, parameters, client):
        return {"rate": 0.5 / server_round, "epochs": 2, "warm": True, "who": f"client {client.cid}"}

    algorithm = algorithm_from_strategy(aggregate_fit=averaged, fit=fit, configure_fit=configure_fit)
    server = algorithm.init(task.init(0))
    list(inline(task).train(jobs_of(algorithm, server)))
    shapes = [tuple(v.shape) for v in task.build().state_dict().values()]
    assert [s for s, _ in seen] == [shapes] * 3
    assert seen[2][1] == {"rate": 0.5, "epochs": 2, "warm": True, "who": "client 2"}


def test_the_halves_of_a_network_give_what_a_simulation_gives():
    """Device and server, as bytes between them: names come in the order of the alphabet there."""
    task = TASKS["batch norm"]()
    algorithm = algorithm_from_strategy(
        aggregate_fit=averaged, fit=a_step, configure_fit=lambda r, p, c: {"rate": 0.1, "who": c.cid}
    )
    server = algorithm.init(task.init(0))
    simulated, reports = aggregate_of(algorithm, server, task, 0), []
    for job in jobs_of(algorithm, server):
        runtime = ClientRuntime(job.client, job.key, job.seed, algorithm, task, task.init(0), job.rows, job.rows[:0], inline(task))
        result = train_task(runtime, Assignment(job.task), offer_to_bytes(job.offer), {})
        served = next(iter(inline(task).train([job])))
        reports.append(replace(served, update=unpack_tree(result.payload), weight=result.weight, stats=result.stats))
    contexts = [Context(0, 1.0, r.client, task=r.task) for r in reports]
    folded = fold_in_order(algorithm.fold, server, reports, contexts, algorithm.accept)
    served = aggregation.finish(algorithm.fold, folded.accumulator)
    assert content_hash(served.mean) == content_hash(simulated.mean) and gap(
        served.mean, {n: 0 * v for n, v in served.mean.items()}
    )


@pytest.mark.parametrize(
    "parts", [{"train": fedavg(lr=0.05)}, {"fit": a_step}, {"fit": a_step, "configure_fit": lambda r, p, c: {"rate": 1 / r}}]
)
def test_it_passes_its_check(parts):
    task = TASKS["dense"]()
    check_algorithm(algorithm_from_strategy(aggregate_fit=averaged, **parts), task, inline(task), quiet=True)


def test_a_strategy_that_remembers_in_secret_is_caught():
    task, velocity = TASKS["dense"](), []

    def remembering(server_round, results, failures):
        mean, metrics = averaged(server_round, results, failures)
        velocity.append(mean)
        return [0.5 * (velocity[0][i] + len(velocity) * mean[i]) for i in range(len(mean))], metrics

    algorithm = algorithm_from_strategy(aggregate_fit=remembering, fit=a_step)
    with pytest.raises(AssertionError, match="no memory of the fold's own"):
        check_algorithm(algorithm, task, inline(task), quiet=True)


def test_the_first_model_can_be_its_own():
    task = TASKS["dense"]()
    zeros = algorithm_from_strategy(
        aggregate_fit=averaged, initialize_parameters=lambda manager: [0 * v for v in task.init(0).values()]
    )
    assert not any(v.any() for v in zeros.init(task.init(0)).params.values())
    keeps = algorithm_from_strategy(aggregate_fit=averaged, initialize_parameters=lambda manager: None)
    assert content_hash(keeps.init(task.init(0)).params) == content_hash(task.init(0))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"evaluate": a_step}, "on_commit"), ({"configure_evaluate": a_step}, "evaluate_every"), ({"nonsense": a_step}, "nonsense"),
        ({"configure_fit": a_step}, "give `fit` too"), ({"fit": a_step, "train": fedavg()}, "one of the two"),
        ({"train": with_fold(fedavg(), median())}, "way of its own"),
    ],
)  # fmt: skip
def test_what_it_does_not_do_is_said_where_it_is_called(parts, why):
    with pytest.raises(BadInput, match=why):
        algorithm_from_strategy(aggregate_fit=averaged, **parts)


def test_codecs_do_not_go_around_whole_models():
    with pytest.raises(BadInput, match="leave up out"):
        with_compression(algorithm_from_strategy(aggregate_fit=averaged), up=[int8()])


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"fit": lambda p, c, d: (p[:1], 3, {})}, "fit gave 1 arrays, and the model has 4"),
        ({"fit": lambda p, c, d: ([0.0, *p[1:]], 3, {})}, r"fit gave an array of shape \(\)"),
        ({"fit": a_step, "configure_fit": lambda r, p, c: [(c, {})]}, "decided by a Selector"),
        ({"fit": a_step, "configure_fit": lambda r, p, c: {"layers": [1]}}, "'layers' is a list"),
    ],
)
def test_what_does_not_fit_is_named(parts, why):
    task = TASKS["dense"]()
    algorithm = algorithm_from_strategy(aggregate_fit=averaged, **parts)
    server = algorithm.init(task.init(0))
    with pytest.raises(RunFailed, match=why):
        list(inline(task).train(jobs_of(algorithm, server)))


@pytest.mark.parametrize(
    ("answer", "why"), [(None, "must give"), (([], {}), "gave 0 arrays"), (([np.zeros(2)] * 4, {}), "shape"), ((None, {}), "")]
)
def test_what_aggregate_fit_gives_is_checked(answer, why):
    task = TASKS["dense"]()
    algorithm = algorithm_from_strategy(aggregate_fit=lambda *arguments: answer, train=fedavg(epochs=1))
    server = algorithm.init(task.init(0))
    if not why:
        assert aggregate_of(algorithm, server, task, 0) is None
        return
    with pytest.raises(RunFailed, match=why):
        aggregate_of(algorithm, server, task, 0)


def test_a_report_of_another_model_is_refused():
    task = TASKS["dense"]()
    algorithm = algorithm_from_strategy(aggregate_fit=averaged, train=fedavg(epochs=1))
    server = algorithm.init(task.init(0))
    report = next(iter(inline(task).train(jobs_of(algorithm, server))))
    with pytest.raises(Refused, match="missing"):
        algorithm.accept(server, replace(report, update={}), Context(0, 1.0, 0))
    assert isinstance(algorithm.offer(server, 0, NO_SETTINGS), Offer)
