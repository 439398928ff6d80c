"""Tokens and certificates are tried before anything listens."""

import pytest

from fedfleet.app.dashboard.options import certificate_from, token_from
from fedfleet.core.errors import BadInput


def test_tokens(tmp_path):
    (tmp_path / "token").write_text("a-long-token\n")
    (tmp_path / "empty").write_text("\n")
    assert token_from(None, None) == "" and token_from("x", None) == "x"
    assert token_from(None, tmp_path / "token") == "a-long-token"
    wrong = [
        ("x", tmp_path, "give one"), (None, tmp_path / "none", "cannot read"), (None, tmp_path / "empty", "is empty"),
        ("a b", None, "one word"), ("é", None, "one word"),
    ]  # fmt: skip
    for token, file, said in wrong:
        with pytest.raises(BadInput, match=said):
            token_from(token, file)


def test_certificates(tmp_path):
    assert certificate_from(None, None) is None
    with pytest.raises(BadInput, match="belong together"):
        certificate_from(tmp_path, None)
    (tmp_path / "a.pem").write_text("nothing")
    for name in ("a.pem", "none.pem"):
        with pytest.raises(BadInput, match="with fedfleet certificate"):
            certificate_from(tmp_path / name, tmp_path / name)
