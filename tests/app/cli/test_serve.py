"""`fedfleet serve` and `fedfleet device` as two people use them."""

import json
import re
import subprocess
import sys
import time

from tests.app.runs.test_served_run import ROUNDS
from tests.app.specs import refused, written


def test_a_server_and_its_devices_finish_a_run_with_a_report(tmp_path):
    command = [sys.executable, "-m", "fedfleet.app.cli.main"]
    words = ["serve", written(tmp_path, ROUNDS), "--address", "127.0.0.1:0", "--out", tmp_path / "out", "--json"]
    said = tmp_path / "server.err"
    with said.open("w") as err:
        server = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=err, text=True)
    started = [server]
    try:
        until = time.monotonic() + 120
        while not (result := re.search(r"listening on (\S+)", said.read_text())):
            assert server.poll() is None and time.monotonic() < until, said.read_text()
            time.sleep(0.02)
        for client in range(2):
            device = [
                *command,
                "device",
                "--server",
                result[1],
                "--client",
                str(client),
                "--store",
                tmp_path / f"d{client}",
            ]
            started.append(subprocess.Popen(device, stdout=subprocess.PIPE, text=True))
        answers = [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait(10)
    assert [process.returncode for process in started] == [0, 0, 0]
    assert json.loads(answers[0])["commits"] == 2
    assert [re.match(r"client \d finished 2 tasks", said) is not None for said in answers[1:]] == [True, True]
    assert (tmp_path / "out/report.html").is_file()


def test_what_cannot_be_served_is_refused(fedfleet, tmp_path):
    spec = written(tmp_path, ROUNDS)
    refused(fedfleet("serve", spec, "--address", "nowhere"), "HOST:PORT")
    refused(fedfleet("serve", tmp_path / "none.toml"), "no spec file")
    refused(fedfleet("serve", spec, "--devices", 3), "3 devices")
    refused(fedfleet("serve", spec, "--address", "0.0.0.0:0"), "without TLS")
    refused(fedfleet("serve", spec, "--certificate", tmp_path / "none.pem"), "--key")
    refused(fedfleet("serve", spec, "--evaluate", "nobody"), "server, devices or both")
    refused(fedfleet("serve", spec, "--resume", "--out", tmp_path / "typo"), "there is no folder")
    assert not (tmp_path / "typo").exists()
