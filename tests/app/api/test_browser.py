"""`fedfleet dashboard` on the command line: it says where it is, closes at Ctrl-C, and refuses in one sentence."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from fedfleet.app.dashboard.web_server import bind_socket
from tests.app.dashboard.runs import folder_of
from tests.app.demo.conftest import short
from tests.app.specs import refused

pytestmark = pytest.mark.slow


def test_it_opens_and_closes(tmp_path):
    folder_of(tmp_path, "a")
    words = [sys.executable, "-m", "fedfleet.app.cli.main", "dashboard", tmp_path, "--port", "0", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = json.loads(process.stdout.readline())
        assert said["runs"] == str(tmp_path) and said["address"].startswith("http://127.0.0.1:")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(said["address"] + "events?run=a", timeout=60) as stream:  # an open page does not hold it up
            assert stream.readline().startswith(b"data:")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        assert process.stderr.read().strip() == "fedfleet: the dashboard is closed; the runs that it started continue"
    finally:
        process.kill()
        process.wait()


def test_wrong_use_is_one_sentence(fedfleet, tmp_path):
    refused(fedfleet("dashboard", tmp_path / "none"), "start a run first")
    refused(
        fedfleet("dashboard", tmp_path, "--host", "0.0.0.0"),
        "--token-file and --certificate with --key",
        "fedfleet certificate",
    )
    refused(fedfleet("dashboard", tmp_path, "--token", "short"), "could be guessed")
    refused(fedfleet("dashboard", tmp_path, "--certificate", "a.pem"), "belong together")
    held = bind_socket("127.0.0.1", 0)
    try:
        refused(fedfleet("dashboard", tmp_path, "--port", held.getsockname()[1]), "is taken", "--port")
    finally:
        held.close()


__all__ = ["short"]


def test_the_demo_writes_its_runs_and_one_page(short, fedfleet, tmp_path):
    code, out, _ = fedfleet("demo", "--out", tmp_path / "demo", "--json")
    got = json.loads(out)
    assert code == 0 and got["report"] == str(tmp_path / "demo/index.html")
    assert len(got["runs"]) == 10 and {r["seed"] for r in got["runs"]} == {7, 8}
    assert {r["method"] for r in got["ways"]} >= {"FedBuff", "ShuffleFL"}
    page = (tmp_path / "demo/index.html").read_text()
    assert [row["fleet"] for row in got["recommendations"]] == ["mild", "users"]
    assert "<script" not in page and page.count("<h1>") == 1
    links = set(re.findall(r'href="([^"#]+)"', page))
    assert len(links) == 10 and all((tmp_path / "demo" / link).is_file() for link in links), "every run opens"


def test_a_folder_that_is_no_demo_is_refused(fedfleet, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    refused(fedfleet("demo", "--out", tmp_path), "is not a demo", "--out")
