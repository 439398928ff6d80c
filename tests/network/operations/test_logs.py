"""The log: objects a line, private, rotated, without secrets, and never in the way of the server."""

import asyncio
import io
import json
import logging
import os
import secrets
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.network.operations import logs
from fedfleet.network.operations.logs import (
    HIDDEN,
    FloodFilter,
    RunLog,
    clean_fact,
    clean_facts,
    no_log,
    spellings,
    without_secrets,
)
from fedfleet.network.protocol.fleet_pb2 import Caller
from fedfleet.network.security.secrets import RunKey, nonce_of, secret_of, status_token


@pytest.fixture
def opened(tmp_path):
    """Open a log that is closed after the test; (log, what people see, its entries)."""
    made = []

    def open_(**options):
        people = io.StringIO()
        log = RunLog(tmp_path / "log.jsonl", "demo", stream=lambda: people, **options)
        made.append(log)

        def entries():
            log.close()
            return [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]

        return log, people, entries

    yield open_
    for log in made:
        log.close()


def test_every_entry_says_whose_it_is(opened):
    log, people, entries = opened()
    log.say("info", "a device enrolled", device=3)
    log.say("warning", "a report was rejected", device=3, task=17, round=2, reason="not finite")
    first, second = entries()
    assert first["time"].endswith("Z") and (first["level"], first["run"], first["process"]) == (
        "info", "demo", "processor",
    )  # fmt: skip
    assert first["text"] == "a device enrolled" and first["device"] == 3 and "task" not in first
    assert (second["device"], second["task"], second["round"]) == (3, 17, 2)
    shown = people.getvalue()
    assert "enrolled" not in shown and "warning: a report was rejected (device 3, task 17, round 2" in shown


def test_levels(opened):
    log, people, entries = opened(level="warning", stderr_level=None)
    log.say("info", "nothing much")
    log.say("error", "much")
    assert [entry["text"] for entry in entries()] == ["much"] and people.getvalue() == ""


def test_secrets_are_never_written(opened, tmp_path):
    log, people, entries = opened(stderr_level="debug", level="debug")
    key = bytes(range(32))
    log.hide(key)
    log.say("info", f"the key is {key.hex()}")
    log.say("info", "a device came", token="abc", nonce=b"n" * 16, secret="s3cret", note=f"with {key!r}")
    try:
        raise ValueError(f"token=abc does not fit {key.hex()}")
    except ValueError as error:
        log.say("error", "it failed", error=error)
    logging.getLogger("asyncio").error("lost %s", key.hex())
    told = entries()
    everything = (tmp_path / "log.jsonl").read_text() + people.getvalue()
    for secret in (key.hex(), "abc", "s3cret", repr(key), "nnnn"):
        assert secret not in everything
    assert told[2]["error"] == "ValueError" and told[2]["where"][0].startswith("test_logs.py:")
    assert told[3]["library"] == "asyncio"


def test_lines_cannot_be_forged(opened, tmp_path):
    log, people, entries = opened(stderr_level="info")
    log.say("info", "a device said", reason='x"}\n{"level": "error", "text": "forged"}\x1b[2J\u202e')
    assert len(entries()) == 1
    assert people.getvalue().count("\n") == 1 and "\x1b" not in people.getvalue()
    assert (tmp_path / "log.jsonl").read_bytes().isascii()


def test_the_file_is_private_also_after_turning_over(opened, tmp_path):
    old = os.umask(0)
    try:
        log, _, _ = opened(max_bytes=2000, stderr_level=None)
        for i in range(100):
            log.say("info", f"entry {i}", fill="f " * 60)
        log.close()
    finally:
        os.umask(old)
    files = sorted(tmp_path.glob("log.jsonl*"))
    assert 2 <= len(files) <= logs.KEPT_FILES + 1
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    assert all(path.stat().st_size <= 2500 for path in files)


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"log\.jsonl"):
        RunLog(tmp_path / "log.jsonl", "demo")


def test_a_flood_is_cut_off_and_says_so(opened):
    log, _, entries = opened(stderr_level=None)
    for device in range(1000):
        log.say("warning", "an upload was damaged", device=device)
    log.say("info", "something else")
    told = entries()
    assert len(told) == 51 and told[-1]["text"] == "something else" and log.dropped == 950
    assert "not written" in told[49]["note"]


def test_after_a_while_it_is_written_again():
    flood = FloodFilter(most=2, seconds=10.0)
    assert [flood.passes("x", 100.0) for _ in range(3)] == [True, True, False]
    assert flood.passes("y", 100.0) and flood.passes("x", 110.0)
    for i in range(5000):
        flood.passes(str(i), 111.0)
    assert len(flood.counts) <= 1000


def test_a_disk_that_cannot_be_written_is_said_once_and_the_server_goes_on(opened, capsys):
    log, _, _ = opened(stderr_level=None)
    handler = log._listener.handlers[0]
    handler.stream.close()
    handler.stream = open("/dev/full", "w")  # noqa: SIM115 - the log closes it
    for _ in range(3):
        log.say("info", "something")
    log.close()
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_what_libraries_complain_of_is_here_while_it_is_open(opened):
    log, _, entries = opened(stderr_level=None)

    async def forgets():
        asyncio.get_running_loop().call_exception_handler({"message": "a task was forgotten"})

    asyncio.run(forgets())
    told = entries()
    assert told[0]["library"] == "asyncio" and "forgotten" in told[0]["text"]
    before = len(logging.getLogger("asyncio").handlers)
    log.close()
    assert len(logging.getLogger("asyncio").handlers) == before


def test_nobody_has_to_keep_a_log():
    no_log("info", "anything", device=1)


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
    text = "the folder /data/runs/digits-wire/wire/t0 of frontend 1 cannot be written; free some space"
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
