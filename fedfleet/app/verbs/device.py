"""`fedfleet device`: one device of a served run."""

from __future__ import annotations

from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer
from fedfleet.core.limits import MOST_CLIENTS


def device(
    client: Annotated[
        int, typer.Option(min=0, max=MOST_CLIENTS, help="Which client of the fleet this device is, counted from 0.")
    ],
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="The server's address.")] = "127.0.0.1:50051",
    as_json: AsJson = False,
) -> None:
    """Be one device: enrol at a server, then pull tasks, train and report until the run is over."""
    from fedfleet.app.runs.network import run_device

    answer(run_device(server, client), as_json, lambda a: f"client {a['client']} finished {a['tasks']} tasks")
