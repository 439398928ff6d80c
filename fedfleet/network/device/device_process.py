"""Being one device of a served run: its line, its store, its own samples, and how it is stopped."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.core.errors import BadInput
from fedfleet.network.device.client_loop import Device, DeviceOptions, DeviceResult, Stopped
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_line import ServerLine, split_server

if TYPE_CHECKING:
    from fedfleet.network.device.client_runtime import ClientRuntime
    from fedfleet.network.device.work import Fetch

# From a sheet, where own samples are, and how frozen weights are brought, to what a client trains with.
RuntimeMaker = Callable[[bytes, "Path | None", "Fetch"], "ClientRuntime"]
# From a sheet, and where own samples are, to a refusal if the run cannot use them.
SamplesCheck = Callable[[bytes, Path], None]


@dataclass(frozen=True, slots=True)
class Trust:
    """How a device calls: with TLS or not, whom it trusts, and its own certificate where the server wants one."""

    tls: bool = False
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def uses_tls(self) -> bool:
        """Does it call with TLS?"""
        return self.tls or any(path is not None for path in (self.ca, self.certificate, self.key))


@dataclass(frozen=True, slots=True)
class LocalSetup:
    """What a device has on its own machine: where it remembers (None: a folder of this server and client), its samples, and its
    way of calling."""

    store: Path | None = None
    data: Path | None = None
    trust: Trust = field(default_factory=Trust)


def run_device(
    server: str,
    setup: LocalSetup,
    options: DeviceOptions,
    make_runtime: RuntimeMaker,
    say: Callable[[str], None],
    check_samples: SamplesCheck | None = None,
) -> dict[str, Any]:
    """Be one device of a served run; the answer says what it did. Stopped by SIGTERM, it takes its leave first."""
    split_server(server)
    options = with_samples(options, setup.data)
    with (
        closing(DeviceStore(setup.store or default_store(server, options.client))) as store,
        closing(line_to(server, setup.trust)) as connection,
        stop_on_sigterm(),
    ):
        data, check = setup.data, check_samples
        device = Device(
            connection,
            store,
            options,
            lambda config, fetch: make_runtime(config, data, fetch),
            say,
            check_samples=None if data is None or check is None else lambda config: check(config, data),
        )
        try:
            result = device.run()
        except Stopped:
            result = DeviceResult(device.client, device.safe, device.declined, "stopped")
    return asdict(result)


def with_samples(options: DeviceOptions, data: Path | None) -> DeviceOptions:
    """The wishes of a device that says how many samples of its own it has."""
    if data is None:
        return options
    from fedfleet.network.device.local_data import sample_count, split_counts

    train, test = split_counts(sample_count(data))
    return replace(options, data=data.name or "own", samples=train, test_samples=test)


def default_store(server: str, client: int | None) -> Path:
    """Where a device remembers if nobody says: a folder for each server and client."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    name = re.sub(r"[^A-Za-z0-9.]+", "-", server).strip("-")
    return Path(base) / "fedfleet" / "devices" / (name if client is None else f"{name}-{client}")


def line_to(server: str, trust: Trust) -> ServerLine:
    """The line to a server: over HTTP if its address is a URL, else over gRPC."""
    scheme, host, port = split_server(server)
    if not scheme:
        from fedfleet.network.device.server_calls import Connection

        return Connection(server, credentials_of(server, trust))
    from fedfleet.network.device.http_calls import HttpLine
    from fedfleet.network.security.tls import ClientFiles, client_context, refuse_plain

    if scheme == "http" and trust.uses_tls:
        raise BadInput(f"--server {server} is without TLS, which the other options ask for; write https://{host}:{port}")
    refuse_plain(
        f"{host}:{port}", scheme == "https", f"write https://{host}:{port}, and give --ca FILE with the server's authority"
    )
    context = client_context(ClientFiles(trust.ca, trust.certificate, trust.key)) if scheme == "https" else None
    return HttpLine(server, context)


def credentials_of(server: str, trust: Trust) -> Any:
    """The credentials of a channel of gRPC; None: without TLS, which is for this machine only."""
    from fedfleet.network.security.tls import ClientFiles, client_credentials, refuse_plain

    refuse_plain(server, trust.uses_tls)
    return client_credentials(ClientFiles(trust.ca, trust.certificate, trust.key)) if trust.uses_tls else None


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """SIGTERM becomes `Stopped`, so that the device can take its leave; Ctrl-C stays what it is."""

    def stop(number: int, frame: Any) -> None:
        del number, frame
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the farewell is not interrupted by more of the same
        raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def read_token(token: str | None, file: Path | None) -> str:
    """The token that a person gives: as a word, or in a file, where no list of processes shows it."""
    if token is not None and file is not None:
        raise BadInput("--token and --token-file: give only one of them")
    if file is None:
        return token or os.environ.get("FEDFLEET_TOKEN", "")
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise BadInput(f"--token-file: there is no file {file}; fedfleet token RUN > {file} writes one, on the server") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadInput(f"--token-file: {file} cannot be read: {reason}; give a text file with the token") from None
