"""A run with users and edges, finished once for all tests here."""

import pytest

from fedfleet.app.runs import perform
from tests.app.users import spec_with


@pytest.fixture(scope="session")
def edge_run(tmp_path_factory):
    return perform(spec_with(), tmp_path_factory.mktemp("edges") / "out")
