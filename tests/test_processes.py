"""A forked process is as one of `python -m`: words, surroundings, output, signals and end are its own; the test is its parent."""

import os
import signal
import subprocess
import sys

import pytest

from tests.processes import start

pytestmark = pytest.mark.slow


def test_it_answers_as_a_real_one_does(tmp_path):
    words = ["list", "policies", "--json"]
    real = subprocess.run([sys.executable, "-m", "fedfleet.app.cli.main", *words], capture_output=True, text=True, cwd=tmp_path)
    ours = start("fedfleet.app.cli.main", *words, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert (ours.communicate(timeout=60)[0], ours.returncode) == (real.stdout, real.returncode)


def test_a_refusal_has_its_code_and_its_words(tmp_path):
    with (tmp_path / "err").open("wb") as err:
        assert start("fedfleet.app.cli.main", "run", "none.toml", stderr=err, cwd=tmp_path).wait(60) == 2
    assert "none.toml" in (tmp_path / "err").read_text()


def test_it_is_a_child_of_the_test_in_its_folder_with_its_environment_and_is_ended_by_its_number(tmp_path):
    (tmp_path / "one.py").write_text(
        "import os, time; print(os.getppid(), os.getcwd(), os.environ['A'], flush=True); time.sleep(60)"
    )
    made = start("one", env={"A": "b", "PYTHONPATH": str(tmp_path)}, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert made.stdout.readline().split() == [str(os.getpid()), str(tmp_path), "b"]
    assert made.poll() is None
    made.send_signal(signal.SIGTERM)
    assert made.wait(60) == -signal.SIGTERM
    made.stdout.close()
