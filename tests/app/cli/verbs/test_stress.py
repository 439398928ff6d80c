"""`fedfleet stress`."""

import json

import pytest

from tests.app.specs import refused

CONTRACT = {
    "round_seconds", "updates_per_second", "raw_grpc_updates_per_second", "peak_rss_mb", "clients", "payload_bytes",
}  # fmt: skip


@pytest.mark.slow
def test_stress_answers_by_the_contract(fedfleet):
    code, out, _ = fedfleet("stress", "--clients", 10, "--payload-bytes", 4000, "--rounds", 2, "--no-durable", "--json")
    assert code == 0
    got = json.loads(out)
    assert set(got) >= CONTRACT
    assert (len(got["round_seconds"]), got["clients"], got["payload_bytes"]) == (2, 10, 4000)
    assert got["raw_grpc_updates_per_second"] > 0
    assert got["durable"] is False


def test_bad_input(fedfleet):
    refused(fedfleet("stress", "--mode", "fedbuf"), "--mode", "did you mean 'fedbuff'")
    refused(fedfleet("stress", "--payload-bytes", 4001), "--payload-bytes", "multiple of 4")
    refused(fedfleet("stress", "--rounds", 1), "--rounds")
    refused(fedfleet("stress", "--sweep", "10,x"), "--sweep")
    refused(fedfleet("stress", "--clients", 2, "--generators", 3), "--generators")
