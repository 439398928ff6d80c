"""The dashboard on runs that are served to real devices: who is offline, how a stopped one is resumed, and one that goes on."""

import shlex
from contextlib import ExitStack

import pytest

from fedfleet.core.events import ModelCommitted
from fedfleet.store.lock import hold_lock
from tests.app.dashboard.runs import Answers, folder_of
from tests.app.dashboard.test_served_runs import told
from tests.browser.test_comparison import SIGHTS
from tests.network.fleets import METHODS, fleet
from tests.network.harness import PATIENT

pytestmark = pytest.mark.slow

STATUS = {"devices_online": 5, "running": 1, "waiting_for": "1 report of client 5", "draining": False}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    with ExitStack() as held:
        going = folder_of(root, "going")
        held.enter_context(hold_lock(going))
        told(going, [1, 1, 1, 1, 0, 0, 1, 0], STATUS)
        (folder_of(root, "stopped") / "wire").mkdir()
        yield held.enter_context(Answers(root))


@pytest.mark.parametrize(("width", "dark"), SIGHTS)
def test_a_served_run_has_no_faults_in_any_light_or_width(look, site, width, dark):
    told(site.site.watcher.root / "going", [1, 1, 1, 1, 0, 0, 1, 0], STATUS)  # a server says so once a second
    sight = look(f"{site.address}/runs/going", width=width, dark=dark, settle=0.5)
    sight.page.wait_for_selector("#devices[data-dots]")
    assert sight.faults() == []
    assert "2 offline now" in sight.page.get_attribute("#devices", "aria-label")
    assert "5 of 8" in sight.page.text_content("#keys") and "3 offline" in sight.page.text_content("#keys")
    said = sight.page.text_content("#say")
    assert "of real time" in said and "5 devices online, 1 tasks out, waiting for 1 report of client 5" in said


def test_a_device_is_followed_while_it_goes_and_comes(look, site):
    folder = told(site.site.watcher.root / "going", [1, 1, 1, 1, 0, 0, 1, 0], STATUS)
    page = look(f"{site.address}/runs/going", settle=0.5).page
    page.fill("#who", "7")
    page.click("text=Show its history")
    page.wait_for_selector("#device h2")
    assert "It is offline now." in page.text_content("#device")
    told(folder, [1, 1, 1, 1, 1, 0, 1, 1], {**STATUS, "devices_online": 7})
    page.locator("#kinds", has_not_text="offline").wait_for(timeout=20_000)
    assert "7 of 8" in page.text_content("#keys")


@pytest.mark.parametrize(("width", "dark"), [(1100, False), (390, True)])
def test_a_stopped_one_shows_the_command_that_resumes_it(look, site, width, dark):
    sight = look(f"{site.address}/runs/stopped", width=width, dark=dark, settle=0.5)
    assert sight.faults() == []
    words = shlex.split(sight.page.text_content("#resume pre"))
    assert words[:2] == ["fedfleet", "serve"] and words[-1] == "--resume"
    assert sight.page.locator("#acts button", has_text="Resume").count() == 0


@pytest.mark.soak
def test_a_server_with_devices_is_followed_live_and_resumed_by_its_command(look, tmp_path):
    root = tmp_path / "runs"
    root.mkdir()
    with fleet(root, METHODS["fedavg"], clients=4, rounds=4000) as made, Answers(root) as answers:
        made.serve("--devices", "3", "--patience", "3", "--lease", "5")
        made.place.await_listening()
        made.start(0, 1, 2)
        gone = made.start(3)
        made.place.await_event(ModelCommitted, 2, seconds=2 * PATIENT)
        page = look(f"{answers.address}/runs/run", settle=1.0).page
        page.locator("#keys", has_text="4 of 4").wait_for(timeout=30_000)
        gone.kill()
        page.locator("#kinds", has_text="1 offline now").wait_for(timeout=90_000)
        page.click("#acts button:has-text('Stop')")
        page.wait_for_selector("#resume pre", timeout=60_000)
        words = shlex.split(page.text_content("#resume pre"))
        assert words[0] == "cd" and words[3:5] == ["fedfleet", "serve"] and words[-1] == "--resume"
        made.place.ended()
        made.serve("--devices", "3", "--patience", "3", "--lease", "5", resume=True)
        page.wait_for_selector("#state .running", timeout=60_000)
        page.locator("#keys", has_text="3 of 4").wait_for(timeout=60_000)
