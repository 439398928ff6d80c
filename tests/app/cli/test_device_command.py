"""The command of small devices: the options of `fedfleet device`, made by argparse."""

import json

import pytest

from fedfleet.app.api.device import device
from fedfleet.app.cli import device_command
from fedfleet.app.cli.call_parameters import flags_of, read_call
from fedfleet.app.cli.verb_records import Verb
from fedfleet.app.cli.verbs import VERBS
from fedfleet.app.terminal.answers import Answer
from fedfleet.core.errors import RunFailed
from fedfleet.core.limits import Count

VERB = VERBS["device"]


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["fedfleet-device", *words])
    with pytest.raises(SystemExit) as ended:
        device_command.main()
    return ended.value.code or 0, *capsys.readouterr()


def example(*, count: Count = 3, share: float | None = None, fast: bool = False, engine: str = "torch") -> Answer:
    """Do it.

    Args:
        count: how many.
    """
    return Answer({"count": count, "share": share, "fast": fast, "engine": engine}, "done")


@pytest.fixture
def answers(capsys):
    verb = Verb(f"{__name__}:example")

    def answer(*words):
        assert device_command.run_verb("test", verb, [*words, "--json"], {"engine": "numpy"}) == 0
        return json.loads(capsys.readouterr().out)

    return answer


def test_its_options_are_those_of_the_verb(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "--help")
    assert code == 0 and all(f"{flag} " in out for flag in flags_of(read_call(device), VERB.options).values())
    assert "[default: numpy]" in out and "--server HOST:PORT" in out and "--max-steps INT" in out


def test_values_reach_the_call_and_what_is_left_out_takes_its_default(answers):
    assert answers() == {"count": 3, "share": None, "fast": False, "engine": "numpy"}
    assert answers("--count", "5", "--share", "0.5", "--fast", "--engine", "torch") == {
        "count": 5, "share": 0.5, "fast": True, "engine": "torch",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--client=-1",), "--client: -1 must be at least 0 and at most 100000000. See: fedfleet-device --help"),
        (("--max-steps", "many"), "--max-steps: 'many' is not a whole number"),
        (("--patience", "nan"), "--patience: nan must be at least 0"),
        (("--bogus",), "unrecognized arguments: --bogus. See: fedfleet-device --help"),
        (("--eng", "numpy"), "unrecognized arguments: --eng"),
        (("--engine", "tor"), "--engine 'tor' is not known; did you mean 'torch'?"),
        (("--token-file", "absent"), "--token-file: there is no file absent"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(monkeypatch, capsys, words, says):
    code, out, err = run(monkeypatch, capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("fedfleet: ") and says in err


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (RunFailed("it broke"), 1, "it broke"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ModuleNotFoundError(name="grpc"), 2, "gRPC is not installed; give the URL"),
        (ModuleNotFoundError(name="fedfleet.executors.inline"), 2, "which fedfleet-device leaves out; install all of FedFleet"),
        (ModuleNotFoundError(name="pyarrow.csv"), 2, "needs pyarrow, which is not installed"),
        (OSError(28, "No space left on device", "store"), 1, "store: No space left on device"),
    ],
)
def test_failures_have_exit_codes(monkeypatch, capsys, raised, code, says):
    def fail(*_):
        raise raised

    monkeypatch.setattr(device_command, "run_verb", fail)
    ended, out, err = run(monkeypatch, capsys)
    assert (ended, out) == (code, "") and says in err
