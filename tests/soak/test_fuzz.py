"""A million malformed messages at the decoders, instead of the sample that every test run takes."""

import pytest

from tests.runtime.wire.test_fuzz import check, fuzzed

MESSAGES = 250_000


@pytest.mark.parametrize("seed", [11, 12, 13, 14])
def test_a_million_malformed_messages(seed):
    check(fuzzed(seed, MESSAGES), MESSAGES)
