"""The template forks a device for each order, tells how each ends, kills when asked, and takes its devices with it."""

import json
import os
import subprocess
import sys
import time

import pytest

from fedfleet.network.pool.processes import MARK
from tests.network.pool.test_processes import state

CODE = """
import sys, time
from fedfleet.network.pool.template import run_template

shared = []

def prepare(first):
    if first.get("threads"):
        import threading
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    shared.append(first["word"])

def be_device(order, emit):
    emit({"event": "hello", "word": shared[0], "long": "x" * order.get("long", 0)})
    print("in the log")
    if order.get("sleep"):
        time.sleep(600)
    if order.get("fail"):
        raise ValueError("it failed")
    return order.get("code", 0)

run_template(prepare, be_device)
"""


class Template:
    """A template in a process of its own, as a pool starts it."""

    def __init__(self, folder, **first):
        self.folder = folder
        # As a pool's template does before it loads numpy: no thread of its products.
        env = {**os.environ, MARK: f"{os.getpid()}-test", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with (folder / "template.err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", CODE], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err
            )
        self.tell(word="shared", **first)

    def tell(self, **message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def fork(self, device, **more):
        self.tell(device=device, log=str(self.folder / f"d{device}.log"), **more)

    def hear(self, many):
        return [json.loads(self.process.stdout.readline()) for _ in range(many)]


@pytest.fixture
def template(tmp_path):
    made = []

    def make(**first):
        made.append(Template(tmp_path, **first))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.wait()
        one.process.stdout.close()


def by_event(rows):
    return {row["event"]: row for row in rows}


def test_a_device_has_what_the_template_loaded_and_its_end_is_told(template, tmp_path):
    one = template()
    assert one.hear(1)[0]["event"] == "template"
    one.fork(5, code=3)
    told = by_event(one.hear(3))
    assert told["hello"] == {"event": "hello", "word": "shared", "long": "", "device": 5}
    assert told["started"]["device"] == told["ended"]["device"] == 5
    assert told["ended"]["code"] == 3
    assert told["ended"]["pid"] == told["started"]["pid"] != one.process.pid
    assert told["ended"]["peak_rss_mb"] > 1
    assert (tmp_path / "d5.log").read_text() == "in the log\n"


def test_errors_of_a_device_are_in_its_log_and_the_template_goes_on(template, tmp_path):
    one = template()
    one.hear(1)
    one.fork(0, fail=True)
    assert by_event(one.hear(3))["ended"]["code"] == 1
    assert "ValueError: it failed" in (tmp_path / "d0.log").read_text()
    one.fork(1)
    assert by_event(one.hear(3))["ended"]["code"] == 0


def test_a_device_is_killed_when_its_pool_says_so(template):
    one = template()
    one.hear(1)
    one.fork(0, sleep=True)
    one.fork(1, sleep=True)
    one.hear(4)
    one.tell(device=1, kill=True)
    (ended,) = one.hear(1)
    assert (ended["event"], ended["device"], ended["code"]) == ("ended", 1, -9)


@pytest.mark.parametrize("how", ["its input ends", "it is killed"])
def test_devices_end_with_their_template(template, how):
    one = template()
    one.hear(1)
    for device in range(3):
        one.fork(device, sleep=True)
    pids = [row["pid"] for row in one.hear(6) if row["event"] == "started"]
    assert len(pids) == 3
    if how == "it is killed":
        one.process.kill()
    else:
        one.process.stdin.close()
    one.process.wait(60)
    deadline = time.monotonic() + 60
    while any(state(pid) not in ("Z", "X", "") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_line_that_is_too_long_to_be_written_whole_is_cut(template):
    one = template()
    one.hear(1)
    one.fork(0, long=10_000)
    assert len(by_event(one.hear(3))["hello"]["long"]) == 500


def test_a_template_with_threads_forks_nothing(template, tmp_path):
    one = template(threads=True)
    assert one.process.wait(60) == 1
    assert "2 threads" in (tmp_path / "template.err").read_text()
