"""Opening the dashboard: a socket that is ours, the application behind it, and an orderly end at Ctrl-C."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.dashboard.auth import Door
from fedfleet.core.errors import BadInput

PORT = 8765


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of TLS."""

    certificate: Path
    key: Path


def reserved(host: str, port: int) -> socket.socket:
    """A socket that listens here; if somebody else does, one sentence says so."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind)
    except OSError as wrong:
        raise BadInput(f"--host {host}: {wrong.strerror or wrong}; give an address of this machine") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(128)
    except OSError as wrong:
        found.close()
        if wrong.errno == errno.EADDRINUSE:
            raise BadInput(
                f"port {port} of {host} is taken, perhaps by another dashboard; choose another with --port, or any with --port 0"
            ) from None
        raise BadInput(f"--host {host} --port {port}: {wrong.strerror}; choose another with --host or --port") from None
    return found


def serve(
    root: Path, door: Door, held: socket.socket, tls: Certificate | None, ready: Callable[[], None] | None = None
) -> None:
    """Serve the dashboard of this folder until it is interrupted."""
    uvicorn, routes = _parts()
    from fedfleet.app.dashboard.run_processes import Starter
    from fedfleet.app.dashboard.run_watcher import Watch

    site = routes.Site(Watch(root), Starter(root), door)
    files = {} if tls is None else {"ssl_certfile": str(tls.certificate), "ssl_keyfile": str(tls.key)}
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
        Server(config).run(sockets=[held])
    except KeyboardInterrupt:
        pass  # the usual way to close a dashboard
    finally:
        held.close()


def _parts() -> tuple[Any, Any]:
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise BadInput(
            "the dashboard needs starlette and uvicorn; install them with: pip install 'fedfleet[app]'"
        ) from None
    from fedfleet.app.dashboard import routes

    return uvicorn, routes
