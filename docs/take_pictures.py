"""Take the pictures of README and tutorial anew, from pages that are made here: `make pictures`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FEDFLEET = [sys.executable, "-m", "fedfleet.app.cli.main"]
WIDTH, HEIGHT = 1000, 1150


# Pages that are shown, and the command that makes each if it is missing.
RUN = ("run", "examples/first.toml")
PAGES = {
    "demo/index.html": ("demo", "--out", "demo"),
    "runs/hurried/report.html": (*RUN, "--out", "runs/hurried"),
    "runs/patient/report.html": (*RUN, "pace.use=readiness", "pace.cohort=10", "--out", "runs/patient"),
    "runs/compare.html": ("compare", "runs/hurried", "runs/patient", "--out", "runs/compare.html"),
}
PICTURES = {
    "demo.png": "demo/index.html",
    "run.png": "runs/hurried/report.html",
    "comparison.png": "runs/compare.html",
}


def main(wanted: list[str]) -> None:
    """All pictures, or those that are named."""
    from playwright.sync_api import sync_playwright

    where = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if where is None:
        sys.exit("no Chromium here, which takes the pictures; install it, for example with: apt-get install chromium")
    shown = {name: page for name, page in PICTURES.items() if not wanted or name in wanted}
    for page, command in PAGES.items():
        if not (ROOT / page).exists() and (page.startswith("runs/") or page in shown.values()):
            subprocess.run([*FEDFLEET, *command], cwd=ROOT, check=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=where, args=["--no-sandbox", "--disable-gpu"])
        sheet = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for name, page in shown.items():
            sheet.goto((ROOT / page).as_uri())
            sheet.screenshot(path=ROOT / "docs/pictures" / name)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
