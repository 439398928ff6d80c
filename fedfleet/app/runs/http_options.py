"""What a person says of the HTTP door: its address and the origins whose pages may call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec

from fedfleet.core.errors import BadInput
from fedfleet.network.protocol.frames import split_address
from fedfleet.network.server.options import ServeOptions

_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](:[0-9]{1,5})?")


def http_address(http: str | None, address: str) -> str:
    """The address of `--http`: a port alone is one of the host of `--address`; empty where there is no such door.

    >>> http_address("8080", "127.0.0.1:50051"), http_address("[::1]:8080", "127.0.0.1:50051"), http_address(None, "")
    ('127.0.0.1:8080', '[::1]:8080', '')
    """
    if http is None:
        return ""
    host, port = split_address(address, any_port=True)
    whole = f"{host}:{http}" if http.isdecimal() else http
    try:
        where = split_address(whole, any_port=True)
    except BadInput:
        raise BadInput(f"--http: {http!r} is not a port or HOST:PORT; write for example --http 8443") from None
    if where == (host, port) and port:
        raise BadInput(f"--http: {whole} is the address of gRPC (--address); give HTTP a port of its own")
    return whole


def checked_origins(origins: Sequence[str] | None) -> tuple[str, ...]:
    """The origins of `--allow-origin`, each as browsers send it.

    >>> checked_origins(["https://example.org"])
    ('https://example.org',)
    """
    for origin in origins or ():
        if _ORIGIN.fullmatch(origin.lower()) is None:
            raise BadInput(
                f"--allow-origin: {origin!r} is not an origin; write scheme and host, and the port if the URL has one, for "
                "example https://example.org"
            )
    return tuple(origin.lower() for origin in origins or ())


def check_http(options: ServeOptions) -> None:
    """Refuse what needs the HTTP door and has none, and a door that lacks its parser."""
    for name, value in (("--page", options.page), ("--allow-origin", options.origins)):
        if value and not options.http:
            raise BadInput(f"{name} is for calls over HTTP; add --http PORT")
    if options.http and find_spec("httptools") is None:
        raise BadInput('--http needs httptools, which is not installed; run: pip install "fedfleet[server]"')
