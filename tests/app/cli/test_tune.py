"""`fedfleet tune` answers with the best values and a page, and says in one sentence what is wrong."""

import json

import pytest

from tests.app.specs import TINY, refused, written

TUNE = """
[tune]
trials = 2
[tune.space]
"algorithm.lr" = { low = 0.05, high = 1.0, log = true }
"""


def test_tune_answers_by_the_contract_and_goes_on(fedfleet, tmp_path):
    spec = written(tmp_path, TINY.replace("rounds = 6", "rounds = 2") + TUNE)
    code, out, _ = fedfleet("tune", spec, "--out", tmp_path / "out", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["trials"] == 2 and {*answer["best"]} == {"algorithm.lr"}
    assert answer["value"] >= answer["default_value"] and {"pruned", "rounds_saved"} <= answer.keys()
    assert "fedfleet search" in (tmp_path / "out/report.html").read_text().lower()
    code, out, err = fedfleet("tune", spec, "--out", tmp_path / "out", "--trials", 3)
    assert code == 0 and "best: algorithm.lr" in out and "trial 2" in err and "trial 1" not in err
    code, out, _ = fedfleet("report", tmp_path / "out", "--json")
    assert code == 0 and json.loads(out)["trials"] == 3
    refused(fedfleet("tune", spec, "stop.rounds=3", "--out", tmp_path / "out"), "another space", "--out")


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("", [], "nothing to search for"),
        (TUNE.replace("lr", "lrr"), [], "did you mean 'lr'"),
        (TUNE, ["--trials", 0], "--trials = 0"),
        (TUNE, ["--sampler", "tp"], "did you mean 'tpe'"),
        (TUNE, ["--sampler", "grid"], "a grid needs to know"),
        (TUNE, ["--pruner", "no"], "did you mean 'none'"),
        (TUNE, ["--space", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_what_cannot_be_is_refused(fedfleet, tmp_path, text, words, said):
    refused(fedfleet("tune", written(tmp_path, TINY + text), "--out", tmp_path / "out", *words), said)
    assert not (tmp_path / "out").exists()


def test_a_search_that_finds_nothing_has_failed(fedfleet, tmp_path):
    spec = written(tmp_path, TINY + TUNE)
    words = ["pace.use=deadline", "pace.cohort=4", "pace.seconds=0.001", "stop.rounds=1"]
    code, out, _ = fedfleet("tune", spec, *words, "--out", tmp_path / "out", "--trials", 1)
    assert code == 1 and "none of 1 trials ended: no model was made" in out
