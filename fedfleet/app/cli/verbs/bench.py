"""`fedfleet bench`: measure speed on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer
from fedfleet.app.terminal.lazy_commands import Group

bench = Group("Measure speed on this machine.", {"train": "fedfleet.app.cli.verbs.bench:train"})


def train(
    task: Annotated[str, typer.Option(help="A task; it is trained on synthetic data.")] = "mlp",
    cohort: Annotated[int, typer.Option(min=1, max=100_000, help="Clients that train together.")] = 50,
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Local steps of each client.")] = 5,
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Samples per step.")] = 10,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    form: Annotated[str | None, typer.Option(help="merged or loop; default: whichever is faster here.")] = None,
    tf32: Annotated[
        bool, typer.Option("--tf32", help="On a GPU: compute products in TF32; the answer says how much that changes.")
    ] = False,
    algorithm: Annotated[
        str,
        typer.Option(help="Whose local training; with any but plain fedavg the reference is our own inline executor."),
    ] = "fedavg",
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Its parameters, for example momentum=0.9.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train one cohort in a plain loop and stacked; print both times and how much the models differ."""
    from fedfleet.app.machine.cohort_speed import bench_train
    from fedfleet.app.terminal.text import metrics_text
    from fedfleet.app.terminal.value_checks import one_of

    chosen = None if form is None else one_of("--form", form, ("merged", "loop"))
    place = one_of("--device", device, ("cpu", "cuda"))
    report = bench_train(
        task, cohort=cohort, steps=steps, batch=batch, device=place, form=chosen, tf32=tf32,
        algorithm=algorithm, settings=words or (),
    )  # fmt: skip
    answer(report, as_json, metrics_text)
