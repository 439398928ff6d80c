"""What the command line gives the dashboard to be safe beyond this machine: a token, and the files of TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

from fedfleet.app.dashboard.web_server import Certificate
from fedfleet.core.errors import BadInput


def token_from(token: str | None, file: Path | None) -> str:
    """The token for reading, from the command line or from a file; "": none."""
    if token is not None and file is not None:
        raise BadInput("--token and --token-file name the same thing; give one of them")
    if file is None:
        result = token or ""
    else:
        try:
            result = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"--token-file: cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
        if not result:
            raise BadInput(f"--token-file: {file} is empty; write a long random word into it")
    if not result.isascii() or any(c.isspace() for c in result):
        raise BadInput("--token: a token is one word of plain letters, digits and signs")
    return result


def certificate_from(certificate: Path | None, key: Path | None) -> Certificate | None:
    """The files of TLS, tried before anything listens; None: none were given."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise BadInput("--certificate and --key belong together; give both")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(
            f"--certificate {certificate} --key {key}: {reason}; make a matching pair with fedfleet certificate"
        ) from None
    return Certificate(certificate, key)
