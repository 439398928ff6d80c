"""A hook for attestation: what a device shows at enrolment to prove that it is what it says, checked by a registered function.

A hook is a function of the evidence and the request; it answers None, or why the device is not admitted. It is named on the
server's command line (`--evidence NAME[:ARGUMENT]`) and comes from an installed package: from the entry point group
`fedfleet.evidence`, or from `register("evidence", ..)`. Nothing that a device sends is ever executed. Hooks are asked in the
server's own loop, so they must be fast.
"""

from __future__ import annotations

import hmac
import stat
from pathlib import Path

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder, parameters
from fedfleet.network.protocol.fleet_pb2 import EnrolRequest
from fedfleet.network.security.enrolment_request import Evidence

_LEAST_BYTES = 16
_LABEL = b"fedfleet evidence 1\0"


def none() -> Evidence:
    """No evidence is asked for."""
    return lambda evidence, request: None


def shared_secret(file: str) -> Evidence:
    """Devices must know the secret in this file, such as one that was put into them in the factory."""
    secret = read_secret(Path(file))

    def check_evidence(evidence: bytes, request: EnrolRequest) -> str | None:
        if not request.attempt:
            return "it is not bound to an attempt"
        return None if hmac.compare_digest(shared_evidence(secret, request), evidence) else "it does not prove the secret"

    return check_evidence


def shared_evidence(secret: bytes, request: EnrolRequest) -> bytes:
    """What a device shows that knows the secret: bound to this attempt and token, so that it is worth nothing for another."""
    message = _LABEL + bytes([len(request.attempt)]) + request.attempt + request.token.encode()
    return hmac.digest(secret, message, "sha256")


def evidence_by_name(text: str) -> Evidence:
    """The hook of a name, with its argument behind a colon: `none`, `shared_secret:FILE`."""
    name, colon, argument = text.partition(":")
    build = builder("evidence", name, "--evidence")
    wanted = len(parameters(build))
    if wanted != (1 if colon else 0):
        raise BadInput(f"--evidence: write {name + ':ARGUMENT' if wanted else name!r}, not {text!r}")
    return build(argument) if colon else build()


def read_secret(path: Path) -> bytes:
    """A secret in a file that only its owner can read; the newline at its end, if any, does not count."""
    try:
        mode, data = path.stat().st_mode, path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise BadInput(f"the secret in {path} cannot be read ({error.strerror})") from None
    if stat.S_IMODE(mode) & 0o077:
        raise BadInput(f"the secret in {path} can be read by other users; if none of them did, run: chmod 600 {path}")
    if len(data) < _LEAST_BYTES:
        raise BadInput(f"the secret in {path} is shorter than {_LEAST_BYTES} bytes, so it can be guessed; use a longer one")
    return data
