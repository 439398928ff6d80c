"""What newcomers type: options, verbs, keys and files of other tools. Each is answered by one sentence that says what to write."""

import shutil

import pytest

from fedfleet.app.cli.usage_hints import typed_value, verb_hint
from fedfleet.app.cli.verbs import VERBS
from tests.app.specs import refused, written

pytestmark = pytest.mark.slow

STUDY = """
seeds = 2
baseline = "a"
base.stop.rounds = 2
[[runs]]
name = "a"
[[runs]]
name = "b"
algorithm.lr = 0.5
"""
# What is typed, and the facts that the answer has. one is the folder of a run, taken another folder with a file in it.
MISTAKES = [
    # options of other tools
    ("run spec.toml --lr 0.1", ["algorithm.lr=0.1"]),
    ("run spec.toml --learning-rate=0.1", ["algorithm.lr=0.1"]),
    ("run spec.toml --epochs 5", ["algorithm.epochs=5"]),
    ("run spec.toml --num-rounds 10", ["stop.rounds=10"]),
    ("run spec.toml --batch-size 32", ["algorithm.batch=32"]),
    ("run spec.toml --clients 50", ["world.clients=50"]),
    ("run spec.toml --fraction-fit 0.1", ["pace.cohort=NUMBER"]),
    ("run spec.toml --seed 3", ["seed=3"]),
    ("run spec.toml --dataset cifar10", ["task.use=cifar10", "fedfleet list tasks"]),
    ("run spec.toml --model resnet18", ["--model", "task.use=", "fedfleet list tasks"]),
    ("run spec.toml --strategy fedprox", ["algorithm.use=fedprox", "fedfleet list algorithms"]),
    ("run spec.toml --gpus 1", ["run.device=cuda"]),
    ("run spec.toml --alpha 0.1", ["world.data.alpha=0.1 or world.states.alpha=0.1"]),
    ("run --config x.yaml", ["fedfleet run x.toml", "TOML"]),
    ("run spec.toml --output-dir there", ["--out there"]),
    ("serve spec.toml --port 5000", ["--address 127.0.0.1:5000"]),
    # keys and values
    ("run spec.toml lr=0.1", ["'lr'", "algorithm.lr=0.1"]),
    ("run spec.toml algorithm.clients=10", ["'clients'", "world.clients=10"]),
    ("run spec.toml pace.rounds=3", ["'rounds'", "stop.rounds=3"]),
    ("run spec.toml algorithm.mu=0.1", ["'mu'", "fedprox", "algorithm.use"]),
    ("run spec.toml algorithm=fedavgg", ["'fedavgg'", "'fedavg'"]),
    ("run spec.toml algorithm.lr=fast", ["algorithm.lr", "'fast'", "number"]),
    ("run spec.toml algorithm.lr=inf", ["algorithm.lr", "at most"]),
    ("run spec.toml world.clients=1e12", ["world.clients", "integer", "exponent"]),
    ("run spec.toml algorithm.lr = 0.1", ["algorithm.lr=0.1", "without spaces"]),
    # files and folders
    ("run x.yaml", ["x.yaml", "YAML", "TOML", "x.toml"]),
    ("run spec.tml", ["did you mean spec.toml"]),
    ("run study.toml", ["fedfleet study"]),
    ("study spec.toml", ["fedfleet run"]),
    ("run spec.toml --out taken", ["taken", "--out"]),
    ("run spec.toml --resume --out nowhere", ["--resume", "nowhere"]),
    ("replay taken", ["taken", "folder of a run"]),
    ("predict one", ["one/spec.toml"]),
    # verbs
    ("train spec.toml", ["fedfleet run SPEC"]),
    ("list methods", ["fedfleet list algorithms"]),
    ("status --server localhost", ["localhost", "HOST:PORT"]),
]


@pytest.fixture
def here(tmp_path, monkeypatch, tiny_run):
    """A folder with a spec, a study, a file in YAML, the folder of a run, and one that is something else."""
    written(tmp_path)
    written(tmp_path, STUDY, "study.toml")
    written(tmp_path, "clients: 50\nlr: 0.1\n", "x.yaml")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").touch()
    (tmp_path / "one").symlink_to(tiny_run.out, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_thirty_six():
    assert len(MISTAKES) == len({words for words, _ in MISTAKES}) == 36


@pytest.mark.parametrize(("words", "facts"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_on_the_command_line_is_one_sentence(fedfleet, here, words, facts):
    before = sorted(path.name for path in here.iterdir())
    answer = fedfleet(*words.split())
    refused(answer, *facts)
    assert answer[2].count("fedfleet: ") == 1 and answer[2].count(". ") <= 1
    assert sorted(path.name for path in here.iterdir()) == before, "nothing was begun"


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("measure", ["fedfleet measure spec.toml", "--devices"]),
        ("run", ["spec", "--data"]),
        ("compare one", ["at least two runs"]),
        ("report taken", ["taken", "folder of a run"]),
        ("run x.json", ["JSON", "TOML"]),
        ("list optimizers", ["algorithms"]),
        ("compare", ["fedfleet compare"]),
        ("help", ["fedfleet --help"]),
        ("--version", ["fedfleet version"]),
        ("run spec.toml algorithm.lr:0.1", ["algorithm.lr=0.1"]),
        ("run spec.toml algorithm.lr=nan", ["algorithm.lr", "not a number"]),
        ("run fedavg", ["algorithm.use=fedavg"]),
        ("serve spec.toml --address 127.0.0.1:99999", ["HOST:PORT"]),
        ("study sever", ["did you mean severe", "mild, middle, severe"]),
        ("study severe --scale quick", ["leave --scale out"]),
        ("study severe --data spec.toml --target activity", ["did you mean --label activity"]),
        ("run --data spec.toml --user person", ["did you mean --owner person"]),
        ("run spec.toml --target 0.9", ["stop.target_accuracy=0.9"]),
        ("run spec.toml algorithm.lr=0,1", ["algorithm.lr", "decimal point: 0.1"]),
        ("run spec.toml stop.target=90", ["stop.target", "accuracy >= 0.9"]),
        ("serve spec.toml --certificate key.pem --key cert.pem", ["swap them", "--certificate cert.pem --key key.pem"]),
        ("device --token-file tok.txt", ["no file tok.txt", "fedfleet token"]),
        ("device --patience 0 --server 127.0.0.1:1 --store taken", ["no server", "fedfleet serve"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_and_so_are_others(fedfleet, here, words, facts):
    shutil.copy(here / "x.yaml", here / "x.json")
    written(here, "-----BEGIN PRIVATE KEY-----\n", "key.pem")
    written(here, "-----BEGIN CERTIFICATE-----\n", "cert.pem")
    refused(fedfleet(*words.split()), *facts)


def test_a_port_that_is_taken_is_named(fedfleet, here):
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        refused(fedfleet("serve", "spec.toml", "--address", address), address)
    assert not (here / "runs").exists()


def test_verbs_that_exist_have_no_hint():
    assert not any(verb_hint([verb], VERBS) for verb in VERBS)
    assert not verb_hint(["qwertz"], VERBS) and not verb_hint([], VERBS)


def test_the_value_of_an_option_is_what_follows_it():
    assert typed_value("--lr", ["run", "--lr"]) == typed_value("--lr", ["run", "--lr", "--out", "x"]) == "VALUE"
