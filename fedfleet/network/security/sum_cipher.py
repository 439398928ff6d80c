"""Encryption of what a private run has on disk before its noise is in it: sums of a commit to come, reports on their way.

The key follows from the secret of the noise, and like it is in memory alone. Who has the secret could take the noise out of every
aggregate; who has the disk without it reads neither. So a kill loses no acknowledged report, and no disk shows a sum without noise.

AES-256 in counter mode, each time with a fresh random nonce; checksums are of what lies on the disk.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.trees import Array, Tree

NONCE_BYTES = 16
_LABEL = b"fedfleet sums at rest 1\0"
Bytes = bytes | bytearray | memoryview


class SumCipher:
    """The cipher of one run; its text never shows the key. `mark` tells which key it is."""

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        except ImportError:
            raise BadInput(
                "algorithm.private: a served run encrypts its sums on disk with cryptography, which is not installed; install "
                "it with: pip install 'fedfleet[private]'"
            ) from None
        derived = hmac.digest(key, _LABEL, "sha256")
        self.mark = hashlib.sha256(_LABEL + derived).hexdigest()[:16]
        self._stream: Callable[[bytes], Any] = lambda nonce: Cipher(algorithms.AES(derived), modes.CTR(nonce)).encryptor()

    def keystream(self, nonce: bytes) -> Callable[[Bytes], bytes]:
        """A function that encrypts, or decrypts, one piece after the other."""
        return self._stream(nonce).update

    def encrypt(self, data: Bytes) -> bytes:
        """Bytes as they may lie on a disk: a nonce, and as many bytes as there were."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self.keystream(nonce)(data)

    def decrypt(self, data: Bytes) -> bytes:
        """The inverse of `encrypt`; also of its beginning."""
        if len(data) < NONCE_BYTES:
            raise Refused("these bytes are not encrypted")
        return self.keystream(bytes(data[:NONCE_BYTES]))(data[NONCE_BYTES:])

    def encrypt_tree(self, tree: Tree) -> tuple[Tree, dict[str, Any]]:
        """A tree whose leaves are encrypted, with their shapes and types; and what is stored with it."""
        nonce = os.urandom(NONCE_BYTES)
        return self._through(tree, nonce), {"nonce": nonce.hex(), "key": self.mark}

    def decrypt_tree(self, tree: Tree, meta: Mapping[str, Any]) -> Tree:
        """The inverse of `encrypt_tree`."""
        if meta.get("key") != self.mark:
            raise Refused("these sums were encrypted with another secret")
        return self._through(tree, bytes.fromhex(meta["nonce"]))

    def _through(self, tree: Tree, nonce: bytes) -> Tree:
        update = self.keystream(nonce)
        return {name: _same_kind(update(_bytes_of(tree[name])), tree[name]) for name in sorted(tree)}


def _bytes_of(leaf: Array) -> bytes:
    return np.asarray(leaf, order="C").tobytes()


def _same_kind(data: bytes, leaf: Array) -> Array:
    leaf = np.asarray(leaf)
    return np.frombuffer(data, leaf.dtype).reshape(leaf.shape)


def cipher_of(key: bytes | None) -> SumCipher | None:
    """The cipher of a run whose noise comes from this key; None if it has none: its sums lie on disk as they are."""
    return None if key is None else SumCipher(key)
