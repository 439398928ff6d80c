"""Take the pictures of README and tutorial anew, from pages that are made here: `make pictures`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FEDFLEET = [sys.executable, "-m", "fedfleet.app.cli"]
WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: which page it shows, how much of it, and the command that makes the page if it is missing."""

    name: str
    page: str
    height: int
    made_by: tuple[str, ...]


RUN = ("run", "examples/first.toml")
PATIENT = (*RUN, "pace.use=readiness", "pace.cohort=10", "--out", "runs/patient")
PICTURES = (
    Picture("demo.png", "demo/index.html", 1150, ("demo", "--out", "demo")),
    Picture("run.png", "runs/hurried/report.html", 1150, (*RUN, "--out", "runs/hurried")),
    Picture("patient.png", "runs/patient/report.html", 1150, PATIENT),
    Picture("comparison.png", "runs/compare.html", 1150, ("compare", "runs/hurried", "runs/patient", "--out", "runs/compare.html")),
)  # fmt: skip


def main(wanted: list[str]) -> None:
    """All pictures, or those that are named."""
    from playwright.sync_api import sync_playwright

    where = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if where is None:
        sys.exit("no Chromium here, which takes the pictures; install it, for example with: apt-get install chromium")
    for picture in PICTURES:
        if not (ROOT / picture.page).exists():
            subprocess.run([*FEDFLEET, *picture.made_by], cwd=ROOT, check=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=where, args=["--no-sandbox", "--disable-gpu"])
        sheet = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
        for picture in PICTURES:
            if not wanted or picture.name in wanted:
                sheet.set_viewport_size({"width": WIDTH, "height": picture.height})
                sheet.goto((ROOT / picture.page).as_uri())
                sheet.screenshot(path=ROOT / "docs/pictures" / picture.name)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
