"""What every engine promises to the executor that they share: numpy and MNN, by the same laws."""

import inspect

import numpy as np
import pytest

from fedfleet.executors.described_executor import load_engine
from fedfleet.executors.engine_model import Engine, LoadedModel
from fedfleet.tasks.description.format import ModelDescription, Operation

MODEL = ModelDescription(
    (3,),
    "<f4",
    {"w": ((2, 3), "<f4"), "b": ((2,), "<f4")},
    frozenset({"w", "b"}),
    (Operation("linear", (0, "w", "b")), Operation("tanh", (1,))),
    2,
)


@pytest.fixture(params=["numpy", "mnn"])
def engine(request):
    if request.param == "mnn":
        pytest.importorskip("_mnncengine")
    return load_engine(request.param)


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    leaves = {"w": rng.normal(size=(2, 3)).astype(np.float32), "b": rng.normal(size=2).astype(np.float32)}
    return leaves, rng.normal(size=(4, 3)).astype(np.float32), np.array([0, 1, 1, 0])


def public_calls(kind):
    return {name: list(inspect.signature(call).parameters) for name, call in inspect.getmembers(kind, inspect.isfunction)}


def test_an_engine_takes_what_the_protocol_says(engine):
    for protocol, made in ((Engine, engine), (LoadedModel, engine.load(MODEL))):
        of_protocol = {n: p for n, p in public_calls(protocol).items() if not n.startswith("_")}
        of_engine = public_calls(type(made))
        assert of_protocol and {n: of_engine.get(n) for n in of_protocol} == of_protocol
    assert load_engine(engine.name).name == engine.name


def test_only_the_gradients_that_are_wanted_come_and_the_weights_stay_as_they_are(engine, batch):
    leaves, x, labels = batch
    before = {n: v.copy() for n, v in leaves.items()}
    model = engine.load(MODEL)
    assert model.description is MODEL
    both, one, none = (model.train(leaves, x, labels, frozenset(w), 0) for w in ({"w", "b"}, {"b"}, ()))
    assert both.gradients.keys() == {"w", "b"} and one.gradients.keys() == {"b"} and not none.gradients
    np.testing.assert_allclose(one.gradients["b"], both.gradients["b"], rtol=1e-6)
    assert both.losses.shape == (4,) and not both.buffers
    assert all(np.array_equal(leaves[n], v) for n, v in before.items())


def test_gradients_are_those_of_the_mean_of_the_losses(engine, batch):
    leaves, x, labels = batch
    model, step = engine.load(MODEL), np.float32(1e-2)
    gradient = model.train(leaves, x, labels, frozenset({"b"}), 0).gradients["b"]
    for place in range(2):
        ends = [{**leaves, "b": leaves["b"] + sign * step * np.eye(2, dtype=np.float32)[place]} for sign in (1, -1)]
        high, low = (float(model.train(end, x, labels, frozenset(), 0).losses.mean()) for end in ends)
        assert gradient[place] == pytest.approx((high - low) / 0.02, abs=1e-3)


def test_outputs_of_a_sample_do_not_depend_on_its_batch(engine, batch):
    leaves, x, _ = batch
    model = engine.load(MODEL)
    whole = model.evaluate(leaves, x)
    np.testing.assert_allclose(whole, np.tanh(x @ leaves["w"].T + leaves["b"]), atol=1e-6)
    np.testing.assert_allclose(np.concatenate([model.evaluate(leaves, x[:3]), model.evaluate(leaves, x[3:])]), whole, atol=1e-6)
