"""`fedfleet status`: how a server stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer


def status(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the server listens.")] = "127.0.0.1:50051",
    tls: Annotated[bool, typer.Option("--tls", help="Call with TLS, trusting whom the system trusts.")] = False,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Call with TLS, trusting this authority (PEM).")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An own certificate (PEM), if the server wants one.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of --certificate (PEM).")] = None,
    token: Annotated[
        str | None, typer.Option(help="What the server wants to see beyond the loopback; also --token-file.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file that holds it: wire/status.token of the run.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running server about its run: round, model, devices, and what it waits for."""
    from fedfleet.network.device.device_process import read_token
    from fedfleet.network.operations.status import ask_status, format_status
    from fedfleet.network.security.tls import ClientFiles

    private = tls or any(path is not None for path in (ca, certificate, key))
    files = ClientFiles(ca, certificate, key) if private else None
    answer(ask_status(address, token=read_token(token, token_file), tls=files), as_json, format_status)
