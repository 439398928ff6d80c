"""The checksum where google-crc32c is missing: its numbers, for bytes of any length."""

import subprocess
import sys

import google_crc32c
import numpy as np
import pytest

from fedfleet.network.protocol.checksums import extend_plainly, value_plainly

# Around what goes byte by byte, whole words, whole lanes, and the most lanes.
LENGTHS = (0, 1, 9, 1023, 1024, 1025, 1026, 1027, 4096, 4099, 65535, 65536, 262144, 1_000_003)


@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_the_library_s_number(length):
    data = np.random.default_rng(length).integers(0, 256, length, np.uint8).tobytes()
    assert value_plainly(data) == google_crc32c.value(data)
    assert value_plainly(np.frombuffer(data, np.uint8)) == google_crc32c.value(data)
    for cut in {0, length // 3, length}:
        assert extend_plainly(google_crc32c.value(data[:cut]), data[cut:]) == google_crc32c.value(data)


def test_zeros_count():
    assert {value_plainly(b"\0" * n) for n in (0, 1, 2000, 2001)} == {google_crc32c.value(b"\0" * n) for n in (0, 1, 2000, 2001)}


def test_a_message_does_not_load_numpy():
    code = (
        "import sys; from fedfleet.network.protocol.checksums import value_plainly; data = bytes(range(256)) * 200;"
        "print(value_plainly(data), 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(google_crc32c.value(bytes(range(256)) * 200)), "False"]
