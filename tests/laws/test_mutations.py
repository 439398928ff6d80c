"""What people may write by mistake: a sample of the random mutations of `make soak`, and those that once broke something."""

import json

import pytest

from tests.app.specs import TINY, fleet, refused, written
from tests.mutations.commands import Case, make_case, options
from tests.mutations.running import called_here, complaint, finished_run, stopped_apart

pytestmark = pytest.mark.slow

SAMPLE = range(3000, 3060)


@pytest.fixture
def fedfleet(tmp_path, monkeypatch):
    """Call the command in a folder of its own: (exit code, standard output, standard error)."""
    fleet(tmp_path)
    written(tmp_path, TINY)

    def call(*words):
        result = called_here(Case([str(w) for w in words], 0), tmp_path, limit=30.0)
        return result.code, result.out, result.err

    return call


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # as at the command line, where they end nothing
def test_a_sample_of_mutations_runs_or_is_refused_in_one_sentence(tmp_path):
    finished = finished_run(tmp_path)
    for number in SAMPLE:
        case, folder = make_case(6, number, tmp_path, finished)
        if case.words[0] not in ("serve", "device", "demo", "bench", "profile"):
            answer = called_here(case, folder, limit=2.0)
            assert complaint(answer, folder) is None, (case.words, complaint(answer, folder))


def test_every_verb_is_mutated():
    assert {"run", "measure", "sample devices", "sample states", "shuffle", "serve", "list"} <= set(options())
    assert options()["measure"]["--until-se"] == "float" and options()["run"]["--out"] == "path"


@pytest.mark.parametrize(
    ("word", "mentions"),
    [
        (f"seed={2**127}", "seed"),
        (f"seed={2**63}", "seed"),
        ('pace={ use = "overcommit", policy = "readiness", factor = inf }', "pace.factor"),
        ("algorithm.bound=inf", "algorithm.bound"),
        ("algorithm.bound=1e308", "algorithm.bound"),
        ('world.devices={ use = "dpgmm", alpha = inf }', "world.devices.alpha"),
        ('world.devices={ use = "dpgmm", alpha = 5e-324 }', "world.devices.alpha"),
        ('world.devices={ use = "dpgmm", kinds = 1000000000 }', "world.devices.kinds"),
        ('world.devices={ use = "mobile", devices = "spread", period = 1e-308 }', "world.devices.period"),
        ("world.clients=100000000", "100,000,000 clients would take about"),
        ("world.clients=1000000000000", "world.clients"),
        ('world.states={ use = "daily", sessions = 1000000 }', "world.states.sessions"),
        ('world.data={ use = "by_label", labels = 2000000000 }', "2000000000 labels"),
        ('task={ use = "digits_mlp", hidden = 1000000000 }', "task.hidden"),
        ('task={ use = "mlp", hidden = 1000000, synthetic = true }', "GB of memory"),
        ('task={ use = "digits_cnn", channels = 1000000 }', "GB of memory"),
        ('task={ use = "mlp", samples = 2000000000, synthetic = true }', "GB of memory"),
        ("algorithm.batch=10000000000", "algorithm.batch"),
        ("algorithm.epochs=2000000000", "algorithm.epochs"),
        ("algorithm.steps=2000000000", "algorithm.steps"),
        ("run.threads=100000", "run.threads"),
        ("run.threads=1000", "processors"),
        ("run.device=cuda", 'run.device = "cuda"'),
        ("world.model_bytes=1e308", "world.model_bytes"),
        ("world.model_bytes=inf", "world.model_bytes"),
        ("stop.virtual_seconds=1e13", "stop.virtual_seconds"),
        (f"seed=0x{'f' * 5000}", "a value too long to print"),
        ("world.devices=[1]", "world.devices: [1] is not a table"),
    ],
)
def test_absurd_settings_are_refused(fedfleet, word, mentions):
    refused(fedfleet("run", "spec.toml", word, "--out", "out"), mentions)


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        ("measure --devices devices.json --samples inf", "--samples inf"),
        ("measure --devices devices.json --until-se nan", "--until-se nan"),
        ("measure --devices devices.json --model-bytes 1e308", "--model-bytes"),
        ("measure --devices devices.json --picture none/p.html", "--picture"),
        ("measure --devices devices.json --clients-k 99999999999", "--clients-k"),
        ("sample devices --sigma inf", "--sigma inf"),
        ("sample devices --sigma -0.1", "--sigma"),
        (f"sample devices --seed {2**127}", "--seed"),
        ("sample devices --clients 100000000000", "--clients"),
        ("sample devices --out none/d.json", "--out"),
        ("sample devices --out none/d.npz", "--out"),
        ("sample states --picture none/p.html", "--picture"),
        ("sample states --alpha inf", "--alpha inf"),
        ("shuffle none.json --limit nan", "--limit"),
        ("list", "algorithms, selectors, policies"),
        ("list planets", "algorithms, "),
        ("list policy", "did you mean 'policies'? The kinds are algorithms, "),
        ("run spec.toml --resume", "--resume: there is no folder runs/"),
        ("run spec.toml --resume --out typo", "--resume: there is no folder typo"),
        ("run spec.toml --out spec.toml", "spec.toml is a file; name a folder"),
        ("run spec.toml --resume --out spec.toml", "spec.toml is a file; name a folder"),
        (f"run spec.toml --out {'y' * 5000}", "File name too long"),
    ],
)
def test_absurd_options_are_refused(fedfleet, words, mentions):
    refused(fedfleet(*words.split()), mentions)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([[10**9, 0], [0, 1]], "1,000,000,001 samples are more than one user's 10,000,000"),
        ([[1] * 4000] * 60, "60 devices with 4000 classes"),
    ],
)
def test_more_samples_than_anybody_has_are_not_exchanged(fedfleet, tmp_path, counts, says):
    devices = len(counts)
    many = {
        "counts": counts, "seconds_per_sample": [0.1] * devices, "up_bps": [1e6] * devices, "down_bps": [1e6] * devices,
        "bits_per_sample": 8e3, "alpha": "auto",
    }  # fmt: skip
    (tmp_path / "many.json").write_text(json.dumps(many))
    refused(fedfleet("shuffle", "many.json", "--quick", "--json"), says)


