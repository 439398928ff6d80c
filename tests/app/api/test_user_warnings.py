"""What a script sees: refusals and warnings at its own line."""

import pickle
import subprocess
import sys
import warnings

import pytest

import fedfleet

SCRIPT = """import fedfleet

def train():
    fedfleet.run({"stop": {"rounds": 1}}, "algorithm.lr=-1")

train()
"""


@pytest.mark.slow
def test_a_refusal_in_a_script_ends_at_the_users_line(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines()
    assert lines[-1] == "fedfleet.BadInput: algorithm.lr = -1: must be greater than 0"
    assert done.stderr.count('File "') == 3, "two of the script, one of ours"
    traced = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False, env={"FEDFLEET_TRACE": "1"}
    )
    assert traced.stderr.count('File "') > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "says"),
    [("fedfleet.run({}, rounds=3)", "run(spec, 'stop.rounds=3')"), ("fedfleet.load('nowhere')", "no run folder nowhere")],
)
def test_so_does_one_of_a_wrong_call_and_of_a_wrong_folder(tmp_path, line, says):
    (tmp_path / "script.py").write_text(f"import fedfleet\n{line}\n")
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and says in done.stderr.strip().splitlines()[-1]
    assert done.stderr.count('File "') == 2, "one of the script, one of ours"


def test_names_are_the_same_object_and_say_who_they_are():
    assert fedfleet.run is fedfleet.run and fedfleet.run.__name__ == "run"
    back = pickle.loads(pickle.dumps(fedfleet.BadInput("a sentence")))
    assert type(back) is fedfleet.BadInput and str(back) == "a sentence"


def test_a_warning_points_at_the_script():
    spec = {
        "task": "digits_logreg",
        "world": {"clients": 4},
        "pace": {"cohort": 4},
        "algorithm": {"lr": 1e9},  # every report is refused
        "stop": {"rounds": 1},
    }
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fedfleet.run(spec)
    ours = [w for w in said if w.category is UserWarning]
    assert ours and {w.filename for w in ours} == {__file__}
