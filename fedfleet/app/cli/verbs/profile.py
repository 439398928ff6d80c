"""`fedfleet profile`: measure this device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer


def profile(
    task: Annotated[str, typer.Option(help="The task whose model is measured.")] = "digits_cnn",
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Samples per training step.")] = 16,
    iterations: Annotated[int, typer.Option(min=1, max=1_000_000, help="How often to repeat each measurement.")] = 100,
    side: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Use images of SIDE x SIDE pixels instead of the task's own size."),
    ] = None,
    device_id: Annotated[
        str | None, typer.Option("--id", help="The id of this device; default: the host's name.")
    ] = None,
    server: Annotated[str | None, typer.Option(help="Also measure the link to this HTTP address.")] = None,
    out: Annotated[Path | None, typer.Option(help="The devices file to add the row to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure this device: inference and training time, memory, and the link to a server; answers with a row of a devices file."""
    from fedfleet.app.machine.device_profile import append_row, profile_device
    from fedfleet.app.terminal.text import metrics_text

    row, details = profile_device(task, batch=batch, iterations=iterations, side=side, name=device_id, server=server)
    if out is not None:
        append_row(out, row)
    answer({"row": row, **details, "out": None if out is None else str(out)}, as_json, metrics_text)
