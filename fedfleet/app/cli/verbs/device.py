"""`fedfleet device`: one device of a served run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, say
from fedfleet.core.limits import MAX_CLIENTS

if TYPE_CHECKING:
    from fedfleet.network.device.client_runtime import ClientRuntime
    from fedfleet.network.device.work import Fetch

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_DATA = (
    "Your own samples, which stay here: an .npz with arrays x and y; a .csv with a column called label, one sample a row; or a "
    "folder with one sub-folder for each class, called by its number, with .npy files (one sample each) or .csv files (one sample "
    "a row). A seeded fifth of them tests. Without it: the shard that the spec deals to this client, for rehearsals."
)


def device(
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="The server's address.")] = "127.0.0.1:50051",
    client: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_CLIENTS, help="Which client of the fleet to be, from 0; default: as before, or a free one."
        ),
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="The token that invites this device; also FEDFLEET_TOKEN or --token-file.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A file that holds the token.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FILE|FOLDER", help=_DATA)] = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where this device remembers; default: a folder in ~/.local/state/fedfleet."),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Call with TLS, trusting whom the system trusts.")] = False,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Call with TLS, trusting this authority (PEM).")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This device's own certificate (PEM), if the server wants one.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of --certificate (PEM).")] = None,
    max_bytes: Annotated[int, typer.Option(min=1, help="The most bytes of one model or report.")] = 2 << 30,
    max_steps: Annotated[int, typer.Option(min=1, help="The most training steps of one task.")] = 1_000_000,
    max_tasks: Annotated[int | None, typer.Option(min=1, help="Stop after so many tasks.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0.0, help="Stop after so many seconds of work.")] = None,
    patience: Annotated[
        float, typer.Option(min=0.0, help="For how many seconds to try a server that went out of reach.")
    ] = 600.0,
    evidence: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Evidence of this device's integrity, if the server asks for it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Be one device: enrol at a server, then pull tasks, train on samples that stay here, and report until the run is over."""
    for name in _ONE_THREAD:  # before numpy or torch is loaded: results must not depend on the number of threads
        os.environ[name] = "1"
    from fedfleet.network.device.caps import Caps
    from fedfleet.network.device.client_loop import DeviceOptions
    from fedfleet.network.device.device_process import LocalSetup, Trust, read_token, run_device

    wishes = DeviceOptions(
        client=client,
        token=read_token(token, token_file),
        evidence=b"" if evidence is None else evidence.read_bytes(),
        caps=Caps(max_bytes, max_steps, max_tasks, max_seconds),
        patience=patience,
    )
    summary = run_device(server, LocalSetup(store, data, Trust(tls, ca, certificate, key)), wishes, _build_runtime, say)
    answer(summary, as_json, lambda a: f"client {a['client']} finished {a['tasks']} tasks; {a['reason']}")


def _build_runtime(config_bytes: bytes, data_path: Path | None, fetch: Fetch) -> ClientRuntime:
    from fedfleet.app.assemble.client_config import (
        build_client_runtime,  # with the first work, and not before: it loads torch
    )

    return build_client_runtime(config_bytes, data_path, fetch)