def test_minus_zero_is_zero(fedfleet):
    assert fedfleet("sample", "devices", "--sigma", "-0.0", "--clients", 5)[0] == 0


# What takes long, and must hear Ctrl-C all the same.
LONG = {
    "measure": "measure --devices devices.json --states states.json --rounds 2000000000 --only StatMC-R",
    "measure, waiting": "measure --states states.json --trips 2000000000 --only StatMC-T",
    "measure, its picture": "measure --devices devices.json --rounds 2000000000 --only DevMC-T --trips 10 --picture p.html",
    "sample": "sample states --base states.json --clients 3000000 --semantics released",
    "sample, scores": "sample states --base states.json --rounds 2000000000",
    "shuffle": "shuffle large.json",
    "bench": "bench train --cohort 2000 --steps 100000 --task digits_logreg",
    "demo": "demo",
    "run": "run spec.toml stop.rounds=2000000000",
    "serve": "serve spec.toml --address 127.0.0.1:0",
}


@pytest.mark.parametrize("name", LONG)
def test_what_takes_long_can_be_interrupted(fedfleet, tmp_path, name):
    large = {"counts": [[i * j % 90 for i in range(12)] for j in range(20)], "bits_per_sample": 8e3, "alpha": "auto"}
    rates = {key: [1.0 + i for i in range(20)] for key in ("seconds_per_sample", "up_bps", "down_bps")}
    (tmp_path / "large.json").write_text(json.dumps({**large, **rates}))
    case = Case(LONG[name].split(), 0)
    # A server minds its signals itself and the demo has workers, so that each needs a process of its own, and time to begin.
    if name == "serve":
        result = stopped_apart(case, tmp_path, lambda said: "listening on" in said)
    elif name == "demo":
        result = stopped_apart(case, tmp_path, lambda said: any(tmp_path.rglob("run.db")))
    else:
        result = called_here(case, tmp_path, limit=0.7)
    says = "stopped by SIGINT" if name == "serve" else "interrupted"
    assert result.code == 130 and says in result.err, (result.code, result.err[-2000:])
