"""Take the pictures of README, tutorial and gallery anew, from pages that are made for it: `make pictures`.

All pages are made in a folder of their own, so that no picture shows what an earlier version wrote.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A page has few colours; with this many a file is a quarter as large, and looks the same.
COLOURS = 128


@dataclass(frozen=True, slots=True)
class Picture:
    """What one picture shows: a page, the commands that make it, in order, and how much of it."""

    page: str
    commands: tuple[str, ...]
    width: int = 1000
    height: int = 1150


HURRIED = "fedfleet run examples/first.toml --out runs/hurried"
PATIENT = "fedfleet run examples/first.toml pace.use=readiness pace.cohort=10 --out runs/patient"
COMPARED = "fedfleet compare runs/hurried runs/patient --out runs/compare.html"
PREDICTED = "fedfleet predict examples/first.toml --sweep pace.seconds=60..240:4 --out runs/predict.html"
DASHBOARD = "fedfleet dashboard runs"
PICTURES = {
    "demo.png": Picture("demo/index.html", ("fedfleet demo --out demo",)),
    "run.png": Picture("runs/hurried/report.html", (HURRIED,)),
    "comparison.png": Picture("runs/compare.html", (HURRIED, PATIENT, COMPARED)),
    "explain.png": Picture("runs/patient/explain.html", (PATIENT, "fedfleet explain runs/patient --counterfactuals --workers 2")),
    "study.png": Picture(
        "runs/patience/report.html", ("fedfleet study examples/studies/patience.toml --scale quick --out runs/patience",)
    ),
    "tune.png": Picture(
        "runs/tuned/report.html", ("fedfleet tune examples/tune.toml stop.rounds=20 --trials 12 --out runs/tuned",)
    ),
    "predict.png": Picture(
        "runs/predict.html",
        (PREDICTED,),
        height=800,
    ),
    "fleet.png": Picture(
        "runs/fleet.html",
        ("fedfleet sample devices --kinds 50 --sigma 1.4 --out runs/devices.json --picture runs/fleet.html",),
        height=900,
    ),
    # A dashboard runs until it is stopped; its page is a part of its address.
    "dashboard.png": Picture("runs/hurried", (HURRIED, PATIENT, DASHBOARD), width=1280, height=900),
}

# The page by which a phone joins: before, and after some rounds.
PHONE = "phone.png"
SERVED = (
    "fedfleet serve examples/first.toml world.clients=4 pace.use=readiness pace.cohort=2 pace.min_clients=1 pace.t_break=0.5 "
    "--devices 1 --patience 5 --out runs/served --address 127.0.0.1:0 --http 127.0.0.1:0 --page --evaluate devices"
)
PHONE_WIDTH, PHONE_HEIGHT, PHONE_ROUNDS = 390, 1120, 8


def main(wanted: list[str]) -> None:
    """All pictures, or those that are named."""
    from playwright.sync_api import sync_playwright

    where = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if where is None:
        sys.exit("no Chromium here, which takes the pictures; install it, for example with: apt-get install chromium")
    if unknown := sorted({*wanted} - {*PICTURES, PHONE}):
        sys.exit(f"no picture is called {unknown[0]}; there are: {', '.join((*PICTURES, PHONE))}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        at, done = Path(folder), set[str]()
        shutil.copytree(ROOT / "examples", at / "examples")
        (at / "runs").mkdir()
        browser = play.chromium.launch(executable_path=where, args=["--no-sandbox", "--disable-gpu"])
        for name in wanted or (*PICTURES, PHONE):
            if name == PHONE:
                with printed_url(SERVED, at) as address:
                    take_phone(browser, f"{address.rstrip('/')}/join")
                continue
            picture = PICTURES[name]
            for command in picture.commands:
                if command not in done and command != DASHBOARD:
                    subprocess.run(program(command), cwd=at, check=True, stdout=subprocess.DEVNULL)
                    done.add(command)
            if DASHBOARD in picture.commands:
                with printed_url(f"{DASHBOARD} --port 0", at) as address:
                    take(browser, name, f"{address.rstrip('/')}/{picture.page}")
            else:
                take(browser, name, (at / picture.page).as_uri())
        browser.close()


def program(command: str) -> list[str]:
    """A command of FedFleet as this environment runs it."""
    return [sys.executable, "-m", *shlex.split(command)]


def take(browser: Any, name: str, address: str) -> None:
    """One picture of what is seen first at an address, with few colours."""
    from PIL import Image

    viewport = {"width": PICTURES[name].width, "height": PICTURES[name].height}
    sheet = browser.new_page(viewport=viewport, color_scheme="light", reduced_motion="reduce")
    sheet.goto(address)
    sheet.wait_for_timeout(1500)  # charts that are drawn by a script
    with Image.open(io.BytesIO(sheet.screenshot())) as shot:
        shot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(ROOT / "docs/pictures" / name, optimize=True)
    sheet.close()


def take_phone(browser: Any, address: str) -> None:
    """The page by which a phone joins, before and after some rounds, side by side."""
    from PIL import Image

    size = {"width": PHONE_WIDTH, "height": PHONE_HEIGHT}
    sheet = browser.new_page(viewport=size, color_scheme="light", reduced_motion="reduce")
    sheet.goto(address)
    shots = [sheet.screenshot()]
    sheet.click("#join")
    while int(sheet.text_content("#rounds")) < PHONE_ROUNDS:
        sheet.wait_for_timeout(200)
    sheet.click("#pause")
    sheet.wait_for_timeout(500)
    sheet.click("#pause")
    sheet.locator("#now", has_text="Round").wait_for()
    shots.append(sheet.screenshot())
    sheet.close()
    gap = 30
    both = Image.new("RGB", (2 * PHONE_WIDTH + gap, PHONE_HEIGHT), "#868d95")
    for place, shot in enumerate(shots):
        with Image.open(io.BytesIO(shot)) as one:
            both.paste(one.convert("RGB"), (place * (PHONE_WIDTH + gap), 0))
    both.quantize(COLOURS, dither=Image.Dither.NONE).save(ROOT / "docs/pictures" / PHONE, optimize=True)


@contextmanager
def printed_url(command: str, at: Path) -> Iterator[str]:
    """The address of the site that this command serves until it is stopped, as the command prints it."""
    served = subprocess.Popen(
        program(command),
        cwd=at,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert served.stdout is not None
        words = (word.rstrip(".,;") for line in served.stdout for word in line.split())
        yield next(word for word in words if word.startswith("http")).removesuffix("/join")
    finally:
        served.terminate()
        served.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
