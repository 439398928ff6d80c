"""`fedfleet edge`: a client of a server, and a server to devices of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le

from fedfleet.app.terminal.answers import AS_JSON, Answer, Interrupted, say
from fedfleet.core.limits import MAX_CLIENTS

_UPSTREAM = "127.0.0.1:50051"
_LISTEN = "127.0.0.1:50061"
_Seconds = Annotated[float, Ge(0.0)]


def edge(
    *,
    upstream: str = _UPSTREAM,
    listen: str = _LISTEN,
    client: Annotated[int, Ge(0), Le(MAX_CLIENTS - 1)] | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    tls: bool = False,
    upstream_ca: Path | None = None,
    store: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    client_ca: Path | None = None,
    open_enrolment: bool = False,
    patience: _Seconds = 60.0,
    lease: Annotated[float, Ge(1.0)] = 600.0,
    transmitters: Annotated[int, Ge(0), Le(64)] = 0,
    hold: Annotated[int, Ge(0), Le(100_000)] = 4096,
    metrics: str = "",
    quiet: bool = False,
) -> Answer:
    """Be one edge of a served run: let devices of your own train what the server asks for, and forward their sum.

    What an edge acknowledges is on its disk: killed, it goes on when it is started again with the same command.

    Args:
        upstream: the server's address.
        listen: where to listen for devices.
        client: which edge (user) of the run to be, from 0; default: as before, or a free one.
        token: the token of the server that invites this edge; also FEDFLEET_TOKEN or --token-file.
        token_file: a file that holds the token.
        tls: call the server with TLS, trusting whom the system trusts.
        upstream_ca: call the server with TLS, trusting this authority (PEM).
        store: the folder for what this edge keeps; default: a folder in ~/.local/state/fedfleet.
        certificate: the certificate that this edge shows to its devices (PEM): TLS.
        key: the private key of --certificate (PEM).
        client_ca: devices must show a certificate that this one signed.
        open_enrolment: admit devices without tokens, as on loopback; fedfleet token STORE makes tokens.
        patience: for how many seconds an average waits for all devices, before it goes on with those that are there.
        lease: after how many seconds a device's task without a report is lost.
        transmitters: processes that hold devices' calls (0: this one does).
        hold: calls that may wait on the line, 21 kB each.
        metrics: serve metrics and health over HTTP here, without encryption. Default: nowhere.
        quiet: show no live line.
    """
    from fedfleet.app.runs.served_run import access_options
    from fedfleet.network.device.client_loop import DeviceOptions
    from fedfleet.network.device.device_process import Trust, read_token
    from fedfleet.network.edge.edge_process import EdgeSetup, run_edge
    from fedfleet.network.server.options import ServeOptions
    from fedfleet.network.server.serve import ServerStopped

    access = access_options(certificate, key, client_ca, None, open_enrolment=open_enrolment)
    setup = EdgeSetup(store, Trust(tls, upstream_ca), access.files, open_enrolment)
    options = ServeOptions(
        address=listen, patience=patience, lease=lease, transmitters=transmitters, hold=hold, metrics=metrics,
        quiet=quiet or AS_JSON.get(),
    )  # fmt: skip
    wishes = DeviceOptions(client=client, token=read_token(token, token_file))
    try:
        summary = run_edge(upstream, setup, wishes, options, say)
    except ServerStopped as reason:
        raise Interrupted(f"{reason}; what it acknowledged is on disk: start it again with the same command") from None
    turns = f"{summary['turns']} {'turn' if summary['turns'] == 1 else 'turns'}"
    return Answer(summary, f"edge {summary['edge']} finished {turns} (end: {summary['reason']})")
