"""The folder of a demo: an earlier demo there is replaced, anything else is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

from fedfleet.core.errors import BadInput

MARKER = ".fedfleet-demo"


def take_demo_folder(out: Path) -> None:
    """Make an empty folder for the demo, and mark it as one."""
    try:
        if out.is_dir() and any(out.iterdir()):
            if not (out / MARKER).is_file():
                raise BadInput(f"{out} exists and is not a demo; choose another folder with --out")
            shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        (out / MARKER).write_text("made by fedfleet demo; the next demo replaces this folder\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write to the folder {out}: {error}; choose another with --out") from None
