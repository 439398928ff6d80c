"""`fedfleet token`: invite, list, put out, on the folder of a served run."""

import json
import stat
from pathlib import Path

import pytest

from fedfleet.app.api.access import invitation_text, token_list_text
from fedfleet.network.security.enrolment_store import open_store
from fedfleet.network.security.tls import ClientFiles, ServerFiles, client_credentials, server_credentials
from fedfleet.network.security.tokens import token_of
from tests.app.specs import refused, written


@pytest.fixture
def run(tmp_path):
    (tmp_path / "wire").mkdir(mode=0o700)
    written(tmp_path)
    return tmp_path


def test_a_token_is_printed_once_and_nothing_beside_it(fedfleet, run):
    code, out, err = fedfleet("token", run)
    assert code == 0 and len(out.split()) == 1
    assert "for one device until" in err and out.strip() not in err
    db = open_store(run / "wire" / "devices.db")
    token = token_of(db, out.strip())
    assert token.uses == 1 and token.expires - token.made == pytest.approx(24 * 3600)
    db.close()
    assert out.strip() not in fedfleet("token", run, "--list", "--json")[1]


def test_the_contract_of_the_command(fedfleet, run):
    words = ("--uses", 3, "--hours", 0.5, "--note", "shelf 2", "--json")
    made = json.loads(fedfleet("token", run, *words)[1])
    assert set(made) == {"token", "id", "uses", "used", "made", "expires", "client", "note", "revoked"}
    assert (made["uses"], made["note"], made["client"]) == (3, "shelf 2", None)
    assert made["expires"] - made["made"] == pytest.approx(1800)
    assert json.loads(fedfleet("token", run, "--client", 11, "--json")[1])["client"] == 11
    ended = json.loads(fedfleet("token", run, "--revoke", made["id"], "--json")[1])
    assert ended["id"] == made["id"] and ended["revoked"] is not None
    result = json.loads(fedfleet("token", run, "--list", "--json")[1])
    assert [t["revoked"] is None for t in result["tokens"]] == [False, True] and result["devices"] == []
    assert f"token {made['id']}: 0 of 3 used, revoked" in fedfleet("token", run, "--list")[1]


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (("--revoke", "nothing"), ["no token", "--list"]),
        (("--revoke-client", 3), ["no device is enrolled as client 3"]),
        (("--client", 12), ["clients 0 to 11"]),
        (("--client", 3, "--uses", 2), ["one device"]),
        (("--list", "--uses", 2), ["--list and --uses"]),
        (("--list", "--revoke", "x"), ["--list and --revoke"]),
        (("--revoke", "x", "--revoke-client", 3), ["--revoke and --revoke-client"]),
        (("--uses", 0), ["--uses"]),
        (("--hours", 0), ["--hours"]),
        (("--hours", "nan"), ["--hours"]),
    ],
)
def test_wrong_use_is_refused_in_one_sentence(fedfleet, run, words, mentions):
    refused(fedfleet("token", run, *words), *mentions)


def test_folders_of_other_runs_are_refused(fedfleet, tmp_path):
    refused(fedfleet("token", tmp_path), "not the folder of a served run")
    refused(fedfleet("token", tmp_path / "none"), "not the folder of a served run")


TOKEN = {"id": "ab12", "uses": 1, "used": 0, "expires": 1e9, "client": None, "note": "", "revoked": None}
DEVICE = {"client": 3, "enrolled": 1e9, "peer": "ipv4:127.0.0.1", "samples": 5, "data": "", "revoked": None}


def test_a_new_token_says_for_whom_and_how_long():
    assert invitation_text(TOKEN).startswith("token ab12 is valid for one device until 2001-09-")
    said = invitation_text({**TOKEN, "uses": 3})
    assert "for 3 devices" in said and "not shown again" in said
    assert "as client 7" in invitation_text({**TOKEN, "client": 7})


def test_a_list_has_a_line_for_each():
    ended = {**TOKEN, "revoked": 1e9, "client": 2, "note": "shelf"}
    gone = {**DEVICE, "client": 4, "revoked": 1e9}
    said = token_list_text({"tokens": [TOKEN, ended], "devices": [DEVICE, {**DEVICE, "data": "mine"}, gone]}).splitlines()
    assert said[0].startswith("token ab12: 0 of 1 used, until 2001")
    assert "revoked 2001" in said[1] and said[1].endswith(", client 2 (shelf)")
    assert said[2].endswith("from ipv4:127.0.0.1") and said[3].endswith("with 5 samples of mine")
    assert len(said) == 4


def test_an_endless_token_an_empty_list_and_a_long_one():
    assert "until it is revoked" in invitation_text({**TOKEN, "expires": None})
    assert token_list_text({"tokens": [], "devices": []}) == "no tokens\nno devices"
    said = token_list_text({"tokens": [], "devices": [DEVICE] * 60}).splitlines()
    assert len(said) == 52 and said[-1].startswith("and 10 more devices")


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


def test_wrong_use_of_certificate_is_refused(fedfleet, tmp_path):
    refused(fedfleet("certificate"), "--out")
    refused(fedfleet("certificate", "--out", tmp_path, "--host", "a b"), "--host")
    refused(fedfleet("certificate", "--out", tmp_path, "--client", "../x"), "name of a device's certificate")
    refused(fedfleet("certificate", "--out", tmp_path, "--days", 0), "--days")
    (tmp_path / "file").write_text("")
    refused(fedfleet("certificate", "--out", tmp_path / "file"), "file")
