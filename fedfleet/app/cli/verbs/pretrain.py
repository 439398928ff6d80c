"""`fedfleet pretrain`: make a backbone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_writable


def pretrain(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task whose model is trained.")],
    out: Annotated[Path, typer.Option(help="The safetensors file to write; tasks take it as backbone = FILE.")],
    on: Annotated[
        str,
        typer.Option(
            help="The data: glyphs (generated strokes), or another task, whose data have no sample in common."
        ),
    ] = "glyphs",
    epochs: Annotated[int, typer.Option(min=1, max=10_000, help="How often to walk through the data.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Decides first weights and orders.")] = 0,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="The task's parameters, for example width=96.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a task's model in one place, on data that are not the task's, and write its weights to begin from."""
    from fedfleet.app.machine.backbone import pretrain_task
    from fedfleet.app.terminal.text import metrics_text
    from fedfleet.app.terminal.value_checks import one_of

    check_writable("--out", out)
    place = one_of("--device", device, ("auto", "cpu", "cuda"))
    result = pretrain_task(task, words or (), on=on, epochs=epochs, seed=seed, device=place, out=out)
    answer(result, as_json, metrics_text)
