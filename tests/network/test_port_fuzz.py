"""Malformed calls through the port: the server lives, answers soundly, stays as large as it was, and serves whoever is honest."""

import contextlib
import time
from collections import Counter
from random import Random

import grpc
import pytest

from fedfleet.network.protocol import fleet_pb2 as fleet
from tests.network.bench import UNTIL_STOPPED
from tests.network.harness import command_of, ground, wait_for
from tests.network.port_fuzzing import Fuzzer, knock
from tests.network.proving import complaints
from tests.network.puppet import Puppet, Status
from tests.network.test_regressions import family_mb
from tests.network.toys import Toy

pytestmark = pytest.mark.slow

TOY = Toy(clients=512, cohort=16, buffer=1, rounds=UNTIL_STOPPED, width=64)
CALLS_EACH = 50  # of one client: who calls too often, or strikes too often, is shut out, and nothing of it is looked at any more


def at_the_door(folder, seed, calls, **options):
    """So many malformed calls at a real server, and afterwards an honest client; the codes that were answered."""
    with ground(folder, TOY) as place:
        place.serve(devices=1, patience=0.1, transmitters=2, lease=2.0, hold_seconds=1.0, **options)
        place.await_listening()
        codes, warm = Counter(), min(8, calls // CALLS_EACH // 2)
        for client in range(calls // CALLS_EACH):
            if client == warm:  # whatever is loaded at first use is loaded now
                pids, before = place.transmitters(), family_mb(place.server.pid)
            codes += _fuzzed(place, client, seed + client)
        knock(place.address, Random(seed), 50)
        grown = family_mb(place.server.pid) - before
        assert place.server.poll() is None, place.said
        assert place.transmitters() == pids, "a transmitter died and was replaced"
        assert all("network.frontend" in command_of(pid) for pid in pids)
        _still_serves(place)
        assert "Traceback" not in place.said, place.said[-3000:]
        assert place.said.isascii() and "\x1b" not in place.said
        assert grown < 40, f"it grew by {grown:.0f} MB"
        assert complaints(place.events(), [], ended=False) == []
        return codes, grown


def _fuzzed(place, client, seed):
    puppet = _enrolled(place, client)
    fuzzer = Fuzzer(puppet, _patiently(place, puppet.await_work), TOY.width)
    fuzzer.run(seed, CALLS_EACH)
    assert fuzzer.odd == [], fuzzer.odd
    with contextlib.suppress(grpc.RpcError):
        puppet.leave()
    puppet.close()
    return fuzzer.codes


def _patiently(place, call):
    """What a call gives, as soon as there is room: others were here before, and a busy machine takes its time."""

    def look():
        assert place.server.poll() is None, f"the server ended with {place.server.poll()}: {place.said}"
        try:
            return call()
        except grpc.RpcError as error:
            assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED), error  # noqa: PT017
            time.sleep(0.1)
            return None

    return wait_for(look, "answer", said=lambda: place.said)


def _enrolled(place, client):
    puppet = Puppet(place.address, client)
    _patiently(place, puppet.enrol)
    return puppet


def _still_serves(place):
    honest = _enrolled(place, TOY.clients - 1)
    kinds = []
    while kinds.count(fleet.TRAIN) < 3:
        errand = _patiently(place, honest.await_work)
        kinds.append(errand.work.kind)
        head, payload = honest.honest(TOY, errand)
        if errand.work.kind == fleet.EVALUATE:
            head, payload = honest.report(errand.work, b"", correct=1, total=2, loss=0.5), b""
        receipt = _patiently(place, lambda head=head, payload=payload: honest.hand(head, payload))
        assert receipt.status == Status.SAFE or (head.kind == fleet.EVALUATE and receipt.status == Status.UNWANTED)
    honest.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "calls"),
    [
        ("server", 300),
        pytest.param("server", 1000, marks=pytest.mark.soak),
        pytest.param("devices", 500, marks=pytest.mark.soak),
    ],
)
def test_malformed_calls_through_the_port(tmp_path, where, calls):
    codes, _ = at_the_door(tmp_path, 1, calls, evaluate=where, evaluate_seconds=0.3)
    assert min(codes["INVALID_ARGUMENT"], codes["OK"]) > calls / 10 and codes["UNAUTHENTICATED"] > calls / 250
