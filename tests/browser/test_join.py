"""The page that makes a browser a device: what a person sees, and that it takes part whatever happens to it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from fedfleet.core.events import ModelCommitted
from tests.app.runs.test_served_run import free_address
from tests.browser.conftest import NAMES
from tests.network.fleets import end
from tests.network.harness import PATIENT, ROOT, children, command_of, ground, wait_for
from tests.network.page.test_node_devices import start as start_node
from tests.network.toys import Toy

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make dev")
pytestmark = pytest.mark.slow

SPEC = """
seed = 5
[task]
use = "digits_mlp"
[world]
clients = {clients}
data = {{ use = "dirichlet", alpha = 5.0 }}
[algorithm]
use = "fedavg"
{algorithm}
[pace]
use = "readiness"
cohort = {devices}
t_break = 0.05
min_clients = 1
[stop]
rounds = {rounds}
[run]
execute = "numpy"
threads = 1
"""
MS = 1000 * PATIENT


@contextmanager
def served(folder, *, devices, rounds, algorithm="", clients=4, more=()):
    """A server with a page: its ground, the address of its HTTP door, and a list of processes that end with it."""
    spec, http, processes = folder / "spec.toml", free_address(), []
    spec.write_text(SPEC.format(clients=clients, devices=devices, rounds=rounds, algorithm=algorithm))
    with ground(folder, Toy(clients=clients)) as place:
        try:
            words = (
                "--devices",
                str(devices),
                "--transmitters",
                "1",
                "--lease",
                "60",
                "--page",
                "--evaluate",
                "devices",
                "--evaluate-seconds",
                "3",
            )
            place.serve_spec(spec, *words, "--http", http, *more)
            place.await_listening()
            yield place, http, processes
        finally:
            end(processes)


def start_numpy(folder, http, client):
    """FedFleet's own device without PyTorch."""
    command = [sys.executable, "-m", "fedfleet.app.cli.main", "device", "--server", f"http://{http}", "--engine", "numpy"]
    with (folder / f"own{client}.out").open("ab") as out:
        words = ["--client", str(client), "--store", str(folder / f"own{client}")]
        return subprocess.Popen([*command, *words], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)


def rounds_done(page):
    return int(page.text_content("#rounds"))


def await_rounds(page, least):
    wait_for(lambda: rounds_done(page) >= least, f"{least} rounds on the page", seconds=2 * PATIENT, every=0.2)


def joined(look, http, **more):
    """A page that takes part."""
    sight = look(f"http://{http}/join", width=390, height=844, **more)
    sight.page.click("#join", timeout=MS)
    sight.page.wait_for_selector("#during:not([hidden])", timeout=MS)
    return sight


def test_a_phone_joins_by_the_page(look, tmp_path):
    with served(tmp_path, devices=2, rounds=500, more=("--patience", "5")) as (place, http, processes):
        stranger = look(f"http://{http}/join#token=nonsense", width=390).page
        stranger.click("#join")
        stranger.wait_for_selector("#during:not([hidden])")
        stranger.get_by_text("This device cannot take part").wait_for(timeout=MS)
        assert "token" in stranger.text_content("#more")

        processes.append(start_node(tmp_path, http, 1))
        careful = look(f"http://{http}/join", width=390)
        assert careful.faults() == []
        careful.page.click("summary")
        careful.page.fill("#steps", "1")
        careful.page.click("#join")
        careful.page.get_by_text("steps, and this device does 1 at most").first.wait_for(timeout=MS)
        if careful.page.is_visible("#leave"):
            careful.page.click("#leave")
            careful.page.get_by_text("You have left").wait_for(timeout=MS)
        careful.page.context.close()

        sight = joined(look, http, dark=True)
        await_rounds(sight.page, 2)
        sight.page.locator("#accuracy", has_text="%").wait_for(timeout=MS)
        sight.page.click("#leave")
        sight.page.get_by_text("You have left").wait_for(timeout=MS)
        assert sight.faults() == []
        profiles = [json.loads(line) for line in (place.out / "profiles.jsonl").read_text().splitlines()]
        assert {"page", "node"} == {profile["kind"].split()[0].strip(",") for profile in profiles}
        mine = profiles[-1]
        assert mine["model"] == "digits_mlp" and mine["batch"] == 16 and 0 < mine["seconds_per_batch"] < 60
        assert min(mine["down_bytes_per_second"], mine["up_bytes_per_second"], mine["latency_seconds"]) > 0


