"""A browser for the tests that look at pages: Debian's Chromium, driven by Playwright; skipped where there is none."""

import os
import shutil

import pytest

from tests.browser.sight import Sight

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")  # no longer: while Playwright is open, no test of the same process can call asyncio.run
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make dev")
    where = os.environ.get("FEDFLEET_CHROMIUM") or next((result for name in NAMES if (result := shutil.which(name))), None)
    if where is None:
        pytest.skip("there is no Chromium here; install it, for example with: apt-get install chromium")
    with api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=where, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture
def look(browser):
    """look(address, width=.., dark=..) opens a page and gives a `Sight` of it; all are closed after the test."""
    opened = []

    def at(address, *, width=1100, height=900, dark=False, settle=0.0):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        opened.append(context)
        return Sight.of(context, str(address), settle)

    yield at
    for context in opened:
        context.close()
