"""Private channels: TLS 1.3 only, with certificates of both sides if the server wants that; no listening in the open without."""

from __future__ import annotations

import ipaddress
import ssl
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.network import ONLY_TLS_1_3
from fedfleet.network.protocol.frames import split_address

if TYPE_CHECKING:  # a device that calls over HTTP has no gRPC
    import grpc

_MAKE = "fedfleet certificate --out DIR makes one for development"


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """A server's certificate chain and key (PEM); with `client_ca`, callers must show a certificate that it has signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """Whom a device trusts (None: what the system trusts), and its own certificate where the server wants one (PEM)."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def server_credentials(files: ServerFiles) -> grpc.ServerCredentials:
    """Credentials of a server. Certificates that were renewed in place are taken up with the next connection."""
    import grpc

    _check_version()
    first, client_auth = _server_configuration(files), files.client_ca is not None
    reloader: Any = _certificate_reloader(files)  # it may answer None, as gRPC's documentation says and its types do not
    return grpc.dynamic_ssl_server_credentials(first, reloader, require_client_authentication=client_auth)


def client_credentials(files: ClientFiles) -> grpc.ChannelCredentials:
    """Credentials of a device."""
    import grpc

    _check_version()
    _check_client_files(files)
    if files.certificate is None or files.key is None:
        return grpc.ssl_channel_credentials(_roots(files.ca))
    return grpc.ssl_channel_credentials(_roots(files.ca), _read(files.key), _read(files.certificate))


def server_context(files: ServerFiles, versions: Sequence[str] = ("http/1.1",)) -> ssl.SSLContext:
    """The same for a server of HTTP in these versions, the preferred one first."""
    _check_pair(files.certificate, files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    context.set_alpn_protocols(list(versions))
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=(_roots(files.client_ca) or b"").decode("ascii"))
    return context


def client_context(files: ClientFiles) -> ssl.SSLContext:
    """The same for a device that calls over HTTP."""
    _check_client_files(files)
    roots = _roots(files.ca)
    context = ssl.create_default_context(cadata=None if roots is None else roots.decode("ascii"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if files.certificate is not None and files.key is not None:
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    return context


def _check_client_files(files: ClientFiles) -> None:
    if (files.certificate is None) != (files.key is None):
        raise BadInput("a device's own certificate needs both files: --certificate and --key")
    if files.certificate is not None and files.key is not None:
        _check_pair(files.certificate, files.key)


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only.

    >>> [is_loopback(host) for host in ("127.0.0.1", "[::1]", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_open(address: str, tls: bool) -> None:
    """Refuse to listen beyond this machine without TLS: secrets and updates would cross the network in plain text."""
    host, _ = split_address(address, any_port=True)
    if not tls and not is_loopback(host):
        raise BadInput(
            f"listening on {address} without TLS would expose secrets and updates to the network; give --certificate and --key "
            f"({_MAKE}), or listen on 127.0.0.1"
        )


_TLS_CURE = "give --ca FILE with the server's authority, or --tls if the system knows it"


def refuse_plain(address: str, tls: bool, cure: str = _TLS_CURE) -> None:
    """Refuse to call another machine without TLS: the device's secret would cross the network in plain text."""
    host, _ = split_address(address)
    if not tls and not is_loopback(host):
        raise BadInput(f"calling {address} without TLS would expose the device's secret to the network; {cure}")


def _check_version() -> None:
    if not ONLY_TLS_1_3:
        raise RunFailed("gRPC was loaded before fedfleet.network, and would accept TLS 1.2; import fedfleet.network first")


def _server_configuration(files: ServerFiles) -> grpc.ServerCertificateConfiguration:
    import grpc

    _check_pair(files.certificate, files.key)
    roots = None if files.client_ca is None else _roots(files.client_ca)
    return grpc.ssl_server_certificate_configuration([(_read(files.key), _read(files.certificate))], roots)


def _certificate_reloader(files: ServerFiles) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
    """What gRPC asks at every handshake: None while the files are the same, or cannot be used (the old ones go on)."""
    watch = FileWatch(files)

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        if not watch.has_changed():
            return None
        try:
            configuration = _server_configuration(files)
        except BadInput:  # half of the files is written; look again at the next handshake
            return None
        watch.accept()
        return configuration

    return fetch


class FileWatch:
    """Whether a server's files were renewed in place since they were last taken up."""

    def __init__(self, files: ServerFiles) -> None:
        self._paths = [path for path in (files.certificate, files.key, files.client_ca) if path is not None]
        self._accepted = self._seen = _stamps(self._paths)

    def has_changed(self) -> bool:
        """Are the files others than those that were taken up?"""
        self._seen = _stamps(self._paths)
        return self._seen != self._accepted

    def accept(self) -> None:
        """The files that were seen last are taken up."""
        self._accepted = self._seen


def _stamps(paths: list[Path]) -> tuple[tuple[int, int, int] | None, ...]:
    def stamp(path: Path) -> tuple[int, int, int] | None:
        try:
            info = path.stat()
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino

    return tuple(map(stamp, paths))


def _check_pair(certificate: Path, key: Path) -> None:
    """Refuse files that do not belong together, and a key that others can read, in words; gRPC would only fail to bind."""
    for path in (certificate, key):
        _read(path)
    if stat.S_IMODE(key.stat().st_mode) & 0o007:
        raise BadInput(f"the key {key} can be read by other users of this machine; if none of them did, run: chmod 600 {key}")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: b"")
    except ssl.SSLError as error:
        raise BadInput(
            f"{certificate} and {key} cannot be used as a certificate and its key without a passphrase, in PEM "
            f"({error.reason or 'not PEM'}); {_MAKE}"
        ) from None


def refuse_swapped(certificate: Path, key: Path) -> None:
    """Refuse a certificate and a key that were given in each other's place."""
    private, public = "PRIVATE KEY-----", "BEGIN CERTIFICATE-----"
    first, second = _head(certificate), _head(key)
    if private in first and public not in first and public in second and private not in second:
        raise BadInput(
            f"--certificate {certificate} is a private key, and --key {key} is a certificate; swap them: --certificate {key} --key "
            f"{certificate}"
        )


def _head(path: Path) -> str:
    """The beginning of a file; nothing of one that cannot be read, which is refused with its reason later."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode("ascii", "replace")
    except OSError:
        return ""


def _roots(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=_read(path).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise BadInput(f"{path} does not hold the certificates of an authority in PEM") from None
    return _read(path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); {_MAKE}") from None
