"""Tokens and devices as text."""

from fedfleet.app.terminal.invitation_text import invitation_text, token_list_text

TOKEN = {"id": "ab12", "uses": 1, "used": 0, "expires": 1e9, "client": None, "note": "", "revoked": None}
DEVICE = {"client": 3, "enrolled": 1e9, "peer": "ipv4:127.0.0.1", "samples": 5, "data": "", "revoked": None}


def test_a_new_token_says_for_whom_and_how_long():
    assert invitation_text(TOKEN).startswith("token ab12 is good for one device until 2001-09-")
    said = invitation_text({**TOKEN, "uses": 3})
    assert "for 3 devices" in said and "not shown again" in said
    assert "as client 7" in invitation_text({**TOKEN, "client": 7})


def test_a_list_has_a_line_for_each():
    ended = {**TOKEN, "revoked": 1e9, "client": 2, "note": "shelf"}
    gone = {**DEVICE, "client": 4, "revoked": 1e9}
    said = token_list_text(
        {"tokens": [TOKEN, ended], "devices": [DEVICE, {**DEVICE, "data": "mine"}, gone]}
    ).splitlines()
    assert said[0].startswith("token ab12: 0 of 1 used, until 2001")
    assert "revoked 2001" in said[1] and said[1].endswith(", client 2 (shelf)")
    assert said[2].endswith("from ipv4:127.0.0.1") and said[3].endswith("with 5 samples of mine")
    assert len(said) == 4


def test_an_endless_token_an_empty_list_and_a_long_one():
    assert "until it is revoked" in invitation_text({**TOKEN, "expires": None})
    assert token_list_text({"tokens": [], "devices": []}) == "no tokens\nno devices"
    said = token_list_text({"tokens": [], "devices": [DEVICE] * 60}).splitlines()
    assert len(said) == 52 and said[-1].startswith("and 10 more devices")
