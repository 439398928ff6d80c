"""A million malformed messages at the decoders and ten thousand calls through the port: every test run takes a sample."""

import pytest

from tests.app.assemble import test_sheet_fuzz as sheet_fuzz
from tests.network.test_fuzz import check, fuzzed
from tests.network.test_port_fuzz import at_the_door

MESSAGES = 250_000


@pytest.mark.parametrize("seed", [11, 12, 13, 14])
def test_a_million_malformed_messages(seed):
    check(fuzzed(seed, MESSAGES), MESSAGES)


@pytest.mark.parametrize("where", ["server", "devices"])
def test_ten_thousand_malformed_calls_through_the_port(tmp_path, where):
    at_the_door(tmp_path, 31, 10_000, evaluate=where, evaluate_seconds=0.3)


def test_ten_thousand_malformed_sheets():
    sheet_fuzz.check(sheet_fuzz.fuzzed(21, 10_000), 10_000)
