"""`fedfleet status`: how a server stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer


def status(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the server listens.")] = "127.0.0.1:50051",
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate that signed the server's, if it uses TLS."),
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            envvar="FEDFLEET_TOKEN",
            help="What the server wants to see; better given in FEDFLEET_TOKEN.",
            show_envvar=False,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Ask a running server about its run: round, model, devices, and what it waits for."""
    from fedfleet.runtime.wire.operations.status import ask_status, shown

    answer(ask_status(address, token=token, ca=ca), as_json, shown)
