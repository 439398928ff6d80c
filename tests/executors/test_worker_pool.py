"""A crew does every piece once, whatever happens to its workers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.executors.worker_pool import TRIES, run_in_workers

WORKER = """
import os, signal, sys, time
from pathlib import Path
from fedfleet.core.errors import BadInput
from fedfleet.executors.worker_pool import run_worker

def work(piece, tell):
    print("prattle")
    tell({"pid": os.getpid(), "at": piece["n"]})
    if piece.get("refuse"):
        raise BadInput("no, thank you")
    if piece.get("break"):
        raise KeyError("inside")
    mark = piece.get("die_once")
    if mark and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if piece.get("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(piece.get("sleep", 0))
    return {"twice": 2 * piece["n"]}

run_worker(work)
"""
COMMAND = [sys.executable, "-c", WORKER]


def ends(log, pieces, workers=2, command=COMMAND):
    said = list(run_in_workers(command, pieces, workers, log=log))
    result = {s.piece: s for s in said if s.ended}
    assert sorted(s.piece for s in said if s.ended) == list(range(len(pieces)))
    return result, said


def test_every_piece_ends_once_and_few_processes_do_many(tmp_path):
    result, said = ends(tmp_path / "log", [{"n": n} for n in range(9)])
    assert [result[n].body["twice"] for n in range(9)] == [2 * n for n in range(9)]
    assert len({s.body["pid"] for s in said if "pid" in s.body}) <= 2
    assert (tmp_path / "log").read_text().count("prattle") == 9


def test_a_refusal_and_a_mistake_are_answers_of_their_piece_alone(tmp_path):
    result, _ = ends(tmp_path / "log", [{"n": 0, "refuse": True}, {"n": 1, "break": True}, {"n": 2}], workers=1)
    assert result[0].failure == "no, thank you"
    assert result[1].failure == "KeyError: 'inside'"
    assert result[2].body == {"twice": 4}
    assert "Traceback" in (tmp_path / "log").read_text()


def test_the_piece_of_a_dead_worker_is_taken_up_again_and_at_last_given_up(tmp_path):
    pieces = [{"n": 0, "die_once": str(tmp_path / "mark")}, {"n": 1, "die": True}, {"n": 2}]
    result, said = ends(tmp_path / "log", pieces)
    assert result[0].body == {"twice": 0} and result[0].deaths == 1
    assert result[1].deaths == TRIES and "killed by SIGKILL" in result[1].failure
    assert result[2].body == {"twice": 4}
    assert [s.deaths for s in said if s.piece == 1 and not s.body] == list(range(1, TRIES + 1))


def test_a_worker_that_cannot_start_is_said_with_its_last_words(tmp_path):
    with pytest.raises(RunFailed, match=r"no worker could be started: exit code 1; RuntimeError: no room"):
        list(
            run_in_workers([sys.executable, "-c", "raise RuntimeError('no room')"], [{"n": 0}], 1, log=tmp_path / "log")
        )


def test_whoever_stops_listening_ends_the_workers(tmp_path):
    listening = run_in_workers(COMMAND, [{"n": 0, "sleep": 60}], 1, log=tmp_path / "log")
    pid = next(listening).body["pid"]
    before = time.monotonic()
    listening.close()
    assert time.monotonic() - before < 4
    assert not Path(f"/proc/{pid}").exists()


def test_a_worker_ends_when_its_crew_is_killed(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom fedfleet.executors.worker_pool import run_in_workers\n"
        f"log = Path({str(tmp_path / 'log')!r})\n"
        f"for said in run_in_workers([sys.executable, '-c', {WORKER!r}], [{{'n': 0, 'sleep': 60}}], 1, log=log):\n"
        "    print(said.body['pid'], flush=True)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.05)
    raise AssertionError(f"worker {pid} lives on")