LONG = "steps = 6000"  # of training, which takes a second or more


@pytest.mark.soak
def test_ten_rounds_beside_two_devices_of_the_command_line(look, tmp_path):
    with served(tmp_path, devices=3, rounds=10, clients=3) as (place, http, processes):
        processes += [start_numpy(tmp_path, http, client) for client in (1, 2)]
        page = joined(look, http).page
        page.get_by_text("The run is over").wait_for(timeout=4 * MS)
        assert rounds_done(page) == 10
        assert float(page.text_content("#accuracy").split()[0]) > 70
        assert place.ended() == 0


def family(pid):
    """The numbers of all processes that came from this one."""
    return [pid, *(one for child in children(pid) for one in family(child))]


def kill_browser(folder):
    """SIGKILL of a browser with all its pages, as a phone that is short of memory does it."""
    for pid in family(os.getpid()):
        if f"--user-data-dir={folder}" in command_of(pid):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def own_browser(browser, folder):
    """A browser that remembers in a folder; its first page."""
    where = os.environ.get("FEDFLEET_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)))
    arguments = ["--no-sandbox", "--disable-gpu"]
    context = browser.browser_type.launch_persistent_context(str(folder), executable_path=where, args=arguments)
    try:
        yield context.pages[0]
    finally:
        with suppress(playwright.Error):
            context.close()


def waits_for_training(page):
    page.locator("#now", has_text="training").wait_for(timeout=MS)


@pytest.mark.soak
def test_a_page_that_is_killed_in_a_round_goes_on_as_the_same_client(browser, tmp_path):
    with served(tmp_path, devices=2, rounds=6, algorithm=LONG, clients=2) as (place, http, processes):
        processes.append(start_numpy(tmp_path, http, 1))
        for life in range(4):
            with own_browser(browser, tmp_path / "browser") as page:
                page.goto(f"http://{http}/join")
                if life == 0:
                    page.click("summary")
                    page.fill("#steps", "10000")
                    page.click("#join")
                page.locator("#run", has_text="client 0").wait_for(timeout=MS)
                if life == 3:
                    page.get_by_text("The run is over").wait_for(timeout=6 * MS)
                else:
                    waits_for_training(page)
                    kill_browser(tmp_path / "browser")
        assert place.ended() == 0
        assert len([e for e in place.events() if isinstance(e, ModelCommitted)]) >= 6
        assert '"client": 1' not in (place.out / "profiles.jsonl").read_text()


@pytest.mark.soak
def test_a_page_that_is_offline_for_half_a_minute_goes_on(look, tmp_path):
    with served(tmp_path, devices=2, rounds=12, algorithm=LONG, clients=2, more=("--lease", "300")) as (place, http, processes):
        processes.append(start_numpy(tmp_path, http, 1))
        sight = look(f"http://{http}/join", width=390)
        page = sight.page
        page.click("summary")
        page.fill("#steps", "10000")
        page.click("#join")
        waits_for_training(page)
        page.context.set_offline(True)
        page.get_by_text("No connection").wait_for(timeout=MS)
        page.wait_for_timeout(30_000)
        done = rounds_done(page)
        page.context.set_offline(False)
        await_rounds(page, done + 2)
        assert page.is_hidden("#line")
        page.get_by_text("The run is over").wait_for(timeout=4 * MS)
        assert place.ended() == 0


@pytest.mark.soak
def test_pause_and_leave_do_what_they_say(look, tmp_path):
    with served(tmp_path, devices=2, rounds=500, algorithm=LONG, clients=2) as (place, http, processes):
        processes.append(start_numpy(tmp_path, http, 1))
        sight = look(f"http://{http}/join", width=390)
        page = sight.page
        page.click("summary")
        page.fill("#steps", "10000")
        page.click("#join")
        waits_for_training(page)
        page.click("#pause")
        page.get_by_text("Paused").wait_for(timeout=MS)
        done = rounds_done(page)
        page.wait_for_timeout(4000)
        assert rounds_done(page) == done
        page.click("#pause")
        await_rounds(page, done + 1)
        page.click("#leave")
        page.get_by_text("You have left").wait_for(timeout=MS)
        page.reload()
        page.wait_for_selector("#join", timeout=MS)
        page.click("#join")
        page.locator("#run", has_text="client 0").wait_for(timeout=MS)
        del place
