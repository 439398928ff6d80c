"""`fedfleet status` on the command line."""

import json

from tests.app.specs import refused
from tests.network.operations.test_status import GOOD, answering


def test_the_contract(fedfleet):
    with answering(GOOD.SerializeToString()) as address:
        code, out, _ = fedfleet("status", address, "--json")
        assert code == 0
        assert {"run", "round", "version", "devices_online", "running", "waiting_for", "uptime_seconds"} <= json.loads(
            out
        ).keys()
        assert "waiting for client 7" in fedfleet("status", address)[1]


def test_wrong_use_is_one_sentence(fedfleet, tmp_path):
    refused(fedfleet("status", "nowhere"), "HOST:PORT")
    refused(fedfleet("status", "127.0.0.1:1", "--ca", tmp_path / "none"), "none")
    refused(fedfleet("status", "127.0.0.1:1", "--token", "a", "--token-file", tmp_path), "give one of them")
    code, out, err = fedfleet("status", "127.0.0.1:1")
    assert (code, out) == (1, "") and err.startswith("fedfleet: ") and "127.0.0.1:1;" in err and err.count("\n") == 1


def test_the_server_is_named_as_device_names_it(fedfleet):
    assert fedfleet("status", "--server", "127.0.0.1:1")[0] == fedfleet("status", "127.0.0.1:1")[0] == 1
    refused(fedfleet("status", "127.0.0.1:1", "--server", "127.0.0.1:2"), "--server")
