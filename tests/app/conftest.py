"""The command line, called in this process; one finished run that many tests look at; a web server with a dataset."""

import shutil
import sys
import threading

import pytest

from fedfleet.app.cli import main
from fedfleet.app.datasets.catalogue import DATASETS, PublicDataset, RemoteFile
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from tests.app.datasets.shelf import BODY, Server, Shelf, handler, known
from tests.app.specs import written


@pytest.fixture
def fedfleet(monkeypatch, capsys):
    """Call the command: (exit code, standard output, standard error)."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["fedfleet", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return call


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """A finished run of the tiny spec; leave its folder as it is."""
    folder = tmp_path_factory.mktemp("tiny")
    done = perform(load_spec(written(folder)), folder / "out")
    write_report(done)
    return done


@pytest.fixture
def run_copy(tiny_run, tmp_path):
    """A copy of the finished run's folder, to be spoilt."""
    return shutil.copytree(tiny_run.out, tmp_path / "copy")


@pytest.fixture
def shelf(monkeypatch):
    """A web server on the loopback; change the shelf to change how it behaves."""
    monkeypatch.setenv("no_proxy", "*")
    shelf = Shelf()
    with Server(("127.0.0.1", 0), handler(shelf)) as server:
        shelf.url = f"http://127.0.0.1:{server.server_port}/file"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield shelf
        server.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path):
    """Where a fetched file will be."""
    return tmp_path / "there" / "file.bin"


@pytest.fixture
def tiny(shelf, monkeypatch):
    """The shelf, and on it a dataset called tiny."""
    files = (known(shelf), RemoteFile("deep/other.bin", shelf.url, len(BODY)))
    monkeypatch.setitem(DATASETS, "tiny", PublicDataset("a test", "terms of a test", files, ("tiny:{at}/file.bin",)))
    return shelf
