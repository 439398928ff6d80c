"""A model in a file of Python: named, trusted, made."""

import sys

import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.tasks.model_code import CodeName, code_name, current_hash, model_maker, read_code, trust_file
from fedfleet.tasks.trusted_code import forget
from tests.app.own_files import write_model


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(tmp_path, text, name="Net"):
    path = tmp_path / "net.py"
    path.write_text(text)
    return model_maker(CodeName(str(path), name), trust_file(f"{path}:{name}"))


@pytest.mark.parametrize(
    ("word", "facts"), [("model.py", "model.py:Net"), ("a.txt:Net", "not a Python file"), ("m.py:a b", "'a b'")]
)
def test_a_name_that_is_none_says_how_it_is_written(word, facts):
    with pytest.raises(BadInput) as refused:
        code_name(word)
    assert facts in str(refused.value)


def test_a_model_takes_the_sizes_that_it_asks_for(tmp_path):
    path = write_model(tmp_path)
    for name in ("Net", "layers"):
        model = model_maker(CodeName(str(path), name), trust_file(f"{path}:{name}"))((3,), 2)
        assert model.state_dict()[[*model.state_dict()][-1]].shape == (2,)
    assert made(tmp_path, "import torch\ndef Net():\n    return torch.nn.Linear(3, 2)\n")((3,), 2).out_features == 2
    shapes = made(tmp_path, "class Net:\n    def __init__(self, inputs): self.inputs = inputs\n")
    assert shapes((3, 8, 8), 2).inputs == (3, 8, 8)


def test_code_runs_only_once_it_is_trusted_and_then_as_it_was(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("raise SystemExit('ran')\n")
    named = CodeName(str(path), "Net")
    with pytest.raises(BadInput, match=f"fedfleet trust {path}"):
        model_maker(named, current_hash(named))
    path.write_text("import torch\nNet = lambda: torch.nn.Linear(1, 1)\n")
    digest = trust_file(str(named))
    path.write_text("raise SystemExit('ran')\n")
    assert model_maker(named, digest)((1,), 1).in_features == 1  # the version that was trusted
    forget(digest)
    del sys.modules[f"fedfleet_model_{digest}"]
    with pytest.raises(BadInput, match=digest):
        model_maker(named, digest)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("def Net(:\n", "line 1"),
        ("import no_such_package\n", "'no_such_package', which is not installed"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("class Nets: ...\n", "did you mean 'Nets'"),
        ("Net = 3\n", "is a int"),
        ("def Net(width): ...\n", "'width'"),
    ],
)
def test_code_that_makes_no_model_says_why(text, facts, tmp_path):
    with pytest.raises(BadInput) as refused:
        made(tmp_path, text)
    assert facts in str(refused.value) and "net.py" in str(refused.value)


def test_a_model_that_cannot_be_made_names_the_code(tmp_path):
    with pytest.raises(RunFailed, match=r"net\.py:Net failed: ValueError: no"):
        made(tmp_path, "def Net():\n    raise ValueError('no')\n")((1,), 1)


def test_a_file_that_is_not_there_names_its_neighbour(tmp_path):
    write_model(tmp_path)
    with pytest.raises(BadInput, match=r"model\.py"):
        read_code(str(tmp_path / "modle.py"))
