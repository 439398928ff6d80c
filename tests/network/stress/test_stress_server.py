import pytest

from fedfleet.core.events import ModelCommitted
from fedfleet.executors.child_process import Child
from fedfleet.network.stress.stress_plan import SAMPLES, Dummy
from fedfleet.network.stress.stress_run import Stress, answer_of, run_stress
from fedfleet.network.stress.stress_server import dummy_world
from fedfleet.store import journal

pytestmark = pytest.mark.slow


def test_the_real_server_takes_every_report():
    done = run_stress(Stress(Dummy(12, 4000, 3), transmitters=1, raw=False))
    got = answer_of(done)
    assert len(got["round_seconds"]) == 3
    assert got["receipts"] == {"SAFE": 36}
    assert got["failed_calls"] == {}
    assert got["transmitters"] == 1


def test_one_process_and_a_buffer_without_durability():
    got = answer_of(run_stress(Stress(Dummy(20, 4000, 3, "fedbuff"), transmitters=0, durable=False, raw=False)))
    assert len(got["round_seconds"]) == 3
    assert got["receipts"]["SAFE"] >= 6


def test_a_server_that_is_let_go_stops_in_order(tmp_path):
    told = {
        "dummy": {"clients": 3, "payload_bytes": 400, "rounds": 2}, "folder": str(tmp_path), "certificate": "",
        "certificate_key": "", "in_flight_bytes": 0, "transmitters": 1, "durable": True, "streaming": True, "encode_once": True,
        "http": False,
    }  # fmt: skip
    with Child("fedfleet.network.stress.stress_server", told) as host:
        at = host.answer(30)
        assert at["address"].startswith("127.0.0.1:")
    assert not host.running
    assert not any(isinstance(event, ModelCommitted) for event in journal.read(tmp_path / "run" / "run.db"))


def test_all_clients_claim_the_same():
    world = dummy_world(7)
    assert world.data.sizes(0).tolist() == [SAMPLES] * 7
    assert len(world.keys) == 7
