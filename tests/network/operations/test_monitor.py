"""The live line, on a terminal and off it.

A real server as its keeper sees it: figures, health, log, status, and how it stops; also when a transmitter is killed.
"""

import base64
import io
import json
import signal
import socket
import stat
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fedfleet.core.errors import RunFailed
from fedfleet.core.events import ModelCommitted
from fedfleet.network.operations.metrics import Figures
from fedfleet.network.operations.monitor import QUIET_SECONDS, STATUS_FILE, LiveLine, duration_text, line_of
from fedfleet.network.operations.status import ask_status
from tests.network.crowd import crowd
from tests.network.harness import ground, wait_for
from tests.network.toys import Toy

BEGUN = Figures("demo", devices_online=2, declared=5, waiting_for="devices: 2 of 5 are here")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_line_says_who_is_there_and_whom_it_waits_for():
    assert line_of(replace(BEGUN, devices_online=8)).startswith("8 devices | "), "8 of 5 would be no share"
    assert line_of(BEGUN) == "2 of 5 devices | round 0 | 0 s | waiting for devices: 2 of 5 are here"
    busy = replace(BEGUN, round=3, version=3, running=2, arrived=4, lost=1, failed_rounds=2, accuracy=0.5)
    assert "round 3 | 4 of 6 reports, 1 lost | model 3, accuracy 0.500 | 2 failed" in line_of(busy)
    assert "waiting for" not in line_of(replace(BEGUN, draining=True, waiting_for="stopping"))


@given(st.text(max_size=300))
def test_it_stays_one_line_whatever_it_waits_for(text):
    told = line_of(replace(BEGUN, waiting_for=text))
    assert told.isprintable() and len(told) < 260


@given(st.floats(0, 1e8))
def test_time_is_short(seconds):
    assert len(duration_text(seconds)) < 14


def test_without_a_terminal_it_speaks_when_something_happened():
    out = io.StringIO()
    line = LiveLine(out)
    for i in range(100):
        line.show(replace(BEGUN, run_seconds=i / 2), i / 2)
    assert out.getvalue().count("\n") == 1
    line.show(replace(BEGUN, round=1, running=3), 51.0)
    line.show(replace(BEGUN, round=1, running=2, arrived=1, waiting_for="client 1"), 52.0)
    assert out.getvalue().count("\n") == 2
    line.show(replace(BEGUN, round=1, running=2, arrived=1), 51.0 + QUIET_SECONDS)
    assert out.getvalue().count("\n") == 3
    line.close()
    line.show(replace(BEGUN, round=9), 999.0)
    assert out.getvalue().count("\n") == 3, "it speaks after it was closed"


def test_on_a_terminal_it_shows_one_line_and_takes_it_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    line = LiveLine(out)
    line.show(BEGUN, 0.0)
    line._live.refresh()
    line.close()
    assert "2 of 5 devices" in out.getvalue() and out.getvalue().rstrip().endswith(("\x1b[2K", "\x1b[?25h", "\x1b[1A\x1b[2K"))


def test_quiet_is_quiet():
    out = Terminal()
    line = LiveLine(out, quiet=True)
    line.show(BEGUN, 0.0)
    line.close()
    assert out.getvalue() == ""


pytestmark = pytest.mark.slow

TOY = Toy(clients=2, rounds=500)


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "{}:{}".format(*probe.getsockname())


def page(address, path):
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def figures(address):
    """All samples by name and labels; nothing while nobody answers."""
    families = text_string_to_metric_families(page(address, "/metrics")[1])
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


def present(path):
    """Who is there, a bit each, as the server tells whoever watches its folder."""
    return f"{base64.b64decode(json.loads(path.read_text())['present'])[0]:08b}" if path.exists() else ""


@pytest.mark.slow
def test_a_server_under_its_keepers_eyes(tmp_path):
    address = free_address()
    with ground(tmp_path, TOY) as place:
        place.serve(metrics=address, transmitters=2, drain_seconds=5.0, log_level="debug")
        wait_for(lambda: page(address, "/readyz") == (200, "ok\n"), "readiness", said=lambda: place.said)
        with crowd(TOY, place.address, pause=lambda client, task: 0.1):
            place.await_event(ModelCommitted)
            seen = wait_for(lambda: (found := figures(address)).get(("fedfleet_commits_total",), 0) >= 1 and found, "a commit")
            assert seen["fedfleet_devices_enrolled",] == seen["fedfleet_devices_declared",] == 2
            before = wait_for(lambda: (f := figures(address)).get(("fedfleet_calls_total", "Hand", "OK"), 0) >= 2 and f, "calls")
            assert before["fedfleet_reports_total", "folded"] >= 2 and before["fedfleet_bytes_total", "up"] > 0
            place.kill_transmitter(0)
            after = wait_for(lambda: (f := figures(address)).get(("fedfleet_transmitter_restarts_total",)) == 1 and f, "a restart")
            fell = [n for n, v in before.items() if n[0].endswith(("_total", "_bucket")) and after[n] < v]
            assert not fell
            wait_for(lambda: page(address, "/readyz")[0] == 200, "readiness again")
            with pytest.raises(RunFailed, match="takes devices; it gives its status only to callers with its token"):
                ask_status(place.address)
            said = ask_status(place.address, token=(place.out / "wire" / "status.token").read_text().strip())
            assert said["run"] == "toy" and said["commits"] >= 1 and said["devices_online"] <= 2
            here = wait_for(lambda: present(place.out / "wire" / STATUS_FILE) == "11000000", "both devices in the file")
            assert here and stat.S_IMODE((place.out / "wire" / STATUS_FILE).stat().st_mode) == 0o600
        place.server.send_signal(signal.SIGTERM)
        assert place.ended() == 130
        assert not (place.out / "wire" / STATUS_FILE).exists(), "whoever has stopped says nothing of now"
        log = place.out / "wire" / "log.jsonl"
        told = [json.loads(line) for line in log.read_text().splitlines()]
        texts = [entry["text"] for entry in told]
        assert "a device enrolled" in texts and "a model was made" in texts and "asked to stop" in texts
        assert {entry["run"] for entry in told} == {"toy"}
        assert {entry["device"] for entry in told if entry["text"] == "a device enrolled"} == {0, 1}
        assert stat.S_IMODE(log.stat().st_mode) == stat.S_IMODE((log.parent / "status.token").stat().st_mode) == 0o600
        assert (log.parent / "run.key").read_bytes().hex() not in log.read_text()


def test_counts_of_the_run_go_on_after_a_kill(tmp_path):
    address = free_address()
    with ground(tmp_path, TOY) as place:
        place.serve(metrics=address, transmitters=1)
        place.await_listening()
        with crowd(TOY, place.address, pause=lambda client, task: 0.1):
            place.await_event(ModelCommitted)
            place.kill_everything()
            made = len(place.models())
            place.serve(metrics=address, transmitters=1, resume=True)
            result = wait_for(lambda: figures(address), "figures", said=lambda: place.said)
            assert result["fedfleet_commits_total",] >= made and result["fedfleet_reports_total", "folded"] >= 2 * made


def test_a_port_for_metrics_that_is_taken_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken, ground(tmp_path, TOY) as place:
        place.serve(metrics="{}:{}".format(*taken.getsockname()), transmitters=1)
        assert place.ended() == 2
        assert place.said.count("\n") == 1 and "cannot listen at" in place.said
