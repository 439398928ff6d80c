"""Federated averaging: what it asks for, what it does to the model, and that it learns."""

import numpy as np
import pytest

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Aggregate
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated
from fedfleet.core.records import Context, Report, ServerState, whole_work
from fedfleet.learn.fedavg import add_to_model, fedavg
from tests.learn.digits import trained
from tests.worlds import only

NOW = Context(0, 1.0, 0)


def test_the_whole_model_goes_down_and_up():
    server = ServerState({"w": np.zeros(10, np.float32)})
    cost = cost_of(fedavg(epochs=3), server, whole_work(np.array([4, 9])), np.array([7, 20]))
    assert cost.samples.tolist() == [21, 60]
    assert cost.bytes_down.tolist() == cost.bytes_up.tolist() == [40, 40]


def test_leaves_that_do_not_travel_stay():
    server = ServerState({"w": np.ones(2, np.float32), "n": np.array([3])}, {"m": np.ones(1)})
    after = add_to_model(server, Aggregate({"w": np.full(2, 0.5, np.float32)}, 1.0, 1))
    assert after.params["w"].tolist() == [1.5, 1.5]
    assert after.params["n"] is server.params["n"]
    assert after.extra is server.extra


def test_fedavg_learns_something():
    events, _ = trained(fedavg(lr=0.5), rounds=4, cohort=8)
    curve = [e.correct / e.total for e in only(Evaluated, events)]
    assert curve[0] < 0.25
    assert curve[-1] > 0.6


def test_momentum_belongs_to_sgd():
    with pytest.raises(BadInput, match="adam has its own"):
        fedavg(optimiser="adam", momentum=0.9)


def test_bound_is_the_callers():
    server = ServerState({"w": np.zeros(2, np.float32)})
    report = Report(0, 0, {"w": np.full(2, 0.6, np.float32)}, 1.0, {})

    def refused(fold):
        return aggregation.refusal(fold, aggregation.zero(fold, server), report, NOW)

    assert refused(fedavg(bound=0.5).fold) == "leaf 'w' reaches 0.6, beyond its bound 0.5"
    assert refused(fedavg(bound=0.7).fold) is None


def test_a_client_with_more_samples_than_the_limit_weighs_the_limit():
    half = fedavg(max_samples=50).local(0, {})
    assert [half.weight_of(samples) for samples in (1, 50, 51, 1 << 24)] == [1.0, 50.0, 50.0, 50.0]
    with pytest.raises(BadInput, match="max_samples"):
        fedavg(weigh="one", max_samples=50)
