"""Secrets do not get into what people read, and what people need to read does."""

import secrets

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.network.operations.redaction import HIDDEN, clean_fact, clean_facts, spellings, without_secrets
from fedfleet.network.protocol.fleet_pb2 import Caller
from fedfleet.network.security.secrets import RunKey, nonce_of, secret_of, status_token


@settings(deadline=None, max_examples=40)
@given(st.binary(min_size=16, max_size=48), st.text(max_size=20), st.text(max_size=20))
def test_a_known_secret_is_found_however_it_is_spelt(secret, before, after):
    for form in spellings(secret):
        result = without_secrets(f"{before} {form} {after}", spellings(secret))
        assert form not in result


def test_secrets_that_nobody_registered_are_recognised_by_their_looks():
    key = RunKey(bytes(range(32)))
    for secret in (secret_of(key, 3, 1).hex(), nonce_of(key, 9).hex(), status_token(key)):
        assert secret not in without_secrets(f"client 3 showed {secret}, which is wrong")


def test_tokens_are_recognised_by_their_looks():
    for _ in range(200):
        token = secrets.token_urlsafe(24)
        assert token not in without_secrets(f"a device came with {token} and was refused")


@pytest.mark.parametrize("name", ["secret", "token", "nonce", "run_key", "Authorization", "evidence", "signature"])
def test_facts_with_secret_names_are_hidden(name):
    assert clean_fact(name, "x") == clean_fact(name, 7) == clean_fact(name, b"abc") == HIDDEN


def test_what_people_need_stays():
    text = "the folder /data/runs/digits-wire/wire/t0 of transmitter 1 cannot be written; free some space"
    assert without_secrets(text) == text
    assert clean_facts({"device": 3, "share": 0.5, "ok": True, "model": "ab" * 32, "none": None}) == {
        "device": 3, "share": 0.5, "ok": True, "model": "ab" * 32, "none": None,
    }  # fmt: skip


def test_objects_and_bytes_are_told_by_kind_only():
    assert clean_fact("payload", b"12345") == "5 bytes"
    assert clean_fact("caller", Caller(client=1, secret=b"s" * 32)) == "a Caller"
    assert clean_fact("loss", float("nan")) == "nan"


def test_text_from_elsewhere_is_escaped_and_cut():
    told = clean_fact("reason", "two\nlines\x1b[2J" + "y " * 1000)
    assert isinstance(told, str) and "\n" not in told and "\x1b" not in told and len(told) <= 300
