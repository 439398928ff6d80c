"""What must be unguessable, derived from one key of the run by HMAC-SHA-256: nothing else has to be remembered.

Every use has a label of its own, so that a value which is shown for one purpose is worth nothing for another. A nonce proves that
the sender of a report was given its task; a secret proves that a caller is the device which enrolled; the signature of a sheet
proves to a device that it comes from the server that it enrolled at. Values are compared in constant time.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedfleet.core.errors import BadInput, RunFailed

KEY_BYTES = 32
NONCE_BYTES = 16
_TASK = b"fedfleet task 1\0"
_DEVICE = b"fedfleet device 1\0"
_SHEET = b"fedfleet sheet 1\0"
_STATUS = b"fedfleet status 1\0"
_PRIVATE_FILE = 0o600


@dataclass(frozen=True, slots=True)
class RunKey:
    """The key of a run; its text never shows it.

    >>> RunKey(bytes(32))
    RunKey()
    """

    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.data) != KEY_BYTES:
            raise BadInput(f"the key of a run has {KEY_BYTES} bytes, but this one has {len(self.data)}")


def run_key(path: Path) -> RunKey:
    """The key in this file, which is made if it is not there; refused if anybody but its owner can read it."""
    if not path.exists():
        _make_key(path)
    try:
        with path.open("rb") as file:
            info, data = os.fstat(file.fileno()), file.read(KEY_BYTES + 1)
    except OSError as error:
        raise RunFailed(f"the key of the run, {path}, cannot be read ({error.strerror})") from None
    if stat.S_IMODE(info.st_mode) & 0o077:
        raise BadInput(f"the key of the run can be read by other users; if none of them did, run: chmod 600 {path}")
    if len(data) != KEY_BYTES:
        raise BadInput(f"{path} is not the key of a run: it does not have {KEY_BYTES} bytes; restore it from a backup")
    return RunKey(data)


def _make_key(path: Path) -> None:
    """Write a new key, whole or not at all; if another process was faster, its key stands."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE_FILE)
        try:
            os.write(handle, secrets.token_bytes(KEY_BYTES))
            os.fsync(handle)
        finally:
            os.close(handle)
        with suppress(FileExistsError):
            os.link(draft, path)  # unlike a rename, it never replaces a key that is there
        draft.unlink()
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise RunFailed(f"the key of the run, {path}, cannot be written ({error.strerror})") from None


def nonce_of(key: RunKey, task: int) -> bytes:
    """What a device must show to hand in a report for this task."""
    return hmac.digest(key.data, _TASK + task.to_bytes(8, "little"), "sha256")[:NONCE_BYTES]


def check_nonce(key: RunKey, task: int, nonce: bytes) -> bool:
    """Whether this is the nonce of that task."""
    return hmac.compare_digest(nonce_of(key, task), nonce)


def secret_of(key: RunKey, client: int, generation: int) -> bytes:
    """The secret of the device that holds a client's place; it changes with the generation of the enrolment."""
    message = _DEVICE + client.to_bytes(4, "little") + generation.to_bytes(4, "little")
    return hmac.digest(key.data, message, "sha256")


def check_secret(key: RunKey, client: int, generation: int, secret: bytes) -> bool:
    """Whether this is the secret of the device that holds that client's place."""
    return hmac.compare_digest(secret_of(key, client, generation), secret)


def sign_config(secret: bytes, config: bytes) -> bytes:
    """The signature of a sheet for the device that has this secret."""
    return hmac.digest(secret, _SHEET + config, "sha256")


def check_signature(secret: bytes, config: bytes, signature: bytes) -> bool:
    """Whether a sheet comes from the server that gave out this secret, unchanged."""
    return hmac.compare_digest(sign_config(secret, config), signature)


def status_token(key: RunKey) -> str:
    """What the operator of the server shows to see its status from another machine."""
    return hmac.digest(key.data, _STATUS, "sha256").hex()


def check_status_token(key: RunKey, token: str) -> bool:
    """Whether this is that token."""
    return hmac.compare_digest(status_token(key).encode(), token.encode())
