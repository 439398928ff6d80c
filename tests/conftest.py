"""What one test registers, no other sees."""

import pytest

from fedfleet.core import registry


@pytest.fixture(autouse=True)
def own_registry():
    before = {kind: dict(parts) for kind, parts in registry._added.items()}
    yield
    for kind, parts in registry._added.items():
        parts.clear()
        parts.update(before[kind])
