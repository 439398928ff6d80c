"""The dashboard as people see it: no fault in any light or width, a run that goes on, mistakes beside their fields, runs side by side."""

import json
import shutil
import tempfile
import threading
import time
import tomllib
from pathlib import Path

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.core.events import RunBegan
from tests.app.dashboard.many_runs import make_runs
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
        [RunBegan(0.0, 0, 10_000, "s", "m"), *(sent(i, 0, 500 * i, range(500 * i, 500 * i + 500)) for i in range(6))],
        {"world": {"clients": 10_000}},
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


@pytest.mark.parametrize(
    "name", ["", "new?from=example:small", "runs/odd", "runs/none", "runs/real-0", "runs/%3Cscript%3Ewindow.evil%20=%201%3C"]
)
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
    sight = look(f"{site.address}/new", width=390)
    page = sight.page
    page.select_option("#f-world-devices-use", "dpgmm")
    page.wait_for_selector("#f-world-devices-sigma")  # another part, other settings
    page.fill("#f-world-devices-sigma", "-3")
    page.fill("#f-pace-cohort", "0")
    page.locator("#f-pace-cohort").blur()
    page.wait_for_selector("#m-pace-cohort .fix")
    assert "must be at least 0" in page.text_content("#m-world-devices-sigma")
    assert page.get_attribute("#f-pace-cohort", "aria-invalid") == "true" and page.is_disabled("#start")
    assert page.text_content("#left") == "2 fields to mend" and sight.faults() == []
    page.click("#m-world-devices-sigma .fix")
    page.wait_for_selector("#m-world-devices-sigma:empty", state="attached")
    page.click("#m-pace-cohort .fix")
    page.wait_for_selector("#m-pace-cohort:empty", state="attached")
    assert page.input_value("#f-pace-cohort") == "1" and not page.is_disabled("#start")
    page.click("text=Anything else")
    page.fill("#f-toml", "[pace]\nt_brake = 3")
    page.locator("#f-toml").blur()
    page.wait_for_selector("#m-toml .fix")  # "did you mean": the word is mended in its place
    page.click("#m-toml .fix")
    page.wait_for_selector("#m-toml:empty", state="attached")
    assert page.input_value("#f-toml") == "[pace]\nt_break = 3" and "t_break = 3" in page.text_content("#as-toml")


def test_a_run_is_started_by_menus(look, site):
    sight = look(f"{site.address}/new?from=real-0")
    page = sight.page
    assert page.input_value("#f-name") == "real-0-again" and page.input_value("#f-pace-cohort") == "4"
    page.fill("#f-name", "from-page")
    page.select_option("#f-pace-use", "deadline")
    page.wait_for_selector("#f-pace-seconds")
    page.click("#p-pace summary")  # more settings
    page.select_option("#f-pace-if-few", "wait")
    page.click("#p-algorithm >> text=Around it")
    page.select_option("#f-algorithm-up-0--use", "topk")
    page.wait_for_selector("#f-algorithm-up-1--use")
    page.check("#f-algorithm-feedback")
    page.fill("#f-pace-cohort", "400")
    page.click("#start")
    page.wait_for_selector("#m-pace-cohort:not(:empty)", timeout=60_000)  # what only the run itself can know
    assert "lower pace.cohort" in page.text_content("#m-pace-cohort")
    page.fill("#f-pace-cohort", "4")
    page.locator("#f-pace-cohort").blur()
    page.wait_for_selector("#start:not([disabled])")
    page.click("#start")
    page.wait_for_url("**/runs/from-page", timeout=60_000)
    page.wait_for_selector("#state .finished", timeout=60_000)
    spec = tomllib.loads((site.site.watcher.root / "from-page" / "spec.toml").read_text())
    assert spec["pace"]["use"] == "deadline" and spec["pace"]["if_few"] == "wait" and spec["algorithm"]["feedback"] is True
    assert spec["algorithm"]["up"] == [{"use": "topk", "share": 0.05}]
    assert json.loads((site.site.watcher.root / "from-page" / "metrics.json").read_text())["rounds"] == 4
    # A check that a later one replaces is no fault.
    assert [said for said in sight.errors if not said.startswith(("htmx:afterRequest", "htmx:sendAbort"))] == [] == sight.outside


