"""The commands of the page on HTTP, in their order, at a real server: what somebody types who writes a device."""

import json
import socket
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, blocks
from tests.network.harness import free_address, wait_for

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs/reference/http.md"
SPEC = """
seed = 7
task.use = "digits_logreg"
world.clients = 1
pace = { use = "readiness", cohort = 1, t_break = 0.1, min_clients = 1 }
stop.rounds = 3
"""


def listens(address):
    with socket.socket() as caller:
        return caller.connect_ex((address.split(":")[0], int(address.split(":")[1]))) == 0


def test_what_the_page_types_works(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    address, http = free_address(), free_address()
    words = ["serve", "spec.toml", "--out", "served", "--address", address, "--http", http, "--transmitters", "1", "--json"]
    script = "set -eu -o pipefail\n" + "\n".join(block.text for block in blocks(PAGE) if block.language == "sh")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "URL": f"http://{http}", "TOKEN": ""}
    with (tmp_path / "server.err").open("w") as err:
        server = subprocess.Popen([sys.executable, "-m", "fedfleet.app.cli.main", *words], cwd=tmp_path, stdout=err, stderr=err)
    try:
        wait_for(lambda: listens(http) or server.poll() is not None, "a server that listens")
        out = subprocess.run(["bash", "-xc", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
        assert out.returncode == 0, out.stdout + out.stderr[-4000:] + (tmp_path / "server.err").read_text()
    finally:
        server.kill()
        server.wait()
    profiles = (tmp_path / "served/profiles.jsonl").read_text().splitlines()
    assert [(json.loads(line)["model"], json.loads(line)["kind"]) for line in profiles] == [("digits_logreg", "Pixel 6")]
