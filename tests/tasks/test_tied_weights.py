"""Tied parameters: listed once, loaded into both places."""

import torch
from torch import nn

from fedfleet.tasks.tied_weights import hide_ties, tied_names


def tied():
    model = nn.ModuleDict({"table": nn.Embedding(4, 2), "head": nn.Linear(2, 4, bias=False)})
    model["head"].weight = model["table"].weight
    return model


def test_a_tied_parameter_is_listed_once_and_taken_back():
    model, other = hide_ties(tied()), hide_ties(tied())
    assert tied_names(model) == {"head.weight": "table.weight"}
    assert list(model.state_dict()) == ["table.weight"]
    other.load_state_dict(model.state_dict())
    assert torch.equal(other["head"].weight, model["table"].weight)
    assert other["head"].weight is other["table"].weight


def test_inside_another_module_the_names_are_longer():
    whole = nn.Sequential(hide_ties(tied()), nn.Linear(2, 2))
    assert list(whole.state_dict()) == ["0.table.weight", "1.weight", "1.bias"]
    whole.load_state_dict(whole.state_dict())


def test_a_model_without_ties_is_the_same():
    model = nn.Linear(2, 2)
    assert hide_ties(model) is model and list(model.state_dict()) == ["weight", "bias"]
