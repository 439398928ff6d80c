"""Where noise comes from: a secret that is never written, a salt for every run, and one sentence for every wrong file."""

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.store.noise_source import VARIABLE, NoiseSource, key_for, new_source, secret_file


@pytest.fixture
def secret(tmp_path, monkeypatch):
    path = tmp_path / "secret"
    path.write_bytes(bytes(range(40)))
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_without_a_secret_the_seed_serves(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert secret_file() is None
    assert new_source() == {"from": "seed"}
    assert key_for({"from": "seed"}) is None
    assert key_for({}) is None


def test_every_run_has_a_key_of_its_own_and_finds_it_again(secret):
    one, two = new_source(), new_source()
    assert one["from"] == "secret" and one["salt"] != two["salt"]
    assert key_for(one) == key_for(one) != key_for(two)
    said = repr((one, NoiseSource(key_for(one))))
    assert secret.read_bytes().hex() not in said and key_for(one).hex() not in said
    assert repr(key_for(one)) not in said


def test_another_secret_is_recognised(secret):
    source = new_source()
    secret.write_bytes(bytes(range(50, 90)))
    with pytest.raises(BadInput, match="does not hold the secret of this run"):
        key_for(source)


def test_a_secret_that_is_not_named_is_asked_for(secret, monkeypatch):
    source = new_source()
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(BadInput, match=f"set the environment variable {VARIABLE} to the path"):
        key_for(source)


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 64, b"ab" * 32], ids=["empty", "short", "zeros", "two letters"])
def test_a_file_that_holds_no_secret_is_refused_with_the_cure(secret, content):
    secret.write_bytes(content)
    with pytest.raises(BadInput, match="head -c 32 /dev/urandom"):
        new_source()


def test_a_file_that_is_not_there_is_refused(secret):
    secret.unlink()
    with pytest.raises(BadInput, match=r"cannot read .*secret"):
        new_source()
