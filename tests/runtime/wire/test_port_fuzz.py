"""Malformed calls through the port: the server lives, answers soundly, stays as large as it was, and serves whoever is honest."""

from random import Random

import grpc
import pytest

from fedfleet.runtime.wire import fleet_pb2 as fleet
from tests.runtime.wire.bench import UNTIL_STOPPED
from tests.runtime.wire.harness import command_of, ground, wait_for
from tests.runtime.wire.port_fuzzing import Fuzzer, knock
from tests.runtime.wire.proving import complaints
from tests.runtime.wire.puppet import Puppet, Status
from tests.runtime.wire.test_regressions import family_mb
from tests.runtime.wire.toys import Toy

TOY = Toy(clients=8, cohort=4, buffer=1, rounds=UNTIL_STOPPED, width=64)


def at_the_door(folder, seed, calls, **options):
    """So many malformed calls at a real server, and afterwards an honest client; the codes that were answered."""
    with ground(folder, TOY) as place:
        place.serve(devices=1, patience=0.1, transmitters=2, lease=5.0, **options)
        place.await_listening()
        fuzzers = []
        for client in (0, 1):
            puppet = _enrolled(place, client)
            fuzzers.append(Fuzzer(puppet, TOY.width))
        for fuzzer in fuzzers:
            fuzzer.run(seed, 200)  # whatever is loaded at first use is loaded now
        pids, before = place.transmitters(), family_mb(place.server.pid)
        for n, fuzzer in enumerate(fuzzers):
            fuzzer.run(seed + 1 + n, calls // len(fuzzers))
        knock(place.address, Random(seed), 50)
        grown = family_mb(place.server.pid) - before
        odd = [said for fuzzer in fuzzers for said in fuzzer.odd]
        assert odd == [], odd
        assert place.server.poll() is None, place.said
        assert place.transmitters() == pids, "a transmitter died and was replaced"
        assert all("transmitter" in command_of(pid) for pid in pids)
        _still_serves(place)
        assert "Traceback" not in place.said, place.said[-3000:]
        assert place.said.isascii() and "\x1b" not in place.said
        assert grown < 40, f"it grew by {grown:.0f} MB"
        assert complaints(place.events(), [], ended=False) == []
        for fuzzer in fuzzers:
            fuzzer.puppet.close()
        assert sum(fuzzer.errands for fuzzer in fuzzers) > calls // 400  # they were given work again and again
        return fuzzers[0].codes + fuzzers[1].codes, grown


def _enrolled(place, client):
    """A puppet as soon as it is let in: on a machine that is busy with other things a connection may take its time."""
    puppet = Puppet(place.address, client)

    def look():
        assert place.server.poll() is None, f"the server ended with {place.server.poll()}: {place.said}"
        try:
            return puppet.enrol()
        except grpc.RpcError as wrong:
            assert wrong.code() is grpc.StatusCode.UNAVAILABLE, wrong  # noqa: PT017
            return None

    wait_for(look, "enrolment", said=lambda: place.said)
    return puppet


def _still_serves(place):
    honest = _enrolled(place, 5)
    kinds = []
    while kinds.count(fleet.TRAIN) < 3:
        errand = honest.await_work()
        kinds.append(errand.work.kind)
        head, payload = honest.honest(TOY, errand)
        if errand.work.kind == fleet.EVALUATE:
            head, payload = honest.report(errand.work, b"", correct=1, total=2, loss=0.5), b""
        assert honest.hand(head, payload).status in (Status.SAFE, Status.UNWANTED)  # a judgement may be over by now
    honest.close()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["server", "devices"])
def test_malformed_calls_through_the_port(tmp_path, where):
    codes, _ = at_the_door(tmp_path, 1, 600, evaluate=where, evaluate_seconds=0.3)
    assert codes["INVALID_ARGUMENT"] > 100 and codes["OK"] > 100 and codes["UNAUTHENTICATED"] > 5
