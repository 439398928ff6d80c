"""Makes certificates for development: an authority, a server, devices. Keys are P-256 and only their owner can read them."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput

HOSTS = ("localhost", "127.0.0.1", "::1")
_CA_DAYS = 3650
_SKEW = timedelta(hours=1)  # clocks of devices are wrong
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The files of a folder of certificates; `written` are those that were not there before."""

    ca: Path
    certificate: Path
    key: Path
    clients: dict[str, tuple[Path, Path]]
    written: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """What certificates are asked for; `renew` makes the server's anew."""

    hosts: Sequence[str] = HOSTS
    days: int = 365
    clients: Sequence[str] = ()
    renew: bool = False


def make_certificates(folder: Path, request: CertificateRequest, now: datetime) -> CertificateFiles:
    """Make what is not there yet: the authority is used again, so that devices go on trusting it."""
    lib = _library()
    names = [_san(lib, host) for host in request.hosts]
    if bad := [name for name in request.clients if not _NAME.fullmatch(name) or name in ("ca", "server")]:
        raise BadInput(f"{bad[0]!r} cannot be the name of a device's certificate; use letters, digits, '-', '_' and '.'")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder {folder} cannot be created ({error.strerror}); choose another with --out") from None
    written: list[Path] = []
    authority = _authority(lib, folder, now, written)

    def issue(stem: str, subject: str, usage: Any, names: list[Any], renew: bool) -> tuple[Path, Path]:
        paths = folder / f"{stem}.pem", folder / f"{stem}.key"
        if renew or not all(path.exists() for path in paths):
            key = lib.ec.generate_private_key(lib.ec.SECP256R1())
            draft = _draft(lib, subject, key, now, request.days).issuer_name(authority[0].subject)
            draft = draft.add_extension(lib.x509.BasicConstraints(ca=False, path_length=None), critical=True)
            draft = draft.add_extension(lib.x509.ExtendedKeyUsage([usage]), critical=False)
            signer = lib.x509.AuthorityKeyIdentifier.from_issuer_public_key(authority[1].public_key())
            draft = draft.add_extension(signer, critical=False)
            if names:
                draft = draft.add_extension(lib.x509.SubjectAlternativeName(names), critical=False)
            _write(paths[1], _key_pem(lib, key), 0o600)
            _write(paths[0], _pem(lib, draft.sign(authority[1], lib.hashes.SHA256())), 0o644)
            written.extend(paths)
        return paths

    usage = lib.x509.oid.ExtendedKeyUsageOID
    certificate, key = issue("server", str(request.hosts[0]), usage.SERVER_AUTH, names, request.renew)
    clients = {name: issue(name, name, usage.CLIENT_AUTH, [], False) for name in request.clients}
    return CertificateFiles(folder / "ca.pem", certificate, key, clients, tuple(written))


@dataclass(frozen=True, slots=True)
class _Library:
    x509: Any
    hashes: Any
    serialization: Any
    ec: Any


def _library() -> _Library:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise BadInput("certificates need the extra `server`: pip install 'fedfleet[server]'") from None
    return _Library(x509, hashes, serialization, ec)


def _san(lib: _Library, host: str) -> Any:
    """A host as certificates name it: addresses and names are different things there."""
    try:
        return lib.x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    if not re.fullmatch(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?", host):
        raise BadInput(f"--host {host!r} is neither a host name nor an address")
    return lib.x509.DNSName(host)


def _authority(lib: _Library, folder: Path, now: datetime, written: list[Path]) -> tuple[Any, Any]:
    paths = folder / "ca.pem", folder / "ca.key"
    if any(path.exists() for path in paths):
        try:
            certificate = lib.x509.load_pem_x509_certificate(paths[0].read_bytes())
            key = lib.serialization.load_pem_private_key(paths[1].read_bytes(), None)
        except (OSError, ValueError, TypeError):
            raise BadInput(
                f"{paths[0]} and {paths[1]} are not a certificate authority that can sign; choose another folder"
            ) from None
        if certificate.not_valid_after_utc <= now:
            raise BadInput(f"the authority {paths[0]} has expired; choose another folder, and give devices the new one")
        return certificate, key
    key = lib.ec.generate_private_key(lib.ec.SECP256R1())
    draft = _draft(lib, "FedFleet development authority", key, now, _CA_DAYS)
    draft = draft.issuer_name(_name(lib, "FedFleet development authority"))
    draft = draft.add_extension(lib.x509.BasicConstraints(ca=True, path_length=0), critical=True)
    uses = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    )
    usage = lib.x509.KeyUsage(**uses, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False)
    certificate = draft.add_extension(usage, critical=True).sign(key, lib.hashes.SHA256())
    _write(paths[1], _key_pem(lib, key), 0o600)
    _write(paths[0], _pem(lib, certificate), 0o644)
    written.extend(paths)
    return certificate, key


def _draft(lib: _Library, subject: str, key: Any, now: datetime, days: int) -> Any:
    draft = lib.x509.CertificateBuilder().subject_name(_name(lib, subject)).public_key(key.public_key())
    draft = draft.serial_number(lib.x509.random_serial_number()).not_valid_before(now - _SKEW)
    draft = draft.not_valid_after(now + timedelta(days=days))
    return draft.add_extension(lib.x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _name(lib: _Library, text: str) -> Any:
    return lib.x509.Name([lib.x509.NameAttribute(lib.x509.oid.NameOID.COMMON_NAME, text[:64])])


def _pem(lib: _Library, certificate: Any) -> bytes:
    return certificate.public_bytes(lib.serialization.Encoding.PEM)


def _key_pem(lib: _Library, key: Any) -> bytes:
    form, plain = lib.serialization.PrivateFormat.PKCS8, lib.serialization.NoEncryption()
    return key.private_bytes(lib.serialization.Encoding.PEM, form, plain)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file whole, never readable by more people than `mode` says, also while it is written."""
    draft = path.with_name(f".{path.name}.part")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def utc_now() -> datetime:
    """Now, as certificates count."""
    return datetime.now(UTC)
