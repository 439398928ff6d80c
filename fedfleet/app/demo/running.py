"""One run of the demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedfleet.app.runs import Finished, perform
from fedfleet.app.spec import resolve
from fedfleet.app.terminal.progress import progress


def trained(out: Path, name: str, table: dict[str, Any], *, label: str, quiet: bool) -> Finished:
    """Train by a spec, in the folder of this name under `out`/runs, with a progress bar called `label`."""
    spec = resolve(table, name)
    with progress(spec.stop["rounds"], quiet=quiet, label=label) as watch:
        return perform(spec, out / "runs" / name, watch=watch)
