"""`fedfleet token` and `fedfleet certificate`: who may take part in a served run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fedfleet.app.terminal.answers import Answer
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.limits import MAX_CLIENTS, Clients

_MOST_ROWS = 50


def trust(file: Path, *, forget: bool = False) -> Answer:
    """Trust the code in a file on this machine: models that specs, run folders or servers name by its hash may run from now on.

    Only this version of the file is trusted. Read it first: code can do whatever you can do.

    Args:
        file: a Python file with a model, or a copy of it in the folder of a run (code/HASH.py).
        forget: trust it no longer.
    """
    from fedfleet.tasks.model_code import read_code
    from fedfleet.tasks.trusted_code import forget as forget_code
    from fedfleet.tasks.trusted_code import source_hash, trusted_source
    from fedfleet.tasks.trusted_code import trust as trust_code

    source = read_code(str(file))
    digest, before = source_hash(source), trusted_source(source_hash(source)) is not None
    if forget:
        forget_code(digest)
        text = f"{file} is no longer trusted here" if before else f"{file} was not trusted here"
        return Answer({"file": str(file), "hash": digest, "trusted": False}, text)
    trust_code(source)
    return Answer({"file": str(file), "hash": digest, "trusted": True}, f"{file} is trusted on this machine, hash {digest}")


def token(
    folder: Path,
    *,
    uses: Clients | None = None,
    hours: Annotated[float, Ge(0.001), Le(100_000)] | None = None,
    client: Annotated[int, Ge(0), Le(MAX_CLIENTS - 1)] | None = None,
    note: str = "",
    show: bool = False,
    revoke: str | None = None,
    revoke_client: Annotated[int, Ge(0)] | None = None,
) -> Answer:
    """Make a token with which a device may enrol, and print it once; or list and revoke tokens and devices.

    Args:
        folder: the folder of a served run; the server may be running.
        uses: for how many devices; default: 1.
        hours: for how long it is valid; default: 24 hours.
        client: for this client only; it takes the place over if another device has it.
        note: a remark for the list, such as whom it is for.
        show: show tokens (not their secrets) and devices.
        revoke: end a token; devices that it has enrolled stay.
        revoke_client: remove a device from the run: its secret is no longer valid.
    """
    from fedfleet.app.runs.invitations import check_one_request, end_enrolment, end_token, invite, list_tokens

    new_token_options = {"--uses": uses, "--hours": hours, "--client": client, "--note": note or None}
    check_one_request(new_token_options, {"--list": show or None, "--revoke": revoke, "--revoke-client": revoke_client})
    if show:
        return Answer(list_tokens(folder), token_list_text)
    if revoke is not None:
        return Answer(end_token(folder, revoke), lambda a: f"token {a['id']} is revoked")
    if revoke_client is not None:
        return Answer(end_enrolment(folder, revoke_client), lambda a: f"client {a['client']} is removed from the run")
    invitation = invite(folder, uses or 1, 24.0 if hours is None else hours, client, note)
    return Answer(invitation, invitation["token"], [invitation_text(invitation)])


def invitation_text(token: Mapping[str, Any]) -> str:
    """What to know of a new token, beside the token itself."""
    valid = f"for {token['uses']} devices" if token["uses"] > 1 else "for one device"
    client_part = "" if token["client"] is None else f", as client {token['client']}"
    return f"token {token['id']} is valid {valid}{client_part} until {_moment(token['expires'])}; it is not shown again"


def token_list_text(result: Mapping[str, Any]) -> str:
    """All tokens and devices, a line each."""
    lines = [_token_line(t) for t in result["tokens"]] or ["no tokens"]
    return "\n".join([*lines, *_device_lines(result["devices"])])


def _token_line(token: Mapping[str, Any]) -> str:
    client_part = "" if token["client"] is None else f", client {token['client']}"
    note = f" ({token['note']})" if token["note"] else ""
    end = f"until {_moment(token['expires'])}" if token["revoked"] is None else f"revoked {_moment(token['revoked'])}"
    return f"token {token['id']}: {token['used']} of {token['uses']} used, {end}{client_part}{note}"


def _device_lines(devices: Sequence[Mapping[str, Any]]) -> list[str]:
    active = [d for d in devices if d["revoked"] is None]
    lines = [
        f"client {d['client']}: enrolled {_moment(d['enrolled'])} from {d['peer']}"
        + (f" with {d['samples']} samples of {d['data']}" if d["data"] else "")
        for d in active[:_MOST_ROWS]
    ]
    if len(active) > _MOST_ROWS:
        lines.append(f"and {len(active) - _MOST_ROWS} more devices; --json shows all")
    return lines or ["no devices"]


def _moment(seconds: float | None) -> str:
    return "it is revoked" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


def certificate(
    *,
    out: Path,
    host: Sequence[str] = (),
    days: Annotated[int, Ge(1), Le(3650)] = 365,
    client: Sequence[str] = (),
    renew: bool = False,
) -> Answer:
    """Make an authority, a server's certificate and devices' certificates for development; what is there is kept.

    Args:
        out: the folder for certificates and keys; made if need be.
        host: a name or address under which devices reach the server; several are allowed. Default: localhost, 127.0.0.1 and ::1.
        days: for how long the certificates are valid.
        client: also a certificate for a device, for mutual TLS; several are allowed.
        renew: make the server's certificate anew.
    """
    from fedfleet.network.security.certificates import HOSTS, CertificateRequest, make_certificates, utc_now

    request = CertificateRequest(list(host) or HOSTS, days, list(client), renew)
    certificates = make_certificates(out, request, utc_now())
    result = {
        "ca": str(certificates.ca),
        "certificate": str(certificates.certificate),
        "key": str(certificates.key),
        "clients": {name: {"certificate": str(c), "key": str(k)} for name, (c, k) in certificates.clients.items()},
        "written": [str(path) for path in certificates.written],
    }
    text = (
        f"{len(result['written'])} files written to {out}\n"
        f"server: fedfleet serve SPEC --certificate {result['certificate']} --key {result['key']}\n"
        f"device: fedfleet device --ca {result['ca']}"
    )
    return Answer(result, text)
