"""A fake server for each test."""

from tests.network.device.conftest import fake

__all__ = ["fake"]
