"""Keys, nonces, secrets, signatures: made once, private, bound to what they are for, never shown."""

import hmac
import os
import stat
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.network.security.secrets import (
    RunKey,
    check_nonce,
    check_secret,
    check_signature,
    check_status_token,
    nonce_of,
    run_key,
    secret_of,
    sign_config,
    status_token,
)

KEY, OTHER = RunKey(bytes(range(32))), RunKey(bytes(32))
numbers = st.integers(0, 2**32 - 1)


def test_a_key_is_made_once_and_only_its_owner_reads_it(tmp_path):
    old = os.umask(0)  # the mode must not depend on it
    try:
        key = run_key(tmp_path / "run.key")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "run.key").stat().st_mode) == 0o600
    assert run_key(tmp_path / "run.key") == key != run_key(tmp_path / "other.key")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.key", "run.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_a_key_that_others_can_read_is_refused(tmp_path, mode):
    run_key(tmp_path / "run.key")
    (tmp_path / "run.key").chmod(mode)
    with pytest.raises(BadInput, match="chmod 600"):
        run_key(tmp_path / "run.key")


@pytest.mark.parametrize("length", [0, 31, 33, 5000])
def test_a_key_of_another_length_is_refused(tmp_path, length):
    path = tmp_path / "run.key"
    path.write_bytes(b"k" * length)
    path.chmod(0o600)
    with pytest.raises(BadInput, match="not the key of a run"):
        run_key(path)


def test_a_key_that_cannot_be_written_or_read_says_so(tmp_path):
    with pytest.raises(RunFailed, match="cannot be written"):
        run_key(tmp_path / "none" / "run.key")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunFailed, match="cannot be read"):
        run_key(tmp_path / "folder")


def test_a_key_that_another_process_made_meanwhile_stands(tmp_path, monkeypatch):
    path = tmp_path / "run.key"

    def slower(draft, target, link=os.link):
        path.write_bytes(OTHER.data)
        path.chmod(0o600)
        link(draft, target)

    monkeypatch.setattr(os, "link", slower)
    assert run_key(path) == OTHER


@given(numbers, numbers)
def test_nonces_hold_for_their_task_only(task, other):
    assert len(nonce_of(KEY, task)) == 16
    assert check_nonce(KEY, task, nonce_of(KEY, other)) == (task == other)
    assert not check_nonce(OTHER, task, nonce_of(KEY, task))


@given(st.binary(min_size=32, max_size=32), numbers, numbers)
def test_nonces_and_secrets_are_the_macs_that_devices_of_earlier_runs_hold(key, number, generation):
    task, place = number.to_bytes(8, "little"), number.to_bytes(4, "little") + generation.to_bytes(4, "little")
    assert nonce_of(RunKey(key), number) == hmac.digest(key, b"fedfleet task 1\0" + task, "sha256")[:16]
    assert secret_of(RunKey(key), number, generation) == hmac.digest(key, b"fedfleet device 1\0" + place, "sha256")


@given(numbers, numbers, numbers, numbers)
def test_secrets_hold_for_their_client_and_generation_only(client, generation, other, later):
    shown = secret_of(KEY, other, later)
    assert check_secret(KEY, client, generation, shown) == ((client, generation) == (other, later))
    assert not check_secret(OTHER, other, later, shown)


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_signatures_hold_for_their_sheet_only(sheet, other):
    secret = secret_of(KEY, 1, 1)
    assert check_signature(secret, sheet, sign_config(secret, other)) == (sheet == other)
    assert not check_signature(secret_of(KEY, 1, 2), sheet, sign_config(secret, sheet))


@pytest.mark.parametrize("shown", [b"", b"x", bytes(16), bytes(32), bytes(1000)])
def test_what_is_no_secret_is_refused_whatever_its_length(shown):
    assert not check_nonce(KEY, 3, shown)
    assert not check_secret(KEY, 3, 1, shown)
    assert not check_signature(secret_of(KEY, 1, 1), b"sheet", shown)


def test_labels_keep_uses_apart():
    """The same numbers for another use give unrelated bytes."""
    made = {
        nonce_of(KEY, 1),
        secret_of(KEY, 1, 0)[:16],
        secret_of(KEY, 0, 1)[:16],
        sign_config(KEY.data, bytes([1]))[:16],
    }
    assert len(made) == 4


def test_what_devices_keep_stays_good_in_later_versions():
    """A run that is resumed by another version must know its devices; these bytes never change."""
    secret = secret_of(KEY, 3, 2)
    assert nonce_of(KEY, 3).hex() == "934126db1f46d67cd521b276816030ce"
    assert secret.hex() == "36698d6b37e32bc242ae70f93eb11e66eb9848adea2ad207f5d2ac003f5a4b46"
    assert sign_config(secret, b"sheet").hex() == "cfee9124ecda6362f98e36f2114b89ef7dbbd946777989c562f509bb1e3e5c80"


def test_no_text_shows_the_key(tmp_path):
    said = [repr(KEY), str(KEY), f"{KEY}", repr([KEY])]
    path = tmp_path / "run.key"
    path.write_bytes(KEY.data)
    path.chmod(0o644)
    try:
        run_key(path)
    except BadInput as error:
        said += ["".join(traceback.format_exception(error)), repr(error)]
    with pytest.raises(BadInput) as short:
        RunKey(b"hush hush")
    said.append(repr(short.value))
    assert all(secret not in text for text in said for secret in (repr(KEY.data)[2:-1], KEY.data.hex(), "hush"))


def test_the_keepers_token_is_of_this_run_and_of_nothing_else():
    assert check_status_token(KEY, status_token(KEY))
    assert not check_status_token(OTHER, status_token(KEY)) and not check_status_token(KEY, "")
    assert not check_status_token(KEY, "\u00e9" * 64)
    assert bytes.fromhex(status_token(KEY)) != secret_of(KEY, 0, 1)
