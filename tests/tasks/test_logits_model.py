"""Models that give objects with logits: wrapped, trained, kept and given back; tied weights are one, dropout has a seed."""

import numpy as np
import pytest
import torch
from torch import nn

import fedfleet
from fedfleet.core.errors import BadInput
from fedfleet.tasks.data_checks import checked_data
from fedfleet.tasks.logits_model import LogitsModel, first_argument, logits_of, needs_wrapping
from fedfleet.tasks.own_model import model_recipe, trainable_build
from tests.tasks.stand_ins import NEXT, READ, TOKENS, TOPIC, Answer, Classifier, LanguageModel

SPEC = {"seed": 3, "world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 2}}


def test_only_what_gives_logits_is_wrapped():
    x = READ.astype(np.float32)
    assert needs_wrapping(LanguageModel(), x) and needs_wrapping(Classifier(), x)
    assert not needs_wrapping(nn.Linear(6, 3), x) and not needs_wrapping(nn.LSTM(6, 3), x)
    assert not needs_wrapping(LogitsModel(Classifier()), x), "twice is once too often"
    with torch.device("meta"):
        assert needs_wrapping(Classifier(), x) is None, "without numbers it cannot be tried"


def test_the_input_goes_to_the_first_argument_as_it_wants_it():
    model = LogitsModel(LanguageModel())
    assert first_argument(model.model) == "input_ids"
    out = model(torch.from_numpy(READ[:3].astype(np.float32)))
    assert out.shape == (3, 6, TOKENS) and torch.equal(out, model(torch.from_numpy(READ[:3])))


def test_an_answer_without_logits_names_the_cure():
    with pytest.raises(BadInput, match="without logits; choose a model with a head"):
        logits_of({"last_hidden_state": torch.zeros(2, 3)})
    assert logits_of(Answer(torch.ones(1))).item() == 1.0 and logits_of(torch.ones(1)).item() == 1.0


@pytest.mark.parametrize("execute", ["inline", "stacked"])
@pytest.mark.parametrize(
    ("model", "data", "kind"),
    [(LanguageModel, (READ, NEXT), "next_token"), (Classifier, (READ.astype(np.float32), TOPIC), "classification")],
)
def test_such_models_train_in_a_folder_that_replays(tmp_path, model, data, kind, execute):
    spec = {**SPEC, "run": {"execute": execute}}
    done = fedfleet.run(spec, model=model, data=data, out=tmp_path / "run")
    assert done.metrics["commits"] == 2 and done.metrics["score"]["kind"] == kind
    assert all(name.startswith("model.") for name in done.params)
    assert "models" in fedfleet.replay(tmp_path / "run", model=model)["verified"]
    assert isinstance(done.module().model, model)
    again = fedfleet.run(spec, model=model, data=data)
    assert again.metrics["digest"] == done.metrics["digest"]


def test_a_tied_weight_is_one_array_and_stays_tied():
    task = model_recipe(LanguageModel, checked_data((READ, NEXT)))(0)
    params = task.init(0)
    assert "model.head.weight" not in params and "model.mask" not in params
    module = task.build()
    module.load_state_dict({n: torch.from_numpy(v) for n, v in params.items()})
    assert module.model.head.weight is module.model.embed.weight
    done = fedfleet.run(SPEC, model=LanguageModel, data=(READ, NEXT))
    shorter = fedfleet.run(SPEC, "stop.rounds=1", model=LanguageModel, data=(READ, NEXT))
    assert not np.array_equal(done.params["model.embed.weight"], shorter.params["model.embed.weight"])
    trained = done.module().model
    assert torch.equal(trained.head.weight, torch.from_numpy(done.params["model.embed.weight"]))


@pytest.mark.parametrize("execute", ["inline", "stacked"])
def test_dropout_of_an_own_model_follows_the_seed(execute):
    spec = {**SPEC, "run": {"execute": execute}}

    def dropping():
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))

    data = (READ.astype(np.float32), TOPIC)
    first, again = (fedfleet.run(spec, model=dropping, data=data) for _ in range(2))
    assert first.metrics["digest"] == again.metrics["digest"]
    assert any(type(layer) is nn.Dropout for layer in first.module()), "what is given back drops as PyTorch does"
    plain = fedfleet.run(spec, model=lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 3)), data=data)
    assert plain.metrics["digest"] != first.metrics["digest"]


def test_a_given_module_is_not_changed():
    model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.1), nn.Linear(4, 3))
    built = trainable_build(model, READ.astype(np.float32))()
    assert type(model[1]) is nn.Dropout and type(built[1]) is not nn.Dropout
    assert built[0].weight is not model[0].weight
