"""Functions and classes are found again by name and source, and described without running anything."""

import functools

import numpy as np
import pytest
import torch

from fedfleet.app.runs.user_code import (
    SCRIPT,
    Entry,
    declarations_only,
    describe_object,
    function_entry,
    load_object,
    matches_entry,
    model_entry,
    rebuild_object,
    sha256,
)
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.tasks.own_model import model_factory
from tests.app.runs.owned import Net, focal, row, share_right, smooth


def test_what_a_module_holds_is_found_again():
    entry, text = describe_object(functools.partial(Net, hidden=3), call=True)
    assert (entry.by, entry.module, entry.name, entry.kwargs) == ("code", "tests.app.runs.owned", "Net", {"hidden": 3})
    assert entry.sha256 == sha256(text) and "class Net" in text
    assert load_object(entry, text).inner.out_features == 3
    entry, text = describe_object(focal, call=False)
    assert load_object(entry, text) is focal


def local():
    def inside():
        return 1

    return inside


@pytest.mark.parametrize("thing", [lambda: 1, local(), functools.partial(Net, hidden=object()), functools.partial(Net, (1,))])
def test_what_has_no_name_or_no_plain_arguments_is_for_the_hand(thing):
    entry, text = describe_object(thing, call=True)
    assert (entry.by, text) == ("hand", "") and entry.what


def test_what_was_replaced_under_its_name_is_for_the_hand(monkeypatch):
    monkeypatch.setattr("tests.app.runs.owned.focal", None)
    assert describe_object(focal, call=False)[0].by == "hand"


SCRIPT_TEXT = """
import math

SIZE = 3
TABLE: dict = {"a": [1, 2]}
made = math.sqrt(4)
print("running")
raise SystemExit("executed")


class Thing:
    size = SIZE


def root(x):
    return math.sqrt(x) * TABLE["a"][1]
"""


def test_of_a_script_only_what_it_declares_is_kept():
    text = declarations_only(SCRIPT_TEXT)
    assert "print" not in text and "made" not in text and "SystemExit" not in text
    entry = Entry("code", "root", module=SCRIPT, name="root", sha256=sha256(text))
    assert load_object(entry, text)(9.0) == 6.0
    assert declarations_only(SCRIPT_TEXT.replace('print("running")', "print(resume=True)")) == text, "what it does may change"


def test_code_that_is_not_there_or_fails_says_so():
    with pytest.raises(BadInput, match="there is no 'gone'"):
        load_object(Entry("code", "x", module="tests.app.runs.owned", name="gone"), "")
    with pytest.raises(RunFailed, match=r"the code of m:f failed: ZeroDivisionError"):
        load_object(Entry("code", "m:f", module="m", name="f"), "1 / 0\n")
    with pytest.raises(RunFailed, match=r"the code of nowhere:f failed: ModuleNotFoundError"):
        load_object(Entry("code", "nowhere:f", module="nowhere", name="f"), "")


def test_kept_source_runs_once_beside_what_is_here():
    text = "made = []\nmade.append(1)\n\n\ndef count():\n    return len(made)\n"
    entry = Entry("code", "tests.app.runs.owned:count", module="tests.app.runs.owned", name="count")
    assert [load_object(entry, text)() for _ in range(2)] == [1, 1]


X = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)


class Odd(torch.nn.Linear):
    """Answers otherwise each time it is made."""

    made = 0

    def __init__(self):
        super().__init__(5, 2)
        Odd.made += 1
        self.turn = Odd.made

    def forward(self, x):
        return super().forward(x) * self.turn


@pytest.mark.parametrize(
    ("model", "by"),
    [
        (row(), "layers"), (row, "layers"), (lambda: torch.nn.Linear(5, 2), "layers"), (torch.nn.Linear(5, 2), "layers"),
        (Net, "code"), (Net(), "code"), (functools.partial(Net, 3), "code"),
        (Net(3), "hand"), (lambda: Net(), "hand"), (Odd(), "hand"),
    ],
)  # fmt: skip
def test_how_models_are_noted(model, by):
    entry, text = model_entry(model, X)
    assert entry.by == by
    if by != "hand":
        again, first = rebuild_object(entry, text), model_factory(model)()
        again.load_state_dict(first.state_dict())
        assert torch.equal(again(torch.from_numpy(X)), first(torch.from_numpy(X)))
        assert matches_entry(entry, model)


class Held:
    def __init__(self, power=None):
        if power:
            self.power = power

    def __call__(self, outputs, labels):
        return focal(outputs, labels)


@pytest.mark.parametrize(
    ("function", "by"),
    [
        (focal, "code"), (Held(), "code"), (Held(2), "hand"), (lambda o, t: o, "hand"),
        (torch.nn.CrossEntropyLoss(label_smoothing=0.1), "layers"), (torch.nn.functional.multi_margin_loss, "layers"),
    ],
)  # fmt: skip
def test_how_functions_are_noted(function, by):
    entry, text = function_entry(function)
    assert entry.by == by
    if by != "hand":
        outputs, labels = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
        assert torch.equal(rebuild_object(entry, text)(outputs, labels), function(outputs, labels))


def test_things_are_told_apart():
    assert not matches_entry(function_entry(focal)[0], smooth)
    assert not matches_entry(function_entry(focal)[0], share_right)
    assert not matches_entry(model_entry(functools.partial(Net, 3), X)[0], functools.partial(Net, 4))
    assert not matches_entry(model_entry(row(), X)[0], torch.nn.Linear(5, 2))
    assert matches_entry(model_entry(lambda: Net(), X)[0], Net), "of a lambda nothing is known"


def test_a_given_module_is_never_changed():
    model = row()
    assert model_factory(model)() is not model and model_factory(row) is row and model_factory(Net) is Net
