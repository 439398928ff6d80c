"""Where the noise of a private run comes from: the seed in a study, a secret in a file for protection, or the devices themselves.

The secret never leaves this process: not into the spec, the journal, a checkpoint or a log. What a run keeps is a salt, so that no
two runs draw the same noise from one secret, and a mark by which the right secret is recognised.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedfleet.core.errors import BadInput

VARIABLE = "FEDFLEET_NOISE_KEY"
_LEAST = 32  # bytes of a secret
SEED, SECRET, DEVICES = "seed", "secret", "devices"


@dataclass(frozen=True, slots=True)
class NoiseSource:
    """The key of a run's noise (None: its seed), and where the noised aggregates of a secret run are kept."""

    key: bytes | None = field(default=None, repr=False)
    aggregate_folder: Path | None = None


SEEDED = NoiseSource()


def secret_file() -> Path | None:
    """The file with the secret that the environment names; None if it names none."""
    path = os.environ.get(VARIABLE, "")
    return Path(path) if path else None


def new_source() -> dict[str, str]:
    """Where the noise of a new run comes from, as the run may say it: everything but the secret."""
    if secret_file() is None:
        return {"from": SEED}
    salt = secrets.token_hex(16)
    return {"from": SECRET, "salt": salt, "mark": _key_mark(_derive_key(_read_secret(), salt))}


def key_for(source: Mapping[str, str]) -> bytes | None:
    """The key of a run whose noise comes from a secret, made of the secret and the run's salt; None: it comes from the seed."""
    if source.get("from") != SECRET:
        return None
    if secret_file() is None:
        raise BadInput(
            f"the noise of this run comes from a secret; "
            f"set the environment variable {VARIABLE} to the path of the file that holds it"
        )
    key = _derive_key(_read_secret(), source["salt"])
    if not hmac.compare_digest(_key_mark(key), source["mark"]):
        raise BadInput(f"{VARIABLE}: {secret_file()} does not hold the secret of this run; give the file that does")
    return key


def _read_secret() -> bytes:
    path = secret_file()
    assert path is not None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{VARIABLE}: cannot read {path} ({error.strerror}); give a file with random bytes") from None
    if len(data) < _LEAST or len(set(data)) < _LEAST // 4:
        raise BadInput(
            f"{VARIABLE}: {path} does not hold a secret of at least {_LEAST} random bytes; "
            f"make one with: head -c 32 /dev/urandom > {path}"
        )
    return data


def _derive_key(secret: bytes, salt: str) -> bytes:
    return hmac.new(secret, b"fedfleet noise " + salt.encode(), hashlib.sha256).digest()


def _key_mark(key: bytes) -> str:
    return hmac.new(key, b"mark", hashlib.sha256).hexdigest()[:16]
