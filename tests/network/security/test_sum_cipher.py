"""What is encrypted comes back with the same key alone, and shows nothing on the way."""

import sys

import numpy as np
import pytest

from fedfleet.core.errors import BadInput, Refused
from fedfleet.network.security.sum_cipher import NONCE_BYTES, SumCipher, cipher_of

KEY, OTHER = bytes(range(32)), bytes(32)
TREE = {"b": np.arange(6, dtype=np.int64).reshape(2, 3), "a": np.array(3.5), "none": np.zeros((0, 4), np.float32)}


def test_bytes_come_back_whole_and_from_their_beginning():
    cipher, data = SumCipher(KEY), bytes(1000)
    stored = cipher.encrypt(memoryview(data))
    assert len(stored) == NONCE_BYTES + 1000 and bytes(16) not in stored
    assert SumCipher(KEY).decrypt(stored) == data and cipher.decrypt(stored[:500]) == data[: 500 - NONCE_BYTES]
    assert SumCipher(OTHER).decrypt(stored) != data
    assert cipher.encrypt(data) != stored, "a nonce is never used twice"
    with pytest.raises(Refused):
        cipher.decrypt(b"short")


def test_pieces_are_one_stream():
    cipher, nonce = SumCipher(KEY), bytes(NONCE_BYTES)
    whole, pieces = cipher.keystream(nonce), cipher.keystream(nonce)
    assert whole(bytes(100)) == pieces(bytes(33)) + pieces(bytes(67))


def test_trees_keep_shapes_and_types_and_are_refused_with_another_secret():
    stored, meta = SumCipher(KEY).encrypt_tree(TREE)
    assert {n: (v.shape, v.dtype) for n, v in stored.items()} == {n: (v.shape, v.dtype) for n, v in TREE.items()}
    assert not np.array_equal(stored["b"], TREE["b"])
    back = SumCipher(KEY).decrypt_tree(stored, meta)
    assert all(np.array_equal(back[n], TREE[n]) for n in TREE)
    for key, wrong in ((OTHER, meta), (KEY, {})):
        with pytest.raises(Refused, match="another secret"):
            SumCipher(key).decrypt_tree(stored, wrong)


def test_neither_text_nor_mark_shows_the_key():
    cipher = SumCipher(KEY)
    assert KEY.hex() not in repr(cipher) and cipher.mark not in KEY.hex()
    assert cipher.mark == SumCipher(KEY).mark != SumCipher(OTHER).mark


def test_a_run_without_a_secret_has_no_cipher_and_a_missing_library_is_named(monkeypatch):
    assert cipher_of(None) is None
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(BadInput, match=r"pip install 'fedfleet\[private\]'"):
        cipher_of(KEY)
