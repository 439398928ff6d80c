"""Devices on a line that changes, cuts and stalls what passes: they finish when it has healed, and nothing counts wrong."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pytest

from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Report
from fedfleet.core.rng import client_keys
from fedfleet.network.device.caps import Caps
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.client_runtime import ClientRuntime
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.http_calls import HttpLine
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.protocol.frames import INLINE_BYTES
from fedfleet.network.security.certificates import CertificateRequest, make_certificates
from fedfleet.network.security.tls import ClientFiles, client_context, client_credentials
from fedfleet.testing.toys import opaque_executor
from tests.network.bench import UNTIL_STOPPED
from tests.network.cutting import line
from tests.network.harness import free_address, ground, wait_for
from tests.network.proving import complaints, models_again
from tests.network.toys import Toy, plan_of
from tests.portions import in_soak

pytestmark = pytest.mark.slow

TASKS = 4  # of one device
TOGETHER = 12  # devices at once
BAD_SECONDS = 2.0  # at least one report is made while the line is bad, or it ends then
SMALL, LARGE = 16, 3 * INLINE_BYTES // 8  # elements: a message, and a stream in pieces


@dataclass
class Trial:
    """What one device did on its line."""

    seed: int
    result: object = None
    error: BaseException | None = None
    said: list[str] = field(default_factory=list)
    mishaps: dict[str, int] = field(default_factory=dict)


@contextmanager
def serving(folder, clients, width, tls, http):
    """A toy server that goes on until the trials are over, how its devices call it, and their reports; at the end all is proven."""
    toy = Toy(clients=clients, cohort=min(clients, TOGETHER), buffer=1, rounds=UNTIL_STOPPED, width=width)
    options, files, reports = {}, None, {}
    if tls:
        made = make_certificates(folder / "certificates", CertificateRequest(), datetime.now(UTC))
        options = {"tls": {"certificate": str(made.certificate), "key": str(made.key)}}
        files = ClientFiles(made.ca)
    if http:
        options["http"] = free_address()

    def call(address):
        if not http:
            return Connection(address, client_credentials(files) if files else None, call_seconds=2.0)
        return HttpLine(f"http{'s' * tls}://{address}", client_context(files) if files else None, call_seconds=2.0)

    with ground(folder, toy) as place:
        place.serve(devices=1, patience=0.1, lease=30.0, hold_seconds=0.5, **options)
        wait_for(lambda: _frontends_up(place.out / "wire" / "now.json") == 2, "a server that listens", said=lambda: place.said)
        yield options.get("http", place.address), toy, call, reports
        assert place.server.poll() is None, place.said
        place.server.terminate()
        place.ended()
        events = place.events()
        assert complaints(events, ended=False) == []
        assert models_again(plan_of(toy), events, reports) == []
        assert "Traceback" not in place.said, place.said[-3000:]


def _frontends_up(path):
    try:
        return json.loads(path.read_text())["status"]["transmitters_up"]
    except (OSError, ValueError):
        return 0


def runtime_of(toy, client, reports):
    """What a toy device trains with; what it makes is written down for the proof."""
    execute, plan = opaque_executor(), plan_of(toy)

    def train(jobs):
        for report in execute.train(jobs):
            kept = {name: leaf.copy() for name, leaf in report.update.items()}
            reports[report.task] = Report(report.task, report.client, kept, report.weight, dict(report.stats))
            yield report

    data = Dataset(np.zeros((20, 1), np.float32), np.zeros(20, np.int64), 2)
    task = Task("toy", data, np.zeros(0, np.int64), build=None, init=None)
    key, rows = int(client_keys(toy.clients)[client]), np.arange(10)
    noting = type(execute)("toy", train, execute.evaluate)
    return ClientRuntime(client, key, toy.seed, plan.algorithm, task, plan.params, rows, rows, noting)


def try_line(address, toy, call, reports, folder, seed, client):
    """One device, whose line is bad from the first byte on, and heals when it has done some work."""
    trial = Trial(seed)
    with line(address) as bad:
        bad.spoil(seed, gap=(100.0, 400.0, 1500.0)[seed % 3] * (1 if toy.width == SMALL else 1000))
        connection, store = call(bad.address), DeviceStore(folder / f"store-{client}")
        options = DeviceOptions(client=client, caps=Caps(tasks=TASKS), patience=60.0)
        device = Device(connection, store, options, lambda config, fetch: runtime_of(toy, client, reports), trial.said.append)

        def heal():
            until = time.monotonic() + BAD_SECONDS
            while time.monotonic() < until and device.safe < 2:
                time.sleep(0.01)
            bad.heal()

        healer = threading.Thread(target=heal)
        healer.start()
        try:
            trial.result = device.run()
        except BaseException as error:
            trial.error = error
        healer.join()
        connection.close()
        store.close()
        trial.mishaps = dict(bad.mishaps)
    return trial


def trials(folder, seeds, width=SMALL, tls=False, http=False):
    """What became of a device for each seed, several at a time."""
    done, todo, lock = [], list(enumerate(seeds)), threading.Lock()
    with serving(folder, len(todo), width, tls, http) as (address, toy, call, reports):

        def work():
            while True:
                with lock:
                    if not todo:
                        return
                    client, seed = todo.pop()
                trial = try_line(address, toy, call, reports, folder, seed, client)
                with lock:
                    done.append(trial)

        threads = [threading.Thread(target=work) for _ in range(TOGETHER)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return done


def check(done, count):
    """Every device did all its tasks, on lines that were bad; no device said more than a few words."""
    assert len(done) == count
    failed = [(t.seed, repr(t.error), t.said[-3:]) for t in done if t.error is not None]
    assert failed == []
    assert sum(sum(t.mishaps.values()) for t in done) > 2 * count
    for trial in done:
        assert trial.result.tasks + trial.result.declined == TASKS, (trial.seed, trial.said)
        assert trial.result.declined == 0, (trial.seed, trial.said)
        assert len(trial.said) < 40 and all(len(said) < 500 for said in trial.said), trial.said


@pytest.mark.parametrize("tls", [False, in_soak(True)], ids=["plain", "tls"])
def test_a_device_finishes_its_work_whatever_a_bad_line_did_to_it(tmp_path, tls):
    check(trials(tmp_path, range(12), tls=tls), 12)


@pytest.mark.parametrize("tls", [in_soak(False), True], ids=["plain", "tls"])
def test_streams_on_a_bad_line_arrive_whole(tmp_path, tls):
    check(trials(tmp_path, range(4), LARGE, tls), 4)


@pytest.mark.parametrize("tls", [False, in_soak(True)], ids=["plain", "tls"])
def test_a_device_over_http_finishes_its_work_too(tmp_path, tls):
    check(trials(tmp_path, range(12), tls=tls, http=True), 12)


@pytest.mark.soak
@pytest.mark.parametrize("http", [False, True], ids=["gRPC", "HTTP"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_two_hundred_bad_lines(tmp_path, tls, http):
    check(trials(tmp_path, range(100, 300), tls=tls, http=http), 200)
    large = tmp_path / "large"
    large.mkdir()
    check(trials(large, range(20), LARGE, tls, http), 20)
