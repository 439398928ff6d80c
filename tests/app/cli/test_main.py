"""The entry point: exit codes, sentences for wrong words, and what gets loaded."""

import subprocess
import sys

import pytest

from fedfleet.app.cli.verbs import VERBS
from fedfleet.core.errors import RunFailed
from tests.app.specs import refused, written

pytestmark = pytest.mark.slow


def test_every_verb_has_help(fedfleet):
    code, out, _ = fedfleet("--help")
    assert code == 0
    assert all(f" {verb} " in out for verb in VERBS)
    for verb in VERBS:
        code, out, err = fedfleet(verb, "--help")
        assert (code, err) == (0, ""), verb
        assert f"fedfleet {verb}" in out
        assert fedfleet(verb, "-h")[1] == out


def test_words_that_mean_nothing_are_one_sentence(fedfleet):
    refused(fedfleet("runn", "spec.toml"), "Did you mean 'run'", "See: fedfleet --help")
    refused(fedfleet("sample", "device"), "Did you mean 'devices'", "See: fedfleet sample --help")
    refused(fedfleet("version", "--jsn"), "--json", "See: fedfleet version --help")
    refused(fedfleet("device", "--server", "nowhere"), "HOST:PORT")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--lr", "0.1"), "algorithm.lr=0.1"),
        (("--lr=0.1",), "algorithm.lr=0.1"),
        (("--mu", "0.1"), "algorithm.mu=0.1"),
        (("--alpha", "0.1"), "world.data.alpha=0.1"),
        (("seconds=9",), "pace.seconds"),
        (("--rounds", "10"), "stop.rounds=10"),
        (("--seed", "3"), "seed=3"),
        (("lr=0.1",), "algorithm.lr"),
        (("rounds=10",), "stop.rounds"),
        (("algorithm.lr=-1",), "algorithm.lr = -1: must be greater than 0"),
        (("world.clients=1e12",), "must be an integer"),
        (("world.clients=1000000000000",), "must be at most 100,000,000"),
        (("algorithm.attack.use=nan", "algorithm.attack.share=7.0"), "algorithm.attack.share = 7.0: must be at most 1"),
    ],
)
def test_a_key_of_the_spec_is_suggested_in_full(fedfleet, tmp_path, words, says):
    refused(fedfleet("run", written(tmp_path), *words), says)


def test_a_misspelt_file_hears_the_nearest(fedfleet, tmp_path):
    spec = written(tmp_path)
    refused(fedfleet("run", spec.with_name(spec.name[:-1])), f"did you mean {spec}")


def test_without_words_there_is_help_and_exit_code_2(fedfleet):
    for words in ((), ("sample",), ("bench",)):
        code, out, err = fedfleet(*words)
        assert code == 2
        assert "Usage: fedfleet" in out + err


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (RunFailed("the disk is full"), 1, "fedfleet: the disk is full"),
        (KeyboardInterrupt(), 130, "fedfleet: interrupted"),
        (
            ModuleNotFoundError(name="torch.nn"),
            2,
            "fedfleet: this command needs torch, which is not installed; install it with: pip install 'fedfleet[train]'",
        ),
    ],
)
def test_failures_have_exit_codes(fedfleet, monkeypatch, raised, code, says):
    def fail(result):
        raise raised

    monkeypatch.setattr("fedfleet.app.cli.commands.print_answer", fail)
    assert fedfleet("version") == (code, "", says + "\n")


@pytest.mark.parametrize("module", ["fedfleet.app.cli.main", "fedfleet"])
def test_the_command_is_this_entry_point(module):
    done = subprocess.run([sys.executable, "-m", module, "version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0]) == (0, "fedfleet")


LOADED = "import sys; heavy = [m for m in {heavy} if m in sys.modules]; print(heavy); sys.exit(bool(heavy))"


@pytest.mark.parametrize(
    ("setup", "heavy"),
    [
        ("import fedfleet", ("numpy", "torch", "numba", "scipy", "ray", "grpc", "pydantic", "typer")),
        ("from fedfleet.app.cli import main as cli", ("torch", "numba", "scipy", "ray", "grpc", "sklearn", "numpy")),
    ],
)
def test_what_an_import_loads(setup, heavy):
    code = f"{setup}; {LOADED.format(heavy=heavy)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("words", [["--help"], ["version"], ["list", "algorithms"], ["list", "tasks"], ["run", "BAD"]])
def test_light_verbs_load_nothing_heavy(words, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("[pace]\ncohrt = 3\n")
    words = [str(bad) if w == "BAD" else w for w in words]
    heavy = ("torch", "numba", "scipy", "ray", "grpc", "sklearn")
    heavy += ("numpy",) if words[0] in ("--help", "version") else ()
    code = (
        "import sys\nfrom fedfleet.app.cli import main as cli\n"
        f"sys.argv = ['fedfleet', *{words!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        f"loaded = [m for m in {heavy} if m in sys.modules]\nprint('LOADED', loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


def test_one_verb_loads_no_other():
    code = "import sys; sys.argv = ['fedfleet', 'version']; from fedfleet.app.cli import main as cli\n"
    code += "try: cli.main()\nexcept SystemExit: pass\nprint([m for m in sys.modules if m.startswith('fedfleet.app.api.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['fedfleet.app.api.parts']"
