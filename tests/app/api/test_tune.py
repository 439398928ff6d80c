"""`fedfleet.tune` is `fedfleet tune`: the same trials to the last digit; own models too; mistakes in one sentence."""

import json

import numpy as np
import pytest
import torch

import fedfleet as package
from tests.app.specs import TINY, written

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

    with pytest.warns(
        UserWarning, match=r"on_trial: broken failed at trial 0 \(ValueError: no\); it is not called again"
    ) as said:
        result = package.tune(OWN, **given, data=(X, Y), trials=np.int64(2), on_trial=broken)
    assert len(result.rows) == 2 and len([one for one in said if "on_trial" in str(one.message)]) == 1
    assert len(list((tmp_path / "out").glob("data-*.npz"))) == 1 and not list(tmp_path.glob("out/trials/*/own/data*"))
    assert package.tune(OWN, **given, data=(X, Y), trials=2) == result
    alone = package.run(tmp_path / "out/best.toml", model=given["model"], data=(X, Y))
    assert alone.metrics["accuracy"] == result.value
    assert f"fedfleet.run('{tmp_path / 'out'}/best.toml', model=.., data=..)" in str(result)
    with pytest.raises(
        package.BadInput, match=r"another space \(of the spec, of the data, or .*first weights.*manual_seed"
    ):
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
        ({"model": torch.nn.Linear(4, 2)}, "give both model and data to tune"),
        ({"model": torch.nn.Linear(4, 2), "data": (X, Y), "workers": 2}, "lives in this process"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, asked, says):
    with pytest.raises(package.BadInput, match=says) as caught:
        package.tune(OWN, **{"space": SPACE, "out": tmp_path / "out", **asked})
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()
