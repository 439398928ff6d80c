"""Signatures of sealed runs: Ed25519 keys in OpenSSH's or PEM form, so that a reviewer can check whose run it is."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput


def sign(message: bytes, key_file: Path) -> dict[str, str]:
    """The signature of a message with the private key in a file, and the public key beside it."""
    key = load_private_key(key_file)
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return {"key": public, "signature": base64.b64encode(key.sign(message)).decode()}


def load_private_key(path: Path) -> Any:
    """An Ed25519 private key without a passphrase."""
    keys, formats = _library()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"--sign: cannot read the key {path} ({error.strerror})") from None
    reader = formats.load_ssh_private_key if b"OPENSSH" in data else formats.load_pem_private_key
    try:
        key = reader(data, None)
    except (ValueError, TypeError) as error:
        raise BadInput(f"--sign: {path} cannot be used as a private key without a passphrase ({error})") from None
    if not isinstance(key, keys.Ed25519PrivateKey):
        raise BadInput(f"--sign: {path} is not an Ed25519 key; make one with: ssh-keygen -t ed25519 -N '' -f {path}.new")
    return key


def signer_of(message: bytes, signature: Mapping[str, str]) -> str:
    """The fingerprint of the key that signed a message, as OpenSSH shows it; a wrong signature is refused."""
    keys, formats = _library()
    from cryptography.exceptions import InvalidSignature

    try:
        key = formats.load_ssh_public_key(signature["key"].encode())
        if not isinstance(key, keys.Ed25519PublicKey):
            raise ValueError("it is not an Ed25519 key")
        key.verify(base64.b64decode(signature["signature"], validate=True), message)
    except InvalidSignature:
        raise BadInput(
            "the signature does not match the seal: one of them was changed, or it was signed with another key"
        ) from None
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadInput(f"the signature of the seal cannot be read: {error}") from None
    return fingerprint(signature["key"])


def fingerprint(public: str) -> str:
    """The name of a public key in OpenSSH's form: `SHA256:..`, as `ssh-keygen -l` prints it."""
    try:
        blob = base64.b64decode(public.split()[1], validate=True)
    except (IndexError, binascii.Error, ValueError):
        raise BadInput("this is not a public key in OpenSSH's form: ssh-ed25519 AAAA..") from None
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise BadInput("signatures need the extra `sign`: pip install 'fedfleet[sign]'") from None
    return ed25519, serialization
