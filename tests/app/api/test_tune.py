"""`fedfleet.tune` is `fedfleet tune`: the same trials to the last digit; own models too; mistakes in one sentence."""

import json

import numpy as np
import pytest
import torch

import fedfleet as package
from tests.app.specs import TINY, refused, written

pytestmark = pytest.mark.slow

SPACE = {"algorithm.lr": {"low": 0.05, "high": 1.0, "log": True}}
TUNE = '\n[tune]\ntrials = 2\n[tune.space]\n"algorithm.lr" = { low = 0.05, high = 1.0, log = true }\n'
OWN = {"seed": 2, "world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 1}}
X = np.random.default_rng(0).normal(size=(120, 4))
Y = (X.sum(1) > 0).astype(int)


def placeless(told):
    return {key: value for key, value in told.items() if key not in ("out", "page")}


def test_the_call_and_the_verb_find_the_same(fedfleet, tmp_path):
    spec = written(tmp_path, TINY.replace("rounds = 6", "rounds = 1") + TUNE)
    heard = []
    result = package.tune(str(spec), out=str(tmp_path / "call"), on_trial=heard.append)
    _, out, _ = fedfleet("tune", spec, "--out", tmp_path / "verb", "--json")
    assert placeless(json.loads(out)) == placeless(json.loads(json.dumps(result.answer())))
    assert (tmp_path / "call/tune.json").read_bytes() == (tmp_path / "verb/tune.json").read_bytes()
    digests = [
        {package.load(tmp_path / by / "trials" / str(row.trial)).metrics["digest"] for row in result.rows}
        for by in ("call", "verb")
    ]
    assert digests[0] == digests[1] and len(digests[0]) == 2
    assert heard == result.rows and result.page == tmp_path / "call/report.html" and result.page.is_file()
    assert result.best == dict(result.winner.values) and result.value == max(row.value for row in result.rows)
    assert repr(result).startswith("Tuned(algorithm.lr = ") and str(result).startswith("best: algorithm.lr = ")
    assert str(heard[0]) == f"trial 0 finished: {heard[0].said}" and heard[0].said.endswith(" %")


def test_an_own_model_is_searched_and_goes_on(tmp_path):
    given = {
        "space": {"algorithm.lr": (0.01, 0.5)},
        "sampler": "grid",
        "model": torch.nn.Linear(4, 2),
        "out": tmp_path / "out",
    }

    def broken(row):
        raise ValueError("no")

    with pytest.warns(UserWarning, match=r"on_trial: broken failed at trial 0 \(ValueError: no\); it is not called again") as said:
        result = package.tune(OWN, **given, data=(X, Y), trials=np.int64(2), on_trial=broken)
    assert len(result.rows) == 2 and len([one for one in said if "on_trial" in str(one.message)]) == 1
    assert len(list((tmp_path / "out").glob("data-*.npz"))) == 1 and not list(tmp_path.glob("out/trials/*/own/data*"))
    assert package.tune(OWN, **given, data=(X, Y), trials=2) == result
    alone = package.run(tmp_path / "out/best.toml", model=given["model"], data=(X, Y))
    assert alone.metrics["accuracy"] == result.value
    assert f"fedfleet.run('{tmp_path / 'out'}/best.toml', model=.., data=..)" in str(result)
    with pytest.raises(package.BadInput, match=r"different settings \(of the spec, of the data, or .*initial weights.*manual_seed"):
        package.tune(OWN, **given, data=(X + 1, Y), trials=2)
    assert package.report(result).kind == "search"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"space": None}, "nothing to search for"),
        ({"space": 5}, "--space = 5"),
        ({"space": "none.toml"}, "none.toml"),
        ({"space": {"algorithm.lrr": [0.1]}}, "did you mean 'lr'"),
        ({"space": {"algorithm.lr": 0.1}}, "write a list of values, or limits"),
        ({"space": {"space": SPACE, "metric": "accurcy"}}, "did you mean 'accuracy'"),
        ({"trials": 0}, "--trials = 0"),
        ({"trials": "3"}, "--trials = '3'"),
        ({"sampler": "tp"}, "did you mean 'tpe'"),
        ({"workers": 0}, "workers = 0"),
        ({"on_trial": 3}, "on_trial: 3 is not a function"),
        ({"out": ""}, "out = ''"),
        ({"model": torch.nn.Linear(4, 2)}, "to tune your own model, give both"),
        ({"model": torch.nn.Linear(4, 2), "data": (X, Y), "workers": 2}, "only in this process"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, asked, says):
    with pytest.raises(package.BadInput, match=says) as caught:
        package.tune(OWN, **{"space": SPACE, "out": tmp_path / "out", **asked})
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


TUNE_FILE = """
[tune]
trials = 2
[tune.space]
"algorithm.lr" = { low = 0.05, high = 1.0, log = true }
"""


def test_tune_answers_by_the_contract_and_goes_on(fedfleet, tmp_path):
    spec = written(tmp_path, TINY.replace("rounds = 6", "rounds = 2") + TUNE_FILE)
    code, out, _ = fedfleet("tune", spec, "--out", tmp_path / "out", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["trials"] == 2 and {*answer["best"]} == {"algorithm.lr"}
    assert answer["value"] >= answer["default_value"] and {"pruned", "rounds_saved"} <= answer.keys()
    assert "fedfleet search" in (tmp_path / "out/report.html").read_text().lower()
    code, out, err = fedfleet("tune", spec, "--out", tmp_path / "out", "--trials", 3)
    assert code == 0 and "best: algorithm.lr" in out and "trial 2" in err and "trial 1" not in err
    code, out, _ = fedfleet("report", tmp_path / "out", "--json")
    assert code == 0 and json.loads(out)["trials"] == 3
    refused(fedfleet("tune", spec, "stop.rounds=3", "--out", tmp_path / "out"), "different settings", "--out")


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("", [], "nothing to search for"),
        (TUNE_FILE.replace("lr", "lrr"), [], "did you mean 'lr'"),
        (TUNE_FILE, ["--trials", 0], "--trials = 0"),
        (TUNE_FILE, ["--sampler", "tp"], "did you mean 'tpe'"),
        (TUNE_FILE, ["--sampler", "grid"], "a grid needs to know"),
        (TUNE_FILE, ["--pruner", "no"], "did you mean 'none'"),
        (TUNE_FILE, ["--space", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_what_cannot_be_is_refused(fedfleet, tmp_path, text, words, said):
    refused(fedfleet("tune", written(tmp_path, TINY + text), "--out", tmp_path / "out", *words), said)
    assert not (tmp_path / "out").exists()


def test_a_search_that_finds_nothing_has_failed(fedfleet, tmp_path):
    spec = written(tmp_path, TINY + TUNE_FILE)
    words = ["pace.use=deadline", "pace.cohort=4", "pace.seconds=0.001", "stop.rounds=1"]
    code, out, _ = fedfleet("tune", spec, *words, "--out", tmp_path / "out", "--trials", 1)
    assert code == 1 and "none of 1 trials ended: no model was made" in out