def test_what_was_answered_goes_when_the_run_has_stopped(look, site):
    page = look(f"{site.address}/new?from=real-0").page
    page.fill("#f-name", "stopped")
    page.fill("#f-stop-rounds", "100000")
    page.locator("#f-stop-rounds").blur()
    page.click("#start")
    page.wait_for_url("**/runs/stopped", timeout=60_000)
    page.click("#acts >> text=Stop", timeout=60_000)
    page.wait_for_selector("#act-said:has-text('Asked to stop')")
    assert page.locator("#act-said .bad").count() == 0  # that it worked is no alarm
    page.wait_for_selector("#state .stopped", timeout=60_000)
    page.wait_for_selector("#act-said:empty", state="attached")
    assert "Resume" in page.text_content("#acts")


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


@pytest.fixture(scope="module")
def many():
    """200 runs of three studies and a search, in memory where there is a folder for that: their journals wait for the disk."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        assert make_runs(root) == 200
        with Answers(root) as result:
            yield result
    finally:
        shutil.rmtree(root)


class Clicks:
    """A page on which clicks are counted."""

    def __init__(self, page):
        self.page, self.count = page, 0

    def __call__(self, selector):
        self.page.click(selector)
        self.count += 1


@pytest.mark.parametrize("width", [1280, 390])
def test_a_study_among_200_runs_is_found_and_compared_within_three_clicks(look, many, width):
    sight = look(f"{many.address}/", width=width)
    click = Clicks(sight.page)
    assert sight.page.locator(".grp").count() == 4 and "191 finished, 9 stopped" in sight.page.text_content("#rows")
    click("[name=group][value=pacing]")
    assert sight.page.text_content("#compare") == "Compare 60 ticked"
    click("#compare")
    sight.page.wait_for_url("**/report/?**group=pacing", timeout=60_000)
    assert sight.page.locator("svg[role=img]").count() > 0 and click.count <= 3 and sight.errors == []


def test_two_arms_are_found_and_compared_within_three_clicks(look, many):
    sight = look(f"{many.address}/", width=390)
    page, click = sight.page, Clicks(sight.page)
    page.fill("#filter", "pacing severe")
    page.wait_for_selector(".arms > li:nth-child(4):last-child")
    click(".arms > li:nth-child(1) input")
    click(".arms > li:nth-child(4) input")
    assert page.text_content("#compare") == "Compare 10 ticked" and sight.faults() == []
    click("#compare")
    page.wait_for_url("**/report/?**arm=pacing**", timeout=60_000)
    assert click.count == 3 and "buffered" in page.text_content("body")


def test_a_study_leads_to_its_page_in_one_click(look, many):
    page = look(f"{many.address}/").page
    page.click("text=study page >> nth=0")
    page.wait_for_url("**/report/*/report.html")
    assert page.text_content("h1").startswith("The page of ")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_study_hides_nothing(look, many, width, dark):
    sight = look(f"{many.address}/", width=width, dark=dark)
    page = sight.page
    page.focus("#g-activity")
    page.keyboard.press("Enter")  # as well as with a mouse
    page.wait_for_selector("#g-activity[aria-expanded=true]")
    assert page.locator(".arms > li").count() == 60 and sight.faults() == []
    assert page.evaluate("() => document.activeElement.id") == "g-activity"  # whoever works with the keyboard stays where they were
    assert max(page.locator(".arms .nm a").evaluate_all("all => all.map(a => a.getClientRects().length)")) <= 2  # lines of a name
    page.click("nav >> text=New run")
    page.wait_for_selector("#f-name")
    assert page.locator("#f-name").bounding_box()["y"] < 400


def test_ticks_of_a_group_and_of_its_arms_go_together(look, many):
    page = look(f"{many.address}/").page
    page.click("#g-pacing")
    page.check("[name=group][value=pacing]")
    assert page.locator(".arms input:checked").count() == 12
    page.uncheck(".arms > li:nth-child(2) input")
    assert not page.is_checked("[name=group][value=pacing]") and page.text_content("#compare") == "Compare 55 ticked"
    page.click("#g-pacing")
    page.wait_for_selector("#g-pacing[aria-expanded=false]")
    assert page.text_content("#compare") == "Compare 55 ticked" and page.locator(".kept").count() == 11
    page.click("#clear")
    page.wait_for_selector(".kept", state="detached")
    assert page.is_disabled("#compare")
