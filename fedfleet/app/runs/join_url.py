"""The URL with which a browser joins a served run, as text and as a QR code on the terminal."""

from __future__ import annotations

import io
import socket
from collections.abc import Mapping
from pathlib import Path

from fedfleet.app.runs.invitations import invite
from fedfleet.network.protocol.frames import split_address
from fedfleet.network.security.tls import ServerFiles, is_loopback

_DAYS = 7  # for which the token in the URL is valid
_ANYWHERE = ("0.0.0.0", "[::]")


def join_url(http: str, files: ServerFiles | None, token: str) -> str:
    """Where a browser finds the page; the token is behind #, which no browser sends and no log sees.

    >>> join_url("127.0.0.1:8443", None, "fft_x")
    'http://127.0.0.1:8443/join#token=fft_x'
    """
    host, port = split_address(http)
    if files is not None and (host in _ANYWHERE or is_loopback(host)):
        host = certificate_name(files.certificate) or host
    if host in _ANYWHERE:
        host = socket.gethostname()
    scheme = "http" if files is None else "https"
    return f"{scheme}://{host}:{port}/join" + (f"#token={token}" if token else "")


def certificate_name(certificate: Path) -> str:
    """The first name in a certificate that is not this machine alone, or the first at all; empty: it has none."""
    try:
        from cryptography import x509
    except ImportError:
        return ""
    try:
        extensions = x509.load_pem_x509_certificate(certificate.read_bytes()).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    except (ValueError, OSError, x509.ExtensionNotFound):
        return ""
    usable = [name for name in names if "*" not in name]
    return next((name for name in usable if not is_loopback(name)), usable[0] if usable else "")


def browser_lines(folder: Path, http: str, files: ServerFiles | None, *, is_open: bool, clients: int) -> list[str]:
    """What the operator of a server is shown; where devices need a token, one for all clients is made."""
    token = None if is_open else invite(folder, clients, 24.0 * _DAYS, None, "the page of the server")
    return url_lines(join_url(http, files, "" if token is None else token["token"]), token)


def url_lines(url: str, token: Mapping[str, object] | None) -> list[str]:
    """What a person is shown: the URL, for how many it is, and a QR code where segno is installed."""
    if token is None:
        lines = [f"a browser takes part at {url}"]
    else:
        many = f"up to {token['uses']} browsers may take part" if token["uses"] != 1 else "a browser may take part"
        lines = [f"{many} at {url} (for {_DAYS} days; to end this, revoke token {token['id']})"]
    return [*lines, *qr_lines(url)]


def qr_lines(text: str) -> list[str]:
    """A text as a QR code of half blocks; nothing where segno is not installed."""
    try:
        import segno
    except ImportError:
        return []
    out = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(out=out, border=2, compact=True)
    return out.getvalue().splitlines()
