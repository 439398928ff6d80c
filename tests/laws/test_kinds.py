"""Every kind of task with every method and executor: it trains, agrees between executors, replays, and resumes; or says why not."""

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.core.kinds import KINDS
from fedfleet.core.registry import names
from tests.portions import diagonals

CLIENTS, COHORT, ROUNDS = 6, 3, 2
FLEET = {"world": {"clients": CLIENTS}, "pace": {"cohort": COHORT}, "stop": {"rounds": ROUNDS}}


class Tagger(torch.nn.Module):
    """Scores of five classes at every place."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = torch.nn.Embedding(5, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.norm(torch.relu(self.embed(x))))


def perceptron(outputs):
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, outputs))


def own_task(kind):
    """A model and data of this kind."""
    rng = np.random.default_rng(0)
    x, text = rng.normal(size=(120, 4)).astype(np.float32), np.cumsum(rng.integers(0, 2, (120, 7)), 1) % 5
    match kind:
        case "classification":
            return lambda: perceptron(3), (x, (x[:, 0] > 0).astype(int) + (x[:, 1] > 1))
        case "regression":
            return lambda: perceptron(2), (x, x @ rng.normal(size=(4, 2)) + 0.5)
        case "multilabel":
            return lambda: perceptron(3), (x, x[:, :3] > 0.5)
        case "next_token":
            return Tagger, (text[:, :-1], text[:, 1:])
        case "sequence_labels":
            return Tagger, (text, (text + 1) % 5)


def run(kind, *overrides, **more):
    model, data = own_task(kind)
    return fedfleet.run(FLEET, *overrides, model=model, data=data, **more)


def refusal(call):
    """What a call answers, and the sentence with which it is refused instead."""
    try:
        return call(), ""
    except fedfleet.BadInput as error:
        return None, str(error)


# Methods that a small model without layers of its own kind cannot have, and how they say so.
REFUSALS = {"biasprompt", "biasprompt_plus", "heterofl", "fjord"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "kind"), diagonals(names("algorithms"), KINDS, every=3))
def test_every_method_trains_every_kind_of_task_and_executors_agree(name, kind):
    words = (f"algorithm.use={name}", "algorithm.lr=0.05")
    if name == "centralized":
        words += ("stop.rounds=2",)
    inline, sentence = refusal(lambda: run(kind, *words))
    if sentence:
        assert name in REFUSALS and "\n" not in sentence
        return
    stacked = run(kind, *words, "run.execute=stacked")
    assert inline.metrics["score"]["kind"] == kind
    assert inline.metrics["commits"] == stacked.metrics["commits"]
    assert set(inline.metrics["measures"]) == set(KINDS[kind].measures) == set(stacked.metrics["measures"])
    for leaf, value in inline.params.items():
        assert np.allclose(value, stacked.params[leaf], rtol=1e-3, atol=2e-5), leaf
    if kind in ("regression", "multilabel", "next_token"):
        assert inline.metrics["loss"] == pytest.approx(stacked.metrics["loss"], rel=1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_every_kind_is_resumed_and_replayed(kind, tmp_path):
    model, data = own_task(kind)
    first = run(kind, out=tmp_path / "a")
    again = run(kind, out=tmp_path / "b")
    assert first.metrics["digest"] == again.metrics["digest"]
    answer = fedfleet.replay(tmp_path / "a", model=model, data=data)
    assert "models" in answer["verified"] and "scores" in answer["verified"]
    loaded = fedfleet.load(tmp_path / "a").metrics
    assert loaded["measures"] == first.metrics["measures"] and loaded["score"] == first.metrics["score"]
    curve = loaded["curve"].get("measures", {})
    assert set(curve) == set(KINDS[kind].measures) and all(len(values) == ROUNDS + 1 for values in curve.values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("deal", ["iid", "quantity", "dirichlet", "by_label", "label_flip"])
@pytest.mark.parametrize("kind", KINDS)
def test_partitions_deal_every_kind_or_say_what_does(kind, deal):
    table = {"use": "label_flip", "of": "iid", "share": 0.5} if deal == "label_flip" else deal
    model, data = own_task(kind)
    spec = {**FLEET, "world": {"clients": CLIENTS, "data": table}}
    found, sentence = refusal(lambda: fedfleet.run(spec, model=model, data=data))
    if sentence:
        assert KINDS[kind].places and deal in ("dirichlet", "by_label") and "quantity" in sentence
        return
    assert found.metrics["commits"] == ROUNDS


@pytest.mark.filterwarnings("ignore")
def test_a_run_stops_at_a_target_for_any_measure_also_one_of_the_persons_own():
    model, data = own_task("regression")

    def worst(outputs, labels):
        return np.abs(outputs - labels).max()

    long = {**FLEET, "stop": {"rounds": 60}}
    found = fedfleet.run(long, "stop.target=rmse <= 1.0", "algorithm.lr=0.1", model=model, data=data)
    assert found.metrics["stopped_by"] == "target" and found.metrics["measures"]["rmse"] <= 1.0
    assert found.metrics["curve"]["measures"]["rmse"][0] > 1.0
    own = fedfleet.run(long, "stop.target=worst <= 4.5", "algorithm.lr=0.1", model=model, data=data, metrics={"worst": worst})
    assert own.metrics["stopped_by"] == "target" and own.metrics["measures"]["worst"] <= 4.5
    score = fedfleet.run(long, "stop.target=R2 >= 0.5", "algorithm.lr=0.1", model=model, data=data)
    assert score.metrics["stopped_by"] == "target" and score.metrics["accuracy"] >= 0.5
    with pytest.raises(fedfleet.BadInput, match=r"has no measure 'rmsee'.*rmse"):
        fedfleet.run(long, "stop.target=rmsee <= 1", model=model, data=data)
    with pytest.raises(fedfleet.BadInput, match="must name a measure and its limit"):
        fedfleet.run(long, "stop.target=rmse = 1", model=model, data=data)
