"""What newcomers write in Python: each mistake is answered by one sentence that says what to write, at the line of their script."""

import copy
import re
import traceback

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.app.api.call_checks import check_call, name_hint
from fedfleet.core.errors import BadCall

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X, OWNER = RNG.normal(size=(120, 4)).astype(np.float32), np.arange(120) % 6
Y = (X.sum(1) > 0).astype(int)
SPEC = {"world": {"clients": 5}, "pace": {"cohort": 2}, "stop": {"rounds": 1}}


def net():
    return torch.nn.Linear(4, 2)


def own(data=(X, Y), **more):
    return fedfleet.run(SPEC, **{"model": net(), "data": data, **more})


def score(outputs, labels):
    return 0.0


class Column:
    """A column of a table, as pandas has them: an array only for those who ask."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


# What is written, and the facts that the answer has.
MISTAKES = {
    "a spec as TOML text": (lambda: fedfleet.run("[stop]\nrounds = 2\n"), ["path of its file", "tomllib.loads"]),
    "nothing at all": (lambda: fedfleet.run(), ["give a spec", "data"]),
    "a method instead of a spec": (lambda: fedfleet.run("fedavg"), ["no spec file fedavg", "algorithm.use=fedavg"]),
    "a model without data": (lambda: fedfleet.run(SPEC, model=net()), ["model", "data"]),
    "a model and nothing else": (lambda: fedfleet.run(model=net()), ["spec", "data="]),
    "a class that needs arguments": (lambda: own(model=torch.nn.Linear), ["class Linear", "in_features", "model=Linear(..)"]),
    "labels one-hot": (lambda: own((X, np.eye(2)[Y])), ["(120, 2)", "labels.argmax(1)"]),
    "labels from 1": (lambda: own((X, Y + 1)), ["label in row 0 is 2", "2 outputs", "0 to 1"]),
    "classes as floats": (lambda: own((X, Y.astype(float))), ["float64, not integers", "regression"]),
    "numbers for a model of classes": (lambda: own((X, Y + 0.5)), ["2 outputs", "1 output", "integers"]),
    "x and y swapped": (lambda: own((Y, X)), ["(inputs, labels) in this order"]),
    "x of strings": (lambda: own((X.astype(str), Y)), ["inputs are text", "astype(float)"]),
    "a list of metrics": (lambda: own(metrics=[score]), ["metrics={'score': score}"]),
    "a loss by its name": (lambda: own(loss="mse"), ["'mse' is not a function", "torch.nn.functional.mse_loss"]),
    "a number that is called back": (lambda: own(on_commit=3), ["on_commit: 3 is not a function", "Commit"]),
    "overrides by keyword": (
        lambda: fedfleet.run(SPEC, overrides=["stop.rounds=3"]),
        ["'overrides'", "run(spec, 'stop.rounds=3')"],
    ),
    "a typo in a keyword": (lambda: fedfleet.run(SPEC, modle=net()), ["'modle'", "'model'"]),
    "a setting by keyword": (lambda: fedfleet.run(SPEC, batch_size=32), ["'batch_size'", "run(spec, 'algorithm.batch=32')"]),
    "overrides as a dictionary": (lambda: fedfleet.run(SPEC, {"stop.rounds": 3}), ["not a dictionary", "'stop.rounds=3'"]),
    "a key without its table": (lambda: fedfleet.run({**SPEC, "rounds": 5}), ["'rounds'", "stop.rounds=5"]),
    "a folder that is not there": (lambda: fedfleet.load("nowhere"), ["no run folder nowhere"]),
    "runs of a study without the s": (
        lambda: fedfleet.study({"base": SPEC, "run": [{"name": "a"}]}),
        ["no key 'run'", "did you mean 'runs'?"],
    ),
    "a study that ships, misspelt": (lambda: fedfleet.study("sever"), ["did you mean severe", "mild, middle, severe"]),
    "a target instead of a label": (lambda: fedfleet.data("t.csv", target="y"), ["'target'", "did you mean 'label'?"]),
    "one run to compare": (lambda: fedfleet.compare("one"), ["a list of runs", "compare([first, second])"]),
}  # fmt: skip


def last_lines(error):
    """What a script that ends with this error prints, as Python's own hook does."""
    printed = traceback.format_exception(type(error), error, error.__traceback__)
    return "".join(printed).strip().splitlines()


def test_there_are_twenty_five():
    assert len(MISTAKES) == 25


@pytest.mark.parametrize(("write", "facts"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_python_is_one_sentence_at_the_callers_line(write, facts, monkeypatch, tmp_path):
    monkeypatch.delenv("FEDFLEET_TRACE", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fedfleet.BadInput) as told:
        write()
    sentence = str(told.value)
    assert all(fact in sentence for fact in facts), sentence
    assert "\n" not in sentence and not re.search(r"[^.]\. [A-Z]", sentence), "one sentence"
    files = [frame.filename for frame in traceback.extract_tb(told.value.__traceback__)]
    ours = [file for file in files if "/fedfleet/" in file.replace("\\", "/") and file != __file__ and "/tests/" not in file]
    assert len(ours) == 1 and ours[0].endswith("fedfleet/__init__.py") and files[-1] == ours[0], "nothing of what lies below"
    assert told.value.__suppress_context__ and last_lines(told.value)[-1].endswith(sentence)
    assert not list(tmp_path.iterdir())


def test_what_is_no_mistake_works():
    """Tensors, lists, and the columns of a table are data too."""
    model = net()
    forms = [(X, Y), (torch.tensor(X), torch.tensor(Y)), (X.tolist(), Y.tolist()), (Column(X), Column(Y))]
    assert len({own(data, model=model).metrics["digest"] for data in forms}) == 1, "and the same data"


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("accuracy", "metrics['accuracy']"), ("history", "result.rounds"), ("weights", "result.params"), ("model", "module()"),
        ("loss", "loss"), ("qwertz", "metrics"),
    ],
)  # fmt: skip
def test_what_people_look_for_in_a_result_is_named(name, fact):
    result = own()
    with pytest.raises(AttributeError, match="has no attribute") as told:
        getattr(result, name)
    assert fact in str(told.value) and not hasattr(result, name)


def test_a_result_can_be_copied_all_the_same():
    result = own()
    assert copy.copy(result).metrics == result.metrics


@pytest.mark.parametrize(
    ("name", "fact"), [("Run", "'run'"), ("comparison", "'Comparison'"), ("FedAvg", "algorithm"), ("train", "run")]
)
def test_names_that_fedfleet_does_not_have(name, fact):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'") as told:
        getattr(fedfleet, name)
    assert fact in str(told.value)
    assert not name_hint("qwertz", fedfleet.__all__) and not hasattr(fedfleet, "__wrapped__")


@pytest.mark.parametrize("name", ["predict", "measure", "study", "tune"])
def test_every_call_names_its_own_arguments(name):
    with pytest.raises(BadCall, match=rf"{name}\(\) has no argument 'outt'; (did you mean 'out'|known: spec)"):
        getattr(fedfleet, name)(SPEC, outt="there")


def test_what_is_missing_is_a_type_error_too():
    with pytest.raises(TypeError, match=r"load\(\): missing .*'out'.*help\(fedfleet\.load\)"):
        fedfleet.load()
    check_call(fedfleet.load, ["folder"], {})
