"""The device in C, which follows the page on devices over HTTP, takes part in a real run and declines what it cannot do."""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from fedfleet.tasks.digits import digits_logreg

SOURCE = Path(__file__).parents[2] / "examples/device/board.c"
SPEC = """
seed = 7
task.use = "{task}"
world.clients = 2
pace = {{ use = "readiness", cohort = 2, t_break = 0.1 }}
stop.rounds = {rounds}
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc here"),
]


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    out = tmp_path_factory.mktemp("board") / "board"
    flags = ["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    subprocess.run(["gcc", *flags, "-o", out, SOURCE, "-lm"], check=True)
    return out


def free_ports():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@contextmanager
def server(folder, *, task="digits_mlp", rounds=5):
    """A served run for two devices, and the port of its HTTP door."""
    (folder / "spec.toml").write_text(SPEC.format(task=task, rounds=rounds))
    grpc, http = free_ports()
    call = ["serve", "spec.toml", "--out", "served", "--address", f"127.0.0.1:{grpc}", "--http", f"127.0.0.1:{http}"]
    words = [sys.executable, "-m", "fedfleet.app.cli.main", *call, "--devices", "2", "--evaluate", "devices"]
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            while "over HTTP" not in process.stderr.readline():
                assert process.poll() is None
            yield process, str(http)
        finally:
            process.kill()


@contextmanager
def started(board, port, folder, *words, leaks=True):
    """A board that calls at this port; it must not leak memory, unless it ends by a failure."""
    call = [board, "127.0.0.1", port, *words]
    checks = {**os.environ, "ASAN_OPTIONS": f"detect_leaks={int(leaks)}"}
    with subprocess.Popen(call, cwd=folder, env=checks, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_boards_train_a_run_one_with_samples_of_its_own(board, tmp_path):
    import fedfleet

    data = digits_logreg()(7).dataset
    np.savetxt(tmp_path / "own.csv", np.column_stack([data.x[:300].reshape(300, -1), data.y[:300]]), delimiter=",", fmt="%.6g")
    with (
        server(tmp_path) as (serving, port),
        started(board, port, tmp_path, "--state", "a", "--data", "own.csv") as first,
        started(board, port, tmp_path, "--state", "b") as second,
    ):
        for process in (first, second):
            out, err = process.communicate(timeout=120)
            assert (process.returncode, err) == (0, "") and out.count("SAFE") == 10 and out.endswith("over: rounds\n"), (out, err)
        assert serving.wait(120) == 0
    result = fedfleet.load(tmp_path / "served")
    assert result.metrics["commits"] == 5 and result.metrics["accuracy"] > 0.8
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0, "the secret is its owner's alone"


def test_a_board_declines_a_model_that_it_cannot_train_and_believes_a_refusal(board, tmp_path):
    with server(tmp_path, task="digits_cnn") as (_, port):
        with started(board, port, tmp_path, "--state", "a") as first, started(board, port, tmp_path, "--state", "b"):
            lines = iter(first.stdout.readline, "")
            assert any("it has an operation that this board does not know" in line for line in lines)
            assert any("UNWANTED" in line for line in lines)
        (tmp_path / "forged").write_text(f"{'A' * 22}== 0 {'A' * 43}=\n")
        with started(board, port, tmp_path, "--state", "forged", leaks=False) as stranger:
            _, err = stranger.communicate(timeout=120)
        assert stranger.returncode == 1 and "POST /v1/enrol: 4" in err and "AddressSanitizer" not in err, err
