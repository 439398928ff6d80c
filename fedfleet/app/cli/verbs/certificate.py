"""`fedfleet certificate`: certificates for development."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer


def certificate(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for certificates and keys; made if need be.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="A name or address under which devices reach the server; several are allowed. "
            "Default: localhost, 127.0.0.1 and ::1."
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="For how long the certificates are good.")] = 365,
    client: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also a certificate for a device, for mutual TLS; several are allowed."),
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Make the server's certificate anew.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make an authority, a server's certificate and devices' certificates for development; what is there is kept."""
    from fedfleet.network.security.certificates import HOSTS, CertificateRequest, make_certificates, utc_now

    certificates = make_certificates(out, CertificateRequest(host or HOSTS, days, client or (), renew), utc_now())
    result = {
        "ca": str(certificates.ca),
        "certificate": str(certificates.certificate),
        "key": str(certificates.key),
        "clients": {name: {"certificate": str(c), "key": str(k)} for name, (c, k) in certificates.clients.items()},
        "written": [str(path) for path in certificates.written],
    }
    answer(
        result,
        as_json,
        lambda a: (
            f"{len(a['written'])} files written to {out}\n"
            f"server: fedfleet serve SPEC --certificate {a['certificate']} --key {a['key']}\n"
            f"device: fedfleet device --ca {a['ca']}"
        ),
    )
