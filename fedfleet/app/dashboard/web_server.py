"""Opening the dashboard: its token and certificate, a socket that is ours, the application behind it, an orderly end at Ctrl-C."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.dashboard.auth import Access
from fedfleet.core.errors import BadInput

PORT = 8765


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of TLS."""

    certificate: Path
    key: Path


def token_from(token: str | None, file: Path | None) -> str:
    """The token for reading, from the command line or from a file; "": none."""
    if token is not None and file is not None:
        raise BadInput("--token and --token-file both give the token; give only one of them")
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
        raise BadInput("--token: the token must be one word of plain letters, digits and signs")
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


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that listens here; if another program does, one sentence says so."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server_socket = socket.socket(family, kind)
    except OSError as error:
        raise BadInput(f"--host {host}: {error.strerror or error}; give an address of this machine") from None
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind(address)
        server_socket.listen(128)
    except OSError as error:
        server_socket.close()
        if error.errno == errno.EADDRINUSE:
            raise BadInput(
                f"port {port} of {host} is taken, perhaps by another dashboard; choose another with --port, or any with --port 0"
            ) from None
        raise BadInput(f"--host {host} --port {port}: {error.strerror}; choose another with --host or --port") from None
    return server_socket


def serve(
    root: Path, access: Access, server_socket: socket.socket, tls: Certificate | None, ready: Callable[[], None] | None = None
) -> None:
    """Serve the dashboard of this folder until it is interrupted."""
    try:
        import uvicorn

        from fedfleet.app.dashboard import routes
    except ImportError:
        raise BadInput("the dashboard needs starlette and uvicorn; install them with: pip install 'fedfleet[app]'") from None
    from fedfleet.app.dashboard.run_processes import Starter
    from fedfleet.app.dashboard.run_watcher import RunWatcher

    site = routes.Site(RunWatcher(root), Starter(root), access)
    files: dict[str, Any] = {} if tls is None else {"ssl_certfile": str(tls.certificate), "ssl_keyfile": str(tls.key)}
    config = uvicorn.Config(
        routes.site_app(site), log_level="warning", access_log=False, server_header=False, date_header=False,
        proxy_headers=False, ws="none", lifespan="on", timeout_graceful_shutdown=2, timeout_keep_alive=5,
        limit_concurrency=200, h11_max_incomplete_event_size=32 * 1024, **files,
    )  # fmt: skip

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if ready is not None:
                ready()

        def handle_exit(self, sig: int, frame: Any) -> None:
            site.closing = True  # else open streams would be waited for
            super().handle_exit(sig, frame)

    try:
        Server(config).run(sockets=[server_socket])
    except KeyboardInterrupt:
        pass  # the usual way to close a dashboard
    finally:
        server_socket.close()
