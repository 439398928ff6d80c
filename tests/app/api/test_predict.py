"""`fedfleet.predict` is `fedfleet predict`: the same numbers, the same page, the same refusals; own models too."""

import json

import numpy as np
import pytest
import torch

import fedfleet as package
from tests.app.specs import TINY, refused, written

pytestmark = pytest.mark.slow

OWN = {"seed": 2, "world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 3}}
X = np.random.default_rng(0).normal(size=(120, 4))
Y = (X.sum(1) > 0).astype(int)


class Net(torch.nn.Module):
    """A line whose slope may be bent, which its weights do not tell."""

    bent = False

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.line(torch.sin(9 * x) if self.bent else x)


class Bent(Net):
    bent = True


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where reference runs of these tests are kept."""
    return tmp_path_factory.mktemp("reference")


def timeless(told):
    return {key: value for key, value in told.items() if key not in ("seconds", "reference")}


def test_the_call_and_the_verb_say_the_same(fedfleet, tmp_path, cache, capsys):
    spec, page = written(tmp_path), tmp_path / "call.html"
    result = package.predict(spec, "stop.rounds=4", cache=str(cache), page=str(page))
    capsys.readouterr()
    _, out, _ = fedfleet("predict", spec, "stop.rounds=4", "--cache", cache, "--out", tmp_path / "verb.html", "--json")
    told = json.loads(out)
    assert timeless(told) == timeless(result.answer())
    assert (result.accuracy.value, result.commits.value) == (told["accuracy"]["value"], 4.0) and result.page == page
    assert result.curve["accuracy"].tolist() == told["curve"]["accuracy"] and result.band == told["band"]
    drawn = [(tmp_path / name).read_text().partition("Limitations")[0] for name in ("call.html", "verb.html")]
    assert drawn[0] == drawn[1] and "before it is trained" in drawn[0]


def test_a_sweep_by_word_is_one_by_table_and_by_the_verb(fedfleet, tmp_path, cache, capsys):
    spec = written(tmp_path)
    result = package.predict(spec, sweep={"pace.cohort": np.arange(2, 4)}, cache=cache)
    assert result.rows == package.predict(spec, sweep="pace.cohort=2,3", cache=cache).rows
    capsys.readouterr()
    _, out, _ = fedfleet("predict", spec, "--sweep", "pace.cohort=2..3", "--cache", cache, "--json")
    assert json.loads(out)["rows"] == result.rows and result.sentence in str(result)


def test_an_own_model_is_foretold_by_its_own_reference_runs(cache, capsys):
    given = {"data": (X, Y), "cache": cache}
    first = package.predict(OWN, model=Net, **given)
    assert package.predict(OWN, model=Net, **given).answer()["reference"]["kept"]
    other = package.predict(OWN, model=Bent, **given)
    assert not other.answer()["reference"]["kept"], "equal first weights, another model"
    assert other.ideal_accuracy < first.ideal_accuracy and first.commits.value == 3.0
    capsys.readouterr()
    bent = Bent()
    bent.bent = False  # which no text tells
    package.predict(OWN, model=lambda: bent, **given)
    assert "are not kept" in capsys.readouterr().err
    swept = package.predict(OWN, model=Net, **given, sweep="stop.rounds=2,3")
    assert [row["commits"] for row in swept.rows] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("spec", "more", "says"),
    [
        (5, {}, "of type 'int' is not a spec"),
        ("none.toml", {}, "there is no spec file none.toml"),
        ({"pase": {}}, {}, "did you mean 'pace'"),
        (OWN, {"sweep": 3}, "sweep = 3"),
        (OWN, {"sweep": {"pace.cohort": 3}}, "one key with 1 to 100 numbers"),
        (OWN, {"sweep": {"a": [1], "b": [2]}}, "one key with"),
        (OWN, {"sweep": {"choose.use": ["oort"]}}, "'oort' is not a number"),
        (OWN, {"page": "nowhere/page.html"}, "page: cannot write"),
        (OWN, {"cache": 3}, "cache = 3: give a path"),
        (OWN, {"model": Net}, "to predict your own model, give both"),
        ({"task": "digits_logreg"}, {"model": Net, "data": (X, Y)}, "the spec names a task"),
    ],
)
def test_mistakes_are_one_sentence(spec, more, says):
    with pytest.raises(package.BadInput, match=says) as caught:
        package.predict(spec, **more)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def verb_cache(tmp_path_factory):
    """Where reference runs of these tests are kept."""
    return tmp_path_factory.mktemp("reference")


def test_a_program_gets_one_object_and_a_person_a_page(fedfleet, tmp_path, verb_cache):
    spec, page = written(tmp_path), tmp_path / "page.html"
    code, out, err = fedfleet("predict", spec, "--cache", verb_cache, "--json")
    got = json.loads(out)
    assert code == 0 and "three reference runs" in err
    assert {
        "accuracy",
        "commits",
        "failed_rounds",
        "virtual_seconds",
        "curve",
        "clock",
        "left_out",
        "notes",
    } <= got.keys()
    code, out, err = fedfleet("predict", spec, "--cache", verb_cache, "--out", page)
    assert code == 0 and err == "" and "(cached)" in out and "limitation: " in out
    assert "before it is trained" in page.read_text()


def test_a_sweep_is_a_table_and_a_sentence(fedfleet, tmp_path, verb_cache):
    spec, page = written(tmp_path), tmp_path / "page.html"
    code, out, _ = fedfleet("predict", spec, "--cache", verb_cache, "--sweep", "pace.cohort=2..4", "--out", page)
    assert code == 0 and out.splitlines()[0].split()[0] == "pace.cohort" and len(out.splitlines()) == 6
    assert "pace.cohort" in page.read_text()
    code, out, _ = fedfleet("predict", spec, "pace.cohort=4", "--cache", verb_cache, "--sweep", "stop.rounds=3,6", "--json")
    assert code == 0 and [row["value"] for row in json.loads(out)["rows"]] == [3, 6]


def test_bad_input_is_one_sentence(fedfleet, tmp_path, verb_cache):
    spec = written(tmp_path)
    refused(fedfleet("predict", tmp_path / "none.toml"), "there is no spec file")
    refused(fedfleet("predict", spec, "pace.cohrt=3"), "did you mean 'cohort'")
    refused(fedfleet("predict", spec, "--sweep", "pace.cohort"), "write KEY=FROM..TO")
    refused(fedfleet("predict", spec, "--out", tmp_path / "no" / "page.html"), "--out")
    pooled = written(tmp_path, TINY + '[algorithm]\nuse = "centralized"\n', "pooled.toml")
    refused(fedfleet("predict", pooled, "--cache", verb_cache), "trains in one place")
