"""A fake server for each test."""

import pytest

from tests.network.device.fake import Fake


@pytest.fixture
def fake():
    server = Fake()
    yield server
    server.stop()
