"""A million malformed messages at the decoders, instead of the sample that every test run takes."""

import pytest

from tests.app.assemble import test_sheet_fuzz as sheet_fuzz
from tests.runtime.wire.test_fuzz import check, fuzzed

MESSAGES = 250_000


@pytest.mark.parametrize("seed", [11, 12, 13, 14])
def test_a_million_malformed_messages(seed):
    check(fuzzed(seed, MESSAGES), MESSAGES)


def test_ten_thousand_malformed_sheets():
    sheet_fuzz.check(sheet_fuzz.fuzzed(21, 10_000), 10_000)
