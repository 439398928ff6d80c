"""What the first version of the wire got wrong: every defect that was reproduced on it, each with a test that it met.

Where a defect is tried elsewhere, its line in `TRIED_ELSEWHERE` says where; a test sees that it is there.
"""

import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import grpc
import numpy as np
import pytest

from fedfleet.core.events import ReportRejected, ReportsGathered
from fedfleet.core.tensor_format import pack_tree
from tests import processes
from tests.network.bench import UNTIL_STOPPED, bench
from tests.network.crowd import crowd
from tests.network.harness import ROOT, children, ground
from tests.network.puppet import Puppet, Status, in_chunks
from tests.network.toys import Toy

pytestmark = pytest.mark.slow

TOY = Toy(clients=8, buffer=1, rounds=UNTIL_STOPPED)
TRIED_ELSEWHERE = {
    "a device that takes a task and vanishes hangs the round for ever": (
        "test_absence", "test_who_takes_work_and_vanishes_costs_its_lease_and_no_more",
    ),
    "one that dies after reporting is picked again and hangs the next round": (
        "test_absence", "test_who_dies_after_its_report_does_not_hang_the_next_round",
    ),
    "two of three devices silent: the round commits with one, silently": (
        "test_absence", "test_when_patience_ends_it_goes_on_with_whoever_is_there_and_says_so",
    ),
    "a garbled report burns the claim, so that the honest retry is not wanted": (
        "test_faults", "test_damaged_uploads_cost_a_strike_and_not_the_task",
    ),
    "a killed server names an option that there is not": ("test_kills", "test_a_killed_server_ends_with_the_same_bits"),
}  # fmt: skip


@pytest.mark.parametrize("defect", TRIED_ELSEWHERE)
def test_defects_that_are_tried_elsewhere_are(defect):
    module, name = TRIED_ELSEWHERE[defect]
    assert callable(getattr(import_module(f"tests.network.{module}"), name))


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with bench(tmp_path_factory.mktemp("regressions"), TOY) as made:
        yield made


@pytest.mark.parametrize("name", ["w\x1b[2J\x1b[31mred\n\u202eevil", "n" * 900_000], ids=["escapes", "900 kB"])
def test_a_name_from_elsewhere_reaches_nobody_raw_or_whole(name, desk):
    puppet, errand, head, payload = desk.working()
    bad = pack_tree({name: np.zeros(TOY.width, np.float32)})
    wrong = puppet.report(errand.work, bad)
    first = desk.hand(puppet, wrong, bad)
    assert first.status == Status.RETRY
    assert desk.hand(puppet, wrong, bad).status == Status.REFUSED
    del desk.reports[head.task]
    (rejected,) = desk.of_task(head.task, ReportRejected)
    for text in (first.reason, rejected.reason):
        assert text.isprintable()
        assert len(text) <= 400
    with (desk.ground.out / "run.db").open("rb") as file:
        assert b"\x1b[2J" not in file.read()
    assert "\x1b[2J" not in desk.ground.said
    assert len(payload) < 1000


def test_twenty_thousand_statistics_are_not_taken(desk):
    puppet, errand, head, payload = desk.working()
    many = {f"stat_{n}": float(n) for n in range(20_000)}
    try:
        receipt = desk.hand(puppet, puppet.report(errand.work, payload, weight=head.weight, stats=many), payload)
    except grpc.RpcError as refused:
        assert refused.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)  # noqa: PT017
        receipt = desk.hand(puppet, head, payload)
    assert receipt.status == Status.SAFE
    for event in desk.ground.await_event(ReportsGathered):
        assert len(event.stats) <= 16


def test_memory_does_not_grow_with_the_reports(tmp_path):
    """Sixteen reports of 8 MB in one round: the first version kept each of them until the commit."""
    toy = Toy(clients=16, rounds=1, width=2_000_000)
    payload_mb = 8.0
    with ground(tmp_path, toy) as place:
        place.serve(in_flight_bytes=48 << 20, transmitters=1)
        place.await_listening()
        people = [Puppet(place.address, client, wait=60.0) for client in range(toy.clients)]
        for puppet in people:
            puppet.enrol()
            puppet.check()
        memory = []
        for puppet in people:
            head, payload = puppet.honest(toy, puppet.await_work())
            receipt = puppet.hand_stream(head, in_chunks(payload))
            assert receipt.status == Status.SAFE
            memory.append(family_mb(place.server.pid))
            puppet.close()
        assert place.ended() == 0, place.said
    assert memory[-1] - memory[3] < 4 * payload_mb, memory  # twelve reports came between them


def family_mb(pid):
    """The memory of a process and those that it started, in MB."""
    total = 0
    for one in (pid, *children(pid)):
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def test_an_interrupt_while_waiting_leaves_nothing_in_the_way(tmp_path):
    toy = Toy(clients=2, rounds=1)
    with ground(tmp_path, toy) as place:
        place.serve()
        place.await_listening()
        place.server.send_signal(signal.SIGINT)
        assert place.ended() in (0, 130), place.said
        assert "Traceback" not in place.said
        place.serve(resume=True)
        with crowd(toy, place.address):
            assert place.ended() == 0, place.said


def test_a_wave_wakes_those_who_have_work_and_nobody_else(tmp_path):
    """The first version woke every waiting call for every task: 726 ms at 500 devices."""
    toy = Toy(clients=12, cohort=2, buffer=2, rounds=UNTIL_STOPPED)
    with bench(tmp_path, toy, devices=12, patience=20.0, hold_seconds=3.0) as desk:
        people = [desk.newcomer() for _ in range(12)]
        answers = {}

        def wait(puppet):
            start = time.monotonic()
            answer, _payload = puppet.check(hold=True)
            answers[puppet.client] = (answer.WhichOneof("what"), time.monotonic() - start)

        threads = [threading.Thread(target=wait, args=(puppet,)) for puppet in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        worked = [took for what, took in answers.values() if what == "work"]
        waited = [took for what, took in answers.values() if what == "later"]
        assert len(worked) == 2
        assert len(waited) == 10
        assert min(waited) > 2.5, "a call without work was answered although nothing had come for it"


def serve_words(*words):
    """The command line's own answer to `fedfleet serve`."""
    spec = ROOT / "examples/first.toml"
    return processes.run("fedfleet.app.cli.main", "serve", spec, *words, cwd=ROOT)


def test_nobody_listens_to_the_world_in_the_clear(tmp_path):
    done = serve_words("--out", str(tmp_path / "run"), "--address", "0.0.0.0:0")
    assert done.returncode == 2
    assert "TLS" in done.stderr or "tls" in done.stderr or "certificate" in done.stderr
    assert not (tmp_path / "run").exists()


def test_serve_has_the_option_that_it_names():
    done = subprocess.run(
        [sys.executable, "-m", "fedfleet.app.cli.main", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "--resume" in done.stdout


def test_resuming_where_nothing_is_says_so(tmp_path):
    done = serve_words("--out", str(tmp_path / "typo"), "--resume", "--address", "127.0.0.1:0", "--patience", "0.1")
    if done.returncode:  # it may also start afresh on an empty folder, as `run` does; but a folder that is not there is a typo
        assert done.returncode == 2
        assert "typo" in done.stderr
