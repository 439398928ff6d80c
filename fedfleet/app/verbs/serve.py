"""`fedfleet serve`: a run with real devices over the network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, SigningKey, answer, warn
from fedfleet.core.limits import MOST_CLIENTS


def serve(
    spec: Annotated[
        Path,
        typer.Argument(help="A spec file in TOML; of its world, only the data and the number of clients are used."),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Overrides of the spec, for example pace.cohort=20."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write; default: runs/NAME-wire-DIGEST.")] = None,
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:50051",
    devices: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_CLIENTS,
            help="How many devices to wait for before round 1; default: the size of the cohort.",
        ),
    ] = None,
    sign: SigningKey = None,
    as_json: AsJson = False,
) -> None:
    """Serve a run to real device processes over gRPC. A first version: no encryption, and a killed server starts anew."""
    from fedfleet.app.pages.report import write_report
    from fedfleet.app.runs.network import serve_run
    from fedfleet.app.terminal.text import shown_run

    done = serve_run(spec, words or [], out, address, devices, sign)
    write_report(done)
    answer(done.answer(), as_json, lambda a: shown_run(a, done.metrics))
    warn(done.metrics["warnings"])
    if not done.metrics["commits"]:
        raise typer.Exit(1)  # as `fedfleet run` does
