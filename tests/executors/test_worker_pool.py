"""A pool does every piece once, whatever happens to its workers; pickled pieces are mapped over processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors.worker_pool import TRIES, map_in_processes, open_workers, run_in_workers

pytestmark = pytest.mark.slow


def work(piece, tell):
    """What the pieces of these tests ask for."""
    sys.stdout.write("prattle\n")
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


def ends(log, pieces, workers=2):
    said = list(run_in_workers(work, pieces, workers, log=log))
    result = {s.piece: s for s in said if s.ended}
    assert sorted(s.piece for s in said if s.ended) == list(range(len(pieces)))
    return result, said


def test_every_piece_ends_once_and_few_processes_do_many(tmp_path):
    result, said = ends(tmp_path / "log", [{"n": n} for n in range(9)])
    assert [result[n].body["twice"] for n in range(9)] == [2 * n for n in range(9)]
    assert len({s.body["pid"] for s in said if "pid" in s.body}) <= 2
    assert (tmp_path / "log").read_text().count("prattle") == 9


def test_workers_that_are_open_do_batch_after_batch(tmp_path):
    with open_workers(f"{__name__}:work", 2, log=tmp_path / "log") as perform:
        batches = [list(perform([{"n": n} for n in range(size)])) for size in (3, 4)]
    assert [sum(said.ended for said in batch) for batch in batches] == [3, 4]
    assert len({said.body["pid"] for batch in batches for said in batch if "pid" in said.body}) <= 2


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
    def absent(piece, tell): ...

    absent.__module__ = "tests.executors.no_such_module"
    with pytest.raises(RunFailed, match=r"no worker could be started: exit code 1; ModuleNotFoundError: .*no_such_module"):
        list(run_in_workers(absent, [{"n": 0}], 1, log=tmp_path / "log"))


def test_whoever_stops_listening_ends_the_workers(tmp_path):
    listening = run_in_workers(work, [{"n": 0, "sleep": 60}], 1, log=tmp_path / "log")
    pid = next(listening).body["pid"]
    before = time.monotonic()
    listening.close()
    assert time.monotonic() - before < 45
    assert not Path(f"/proc/{pid}").exists()


def test_a_worker_ends_when_its_pool_is_killed(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom fedfleet.executors.worker_pool import run_in_workers\n"
        "from tests.executors.test_worker_pool import work\n"
        f"log = Path({str(tmp_path / 'log')!r})\n"
        f"for said in run_in_workers(work, [{{'n': 0, 'sleep': 60}}], 1, log=log):\n"
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


# ---- pickled pieces -------------------------------------------------------------------------------------------------


def squared(n):
    return n * n, os.getpid()


def refused(n):
    raise BadInput(f"{n} is refused")


def vanished(n):
    os._exit(n)


def slept(seconds):
    time.sleep(seconds)
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_one_worker_works_here_and_in_order():
    assert list(map_in_processes(squared, [3, 1, 2], 1)) == [(n, (n * n, os.getpid())) for n in (3, 1, 2)]
    assert list(map_in_processes(squared, [], 4)) == []


def test_several_work_elsewhere():
    result = dict(map_in_processes(squared, [1, 2, 3], 2))
    assert {n: square for n, (square, _) in result.items()} == {1: 1, 2: 4, 3: 9}
    assert os.getpid() not in {process for _, process in result.values()}


def test_a_refusal_arrives_as_it_was_said():
    with pytest.raises(BadInput, match="is refused"):
        list(map_in_processes(refused, [1, 2], 2))


def test_a_worker_that_dies_is_told():
    with pytest.raises(RunFailed, match="fewer workers"):
        list(map_in_processes(vanished, [3, 4], 2))


def test_an_interrupt_is_for_the_one_who_asked_and_waits_for_nobody():
    began, results = time.monotonic(), map_in_processes(slept, [0, 60], 2)
    assert next(results) == (0, True)  # deaf to Ctrl-C, which a terminal sends to all
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert time.monotonic() - began < 30
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
