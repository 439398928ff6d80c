"""Outputs that a loss cannot take are refused; outputs that it takes and that are probably wrong are warned of, and no others."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.tasks.data_checks import checked_data
from fedfleet.tasks.output_checks import loss_name
from fedfleet.tasks.own_model import model_recipe, trainable_build
from fedfleet.tasks.task_checks import check_fit
from tests.tasks.stand_ins import NEXT, PLACES, READ, TOKENS

RNG = np.random.default_rng(1)
X = RNG.normal(size=(60, 5)).astype(np.float32)
CLASSES = checked_data((X, np.arange(60) % 3))
NAMED = replace(CLASSES, label_names=("run", "sit", "walk"))
NUMBERS = checked_data((X, X[:, 0] + 0.5))
POSITIVE = checked_data((X, np.abs(X[:, 0]) + 0.5))
FLAGS = checked_data((X, X[:, :3] > 0))
TEXT = checked_data((READ, NEXT))
TAGS = checked_data((READ, READ % 3), "sequence_labels")


def ended(last, outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, outputs), last)


class Places(nn.Module):
    """Scores for every place of a sequence."""

    def __init__(self, outputs, transposed=False, last=None):
        super().__init__()
        self.table, self.head, self.transposed, self.last = nn.Embedding(TOKENS, 4), nn.Linear(4, outputs), transposed, last

    def forward(self, x):
        out = self.head(self.table(x))
        out = out if self.last is None else self.last(out)
        return out.transpose(1, 2) if self.transposed else out


class Gives(nn.Module):
    """What `shape` makes of the outputs of a linear layer."""

    def __init__(self, outputs, shape):
        super().__init__()
        self.inner, self.shape = nn.Linear(5, outputs), shape

    def forward(self, x):
        return self.shape(self.inner(x))


def found(model, data, **given):
    return check_fit(trainable_build(model, data.x), data, **given)


WARNED = {
    "Softmax": (ended(nn.Softmax(1)), CLASSES, "probabilities .*remove the Softmax"),
    "softmax as a function": (Gives(3, lambda o: o.softmax(1)), CLASSES, "probabilities .*remove the Softmax"),
    "Sigmoid for classes": (ended(nn.Sigmoid()), CLASSES, "last layer is a Sigmoid.*remove the Sigmoid"),
    "ReLU for classes": (ended(nn.ReLU()), CLASSES, "last layer is a ReLU.*never learnt"),
    "Softmax at places": (Places(TOKENS, last=nn.Softmax(-1)), TEXT, "probabilities"),
    "Sigmoid for labels": (ended(nn.Sigmoid()), FLAGS, "between 0 and 1.*binary cross-entropy applies a sigmoid"),
    "sigmoid as a function": (Gives(3, torch.sigmoid), FLAGS, "between 0 and 1"),
    "ReLU for labels": (ended(nn.ReLU()), FLAGS, "never negative"),
    "ReLU for numbers": (ended(nn.ReLU(), 1), NUMBERS, "a ReLU, whose outputs are 0 or more, and .* of the labels lie outside"),
    "relu as a function": (Gives(1, torch.relu), NUMBERS, "a ReLU"),
    "Tanh for numbers": (ended(nn.Tanh(), 1), POSITIVE, "a Tanh, whose outputs are -1 to 1"),
    "a head of another dataset": (nn.Linear(5, 1000), CLASSES, "1000 outputs, and the data have 3 classes"),
}
FINE = {
    "LogSoftmax": (ended(nn.LogSoftmax(1)), CLASSES),
    "scores": (nn.Linear(5, 3), CLASSES),
    "some more outputs": (nn.Linear(5, 20), CLASSES),
    "labels": (nn.Linear(5, 3), FLAGS),
    "ReLU for positive numbers": (ended(nn.ReLU(), 1), POSITIVE),
    "numbers in a row": (Gives(1, lambda o: o.flatten()), NUMBERS),
    "a head that begins with zeros": (Gives(1, lambda o: o * 0.0), NUMBERS),
    "a larger vocabulary": (Places(500), TEXT),
    "tags": (Places(3), TAGS),
}
REFUSED = {
    "places last": (Places(TOKENS + 3, transposed=True), TEXT, f"the {PLACES} places last.*transpose"),
    "one place": (Gives(3, lambda o: o), TAGS, "cannot take inputs.*tokens.*nn.Embedding"),
    "too few tokens": (Places(TOKENS - 1), TEXT, f"{TOKENS - 1} outputs.*{TOKENS} outputs"),
    "too few labels": (nn.Linear(5, 2), FLAGS, "2 outputs, and the samples have 3 labels"),
    "too many labels": (nn.Linear(5, 4), FLAGS, "4 outputs, and the samples have 3 labels"),
    "two numbers": (
        nn.Linear(5, 2),
        NUMBERS,
        "2 outputs, and the labels are numbers, 1 for each sample; give its last layer 1",
    ),
    "named classes": (
        nn.Linear(5, 2),
        NAMED,
        r"the labels are 3 classes \(run, sit, walk\), .*2 outputs.* 3 outputs.*'walk' in row",
    ),
    "a tuple": (Gives(3, lambda o: (o, None)), CLASSES, r"gives a tuple; return one tensor .*shape \(8, 3\)"),
    "a dictionary": (Gives(3, lambda o: {"scores": o}), CLASSES, "gives a dict; .*'scores'"),
    "whole numbers": (Gives(3, lambda o: o.long()), CLASSES, "gives torch.int64"),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_is_probably_wrong_is_one_sentence(name):
    model, data, says = WARNED[name]
    sentences = found(model, data)
    assert len(sentences) == 1
    assert sentences[0].startswith("model: ")
    assert re.search(says, sentences[0]), sentences[0]


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine_is_not_mentioned(name):
    assert found(*FINE[name]) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_loss_can_take_is_refused(name):
    model, data, says = REFUSED[name]
    with pytest.raises(BadInput, match=says) as told:
        found(model, data)
    assert "\n" not in str(told.value)


def test_an_own_loss_of_pytorch_is_known_and_any_other_is_left_alone():
    softmax = ended(nn.Softmax(1))
    for loss in (nn.CrossEntropyLoss(), nn.functional.cross_entropy):
        assert "Softmax" in found(softmax, CLASSES, scores=False, loss=loss)[0]
    assert found(softmax, CLASSES, scores=False, loss=lambda o, y: -o[range(len(y)), y].log()) == []
    assert "log-probabilities" in found(nn.Linear(5, 3), CLASSES, scores=False, loss=nn.NLLLoss())[0]
    assert found(ended(nn.LogSoftmax(1)), CLASSES, scores=False, loss=nn.NLLLoss()) == []
    assert loss_name(None, FLAGS) == "binary_cross_entropy_with_logits" and loss_name(np.mean, FLAGS) == ""


def test_the_recipe_carries_the_sentences():
    assert model_recipe(WARNED["Softmax"][0], CLASSES)(0).warnings[0].startswith("model: its outputs are probabilities")
