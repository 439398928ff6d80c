"""The newcomer's path: the example is short and answers, and every mistake on the way is answered as the page says."""

import ast
import subprocess
import sys

import numpy as np
import pytest
from torch import nn

import fedfleet
from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = (ROOT / "examples/newcomer.py").read_text()
PAGE = (ROOT / "docs/how-to/five-minutes.md").read_text()
RNG = np.random.default_rng(0)
X, Y, WHO = RNG.normal(size=(300, 3, 20)).astype("float32"), RNG.integers(0, 6, 300), np.arange(300) % 10
NET = nn.Sequential(nn.Flatten(), nn.Linear(60, 6))
RUNS = [
    {"name": "a", "pace": {"use": "readiness", "cohort": 5}},
    {"name": "b", "pace": {"use": "deadline", "cohort": 5, "seconds": 10}},
]
STUDY = {
    "base": {"world": {"clients": 10, "data": "by_owner"}, "stop": {"rounds": 2}},
    "runs": RUNS,
    "seeds": 2,
    "baseline": "a",
}
MORE_CLIENTS = {"world": {"clients": 12, "data": "by_owner"}, "stop": {"rounds": 2}}


def test_the_example_has_thirty_lines():
    body = ast.parse(EXAMPLE).body[1:]  # without its docstring
    lines = EXAMPLE.splitlines()[body[0].lineno - 1 :]
    assert len([line for line in lines if line.strip()]) <= 30


def test_the_example_answers(tmp_path):
    """Three rounds, two seeds and a light fleet here; make soak runs it as it is."""
    small = EXAMPLE.replace('"rounds": 40', '"rounds": 3').replace('"seeds": 5', '"seeds": 2').replace("1500", "600")
    small = small.replace('"epochs": 2', '"epochs": 1')
    assert small.count('"rounds": 3') == small.count('"seeds": 2') == 1
    env = {"PYTHONPATH": str(ROOT), "FEDFLEET_DATA": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", small], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "wait for all" in done.stdout and "the baseline" in done.stdout
    assert (tmp_path / "runs/newcomer/report.html").exists()


@pytest.mark.parametrize(
    ("mistake", "change", "model", "data"),
    [
        ("labels are text", {}, NET, (X, Y.astype(str), WHO)),
        ("labels begin at 1", {}, NET, (X, Y + 1, WHO)),
        ("missing values", {}, NET, (np.where(X > 3, np.nan, X), Y, WHO)),
        ("a model for other inputs", {}, nn.Linear(7, 6), (X, Y, WHO)),
        ("a column of owners that is too short", {}, NET, (X, Y, WHO[:-1])),
        ("nobody said who made the samples", {}, NET, (X, Y)),
        ("a number of clients that is not the number of people", {"base": MORE_CLIENTS}, NET, (X, Y, WHO)),
        ("a typing error in a pace", {"runs": [{"name": "a", "pace": {"use": "deadlin"}}]}, NET, (X, Y, WHO)),
        ("a key in the wrong place", {"seed": 3}, NET, (X, Y, WHO)),
        ("a baseline that is not there", {"baseline": "wait"}, NET, (X, Y, WHO)),
        ("a class instead of a model", {}, nn.Linear, (X, Y, WHO)),
        ("no model", {}, None, (X, Y, WHO)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_mistake_is_answered_as_the_page_says(mistake, change, model, data, tmp_path):
    with pytest.raises(fedfleet.BadInput) as told:
        fedfleet.study(STUDY | change, model=model, data=data, out=tmp_path / "study")
    assert f"| {mistake} | {told.value} |" in PAGE
