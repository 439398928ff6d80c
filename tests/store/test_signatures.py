"""Signatures with keys as people have them."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from fedfleet.core.errors import BadInput
from fedfleet.store.signatures import fingerprint, load_private_key, sign, signer_of

FORMS = {"ssh": serialization.PrivateFormat.OpenSSH, "pem": serialization.PrivateFormat.PKCS8}


def key_file(folder, form="ssh", key=None, name="key"):
    """A private key in a file, and its public one beside it."""
    key = key or ed25519.Ed25519PrivateKey.generate()
    (folder / name).write_bytes(key.private_bytes(serialization.Encoding.PEM, FORMS[form], serialization.NoEncryption()))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public + b" me@home\n")
    return folder / name


@pytest.mark.parametrize("form", FORMS)
def test_a_signature_tells_who_signed_and_fits_one_message(tmp_path, form):
    made = sign(b"message", key_file(tmp_path, form))
    assert signer_of(b"message", made) == fingerprint((tmp_path / "key.pub").read_text())
    with pytest.raises(BadInput, match="does not match the seal"):
        signer_of(b"another", made)
    other = sign(b"message", key_file(tmp_path, form, name="other"))
    with pytest.raises(BadInput, match="does not match the seal"):
        signer_of(b"message", {**made, "signature": other["signature"]})


@pytest.mark.parametrize("spoilt", [{"key": "ssh-ed25519 !"}, {"key": ""}, {"signature": "?"}, {"signature": "AAAA"}])
def test_a_signature_that_is_none_is_one_sentence(tmp_path, spoilt):
    with pytest.raises(BadInput, match="signature"):
        signer_of(b"message", {**sign(b"message", key_file(tmp_path)), **spoilt})


def test_keys_that_cannot_sign_are_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot read the key"):
        load_private_key(tmp_path / "none")
    (tmp_path / "text").write_text("not a key")
    with pytest.raises(BadInput, match="cannot be used as a private key"):
        load_private_key(tmp_path / "text")
    with pytest.raises(BadInput, match="not an Ed25519 key; make one with: ssh-keygen"):
        load_private_key(key_file(tmp_path, "pem", ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(BadInput, match="not a public key"):
        fingerprint("me@home")
