"""A fake server for each test."""

import pytest

from tests.network.device.fake import Fake


@pytest.fixture(params=[Fake], ids=["gRPC"])
def fake(request):
    server = request.param()
    yield server
    server.stop()
