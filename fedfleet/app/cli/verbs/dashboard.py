"""`fedfleet dashboard`: a local page on all runs, live while they go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, say

_SECURITY = "Beyond this machine"


def dashboard(
    runs: Annotated[Path, typer.Argument(metavar="[RUNS]", help="The folder of the runs, or one run.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0: anywhere that is free.")] = 8765,
    host: Annotated[str, typer.Option(help="The address to listen on; others need a token and TLS.")] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_SECURITY, help="A name by which browsers reach this machine, for example fleet.local."
        ),
    ] = None,
    token: Annotated[
        str | None, typer.Option(rich_help_panel=_SECURITY, help="What browsers must show to read; also --token-file.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=_SECURITY, help="A file that holds the token.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=_SECURITY, help="The certificate (PEM): TLS.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_SECURITY, help="The private key of --certificate (PEM)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch, start, stop and compare runs in a browser, on this machine only unless told otherwise."""
    from fedfleet.app.dashboard.auth import Access, check_access
    from fedfleet.app.dashboard.options import certificate_from, token_from
    from fedfleet.app.dashboard.run_watcher import folder_of_runs
    from fedfleet.app.dashboard.web_server import bind_socket, serve

    read_token, tls = token_from(token, token_file), certificate_from(certificate, key)
    check_access(host, read_token=read_token, tls=tls is not None)
    root = folder_of_runs(runs)
    listener = bind_socket(host, port)
    door = Access(host, listener.getsockname()[1], tuple(name or ()), read_token, tls is not None)
    json_answer = {"address": door.address, "runs": str(root)}
    serve(
        root,
        door,
        listener,
        tls,
        lambda: answer(json_answer, as_json, lambda a: f"{a['runs']}: open {a['address']} (Ctrl-C closes it)"),
    )
    say("the dashboard is closed; runs that it started go on")
