"""The dashboard as people see it: no fault in any light or width, a run that goes on, mistakes beside their fields, runs side by side."""

import json
import threading
import time

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.core.events import RunBegan
from tests.app.dashboard.runs import END, STORY, Answers, folder_of, sent

pytestmark = pytest.mark.slow

TABLE = {"task": {"use": "digits_logreg"}, "world": {"clients": 12}, "pace": {"cohort": 4}, "stop": {"rounds": 4}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    folder_of(root, "going")
    folder_of(root, "done", [*STORY, *END], sealed=True)
    folder_of(root, "<script>window.evil = 1<")
    (folder_of(root, "odd") / "run.db").write_bytes(b"not ours")
    folder_of(
        root,
        "big",
        [RunBegan(0.0, 0, 10_000, "s", "m"), *(sent(i, i, 500 * i, range(500 * i, 500 * i + 500)) for i in range(6))],
    )
    for seed in (0, 1):
        perform(resolve({**TABLE, "seed": seed}, "a"), root / f"real-{seed}")
    with Answers(root) as result:
        yield result


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_has_no_faults_in_any_light_or_width(look, site, width, dark):
    sight = look(f"{site.address}/runs/going", width=width, dark=dark, settle=1.0)
    sight.page.wait_for_selector("#live.on")
    assert sight.faults() == []
    assert "8 devices" in sight.page.get_attribute("#devices", "aria-label")
    assert "60 % now" in sight.page.get_attribute("#curve canvas", "aria-label")


@pytest.mark.parametrize("name", ["", "runs/odd", "runs/none", "runs/real-0", "runs/%3Cscript%3Ewindow.evil%20=%201%3C"])
def test_other_pages_have_none_either(look, site, name):
    sight = look(f"{site.address}/{name}", width=390, settle=0.5)
    sight.errors = [said for said in sight.errors if "404" not in said]  # that there is no such run is no fault of the page
    assert sight.faults() == []
    assert sight.page.evaluate("() => window.evil === undefined")


def test_ten_thousand_devices_are_drawn_in_a_frame(look, site):
    page = look(f"{site.address}/runs/big", settle=1.0).page
    page.wait_for_selector("#devices[data-dots]")
    assert page.get_attribute("#devices", "data-dots") == "3000"  # those who were never asked are counted
    assert "7,000 never asked" in page.get_attribute("#devices", "aria-label")
    assert float(page.get_attribute("#devices", "data-ms")) < 200  # about 5 on an idle machine


def test_a_dot_leads_to_the_history_of_its_device(look, site):
    page = look(f"{site.address}/runs/going", settle=0.5).page
    page.wait_for_selector("#devices[data-dots]")
    page.click("#devices", position={"x": 10, "y": 10})
    page.wait_for_selector("#device h2")
    assert page.text_content("#device h2") == "Device 1"  # the one that reported this round
    page.fill("#who", "99")
    page.click("text=Show its history")
    page.wait_for_selector("#device .bad")
    assert "devices 0 to 7" in page.text_content("#device")


def test_a_run_that_goes_on_advances_on_the_page(look, site):
    seen, stop = [], threading.Event()

    def slow(events):
        time.sleep(0.05)
        if stop.is_set():
            raise KeyboardInterrupt

    def run():
        with pytest.raises(KeyboardInterrupt):
            perform(resolve({**TABLE, "stop": {"rounds": 5000}}, "live"), site.site.watcher.root / "live", watch=slow)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until = time.monotonic() + 30
        while not (site.site.watcher.root / "live" / "run.db").exists() and time.monotonic() < until:
            time.sleep(0.05)
        sight = look(f"{site.address}/runs/live")
        sight.page.wait_for_selector("#say b", timeout=30_000)
        while len(seen) < 3 and time.monotonic() < until + 30:
            said = sight.page.text_content("#say").split(" of ")[0]
            seen += [said] if said not in seen else []
            sight.page.wait_for_timeout(200)
        assert len(seen) == 3 and all(s.startswith("Round ") for s in seen)
        assert sight.page.text_content("#state") == "running" and sight.errors == []
        assert sight.page.locator("#rows li.cur .st").text_content() == "running"
    finally:
        stop.set()
        thread.join(60)


def test_a_mistake_shows_beside_its_field_and_a_button_mends_it(look, site):
    sight = look(f"{site.address}/", width=390)
    page = sight.page
    page.fill("#f-world-devices-use", "dpgm")
    page.fill("#f-pace-cohort", "many")
    page.locator("#f-pace-cohort").blur()
    page.wait_for_selector("#m-world-devices-use .fix")
    assert "unknown device source 'dpgm'" in page.text_content("#m-world-devices-use")
    assert "valid integer" in page.text_content("#m-pace-cohort")
    assert page.get_attribute("#f-pace-cohort", "aria-invalid") == "true" and page.is_disabled("#start")
    assert sight.faults() == []
    page.click("#m-world-devices-use .fix")
    page.fill("#f-pace-cohort", "4")
    page.locator("#f-pace-cohort").blur()
    page.wait_for_selector("#m-pace-cohort:empty", state="attached")
    assert page.input_value("#f-world-devices-use") == "dpgmm" and not page.is_disabled("#start")


@pytest.mark.slow
def test_a_run_is_started_from_the_page(look, site):
    page = look(f"{site.address}/").page
    for key, value in (
        ("name", "from-page"),
        ("task-use", "digits_logreg"),
        ("world-clients", "12"),
        ("pace-cohort", "400"),
        ("stop-rounds", "3"),
    ):
        page.fill(f"#f-{key}", value)
    page.click("#start")
    page.wait_for_selector("#m-pace-cohort:not(:empty)", timeout=60_000)  # what only the run itself can know
    assert "lower pace.cohort" in page.text_content("#m-pace-cohort")
    page.fill("#f-pace-cohort", "4")
    page.locator("#f-pace-cohort").blur()
    page.wait_for_selector("#start:not([disabled])")
    page.click("#start")
    page.wait_for_url("**/runs/from-page", timeout=60_000)
    page.wait_for_selector("#state .finished", timeout=60_000)
    assert json.loads((site.site.watcher.root / "from-page" / "metrics.json").read_text())["rounds"] == 3


def test_runs_are_found_and_compared_by_ticking(look, site):
    sight = look(f"{site.address}/")
    page = sight.page
    page.fill("#filter", "real, finished")
    page.wait_for_selector("#rows li:nth-child(2):last-child")
    page.check('input[value="real-0"]')
    page.fill("#filter", "real-1")  # what is ticked stays while one looks for the next
    page.wait_for_selector("text=1 match")
    page.check('input[value="real-1"]')
    assert page.text_content("#compare") == "Compare 2 ticked"
    page.click("#compare")
    page.wait_for_url("**/report/?run=real-*")
    assert "real-0" in page.text_content("body") and "real-1" in page.text_content("body")
    assert page.locator("svg[role=img]").count() > 0 and sight.errors == [] and sight.outside == []
