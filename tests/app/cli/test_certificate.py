"""`fedfleet certificate`: one command, and a server and its devices have what they need."""

import json
import stat
from pathlib import Path

from fedfleet.network.security.tls import ClientFiles, ServerFiles, client_credentials, server_credentials
from tests.app.specs import refused


def test_what_it_makes_can_be_used(fedfleet, tmp_path):
    out = tmp_path / "certificates"
    words = ("--host", "localhost", "--host", "10.0.0.7", "--days", 30, "--client", "phone")
    made = json.loads(fedfleet("certificate", "--out", out, *words, "--json")[1])
    assert set(made) == {"ca", "certificate", "key", "clients", "written"} and len(made["written"]) == 6
    server_credentials(ServerFiles(Path(made["certificate"]), Path(made["key"]), Path(made["ca"])))
    client_credentials(ClientFiles(Path(made["ca"]), *map(Path, made["clients"]["phone"].values())))
    assert stat.S_IMODE((out / "phone.key").stat().st_mode) == 0o600


def test_it_says_how_to_go_on_and_keeps_what_is_there(fedfleet, tmp_path):
    code, said, err = fedfleet("certificate", "--out", tmp_path)
    assert (code, err) == (0, "")
    assert "4 files written" in said and "fedfleet serve SPEC --certificate" in said and "--ca" in said
    assert "0 files written" in fedfleet("certificate", "--out", tmp_path)[1]
    assert "2 files written" in fedfleet("certificate", "--out", tmp_path, "--renew")[1]


def test_wrong_use_is_refused_in_one_sentence(fedfleet, tmp_path):
    refused(fedfleet("certificate"), "--out")
    refused(fedfleet("certificate", "--out", tmp_path, "--host", "a b"), "--host")
    refused(fedfleet("certificate", "--out", tmp_path, "--client", "../x"), "cannot name")
    refused(fedfleet("certificate", "--out", tmp_path, "--days", 0), "--days")
    (tmp_path / "file").write_text("")
    refused(fedfleet("certificate", "--out", tmp_path / "file"), "file")
