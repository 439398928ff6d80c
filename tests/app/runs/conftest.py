"""A run with users and edges, finished once for all tests here."""

import pytest

import fedfleet as ff
from fedfleet.app.runs import perform
from tests.app.runs.owned import Net, blobs, focal, row, share_right
from tests.app.runs.owning import spec_for
from tests.app.users import spec_with


@pytest.fixture(scope="session")
def edge_run(tmp_path_factory):
    return perform(spec_with(), tmp_path_factory.mktemp("edges") / "out")


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """A finished run of PyTorch's own layers; leave its folder as it is."""
    out = tmp_path_factory.mktemp("plain") / "run"
    return ff.run(spec_for(), model=row(), data=blobs(owners=True), out=out)


@pytest.fixture(scope="session")
def coded(tmp_path_factory):
    """A finished run of a class, with a loss and a metric that are code as well; leave its folder as it is."""
    out = tmp_path_factory.mktemp("coded") / "run"
    return ff.run(spec_for(), model=Net, data=blobs(), loss=focal, metrics={"right": share_right}, out=out)
