"""What a failed call means to a device: call again, enrol again, or end. Everything that can go wrong with a call is one of these.

Only a sentence of the server that is heard several times, or a certificate that this device never trusted, ends a device at
once. All else may be the line: bytes that were changed on their way, a connection that died, a server that starts again.
"""

from __future__ import annotations

from typing import Any

from fedfleet.core.errors import BadInput, printable

_WRONG_CERTIFICATE = ("certificate_verify_failed", "peer name", "peer certificate")
_LOOKED_AT = 2000  # characters: the reason of a failed handshake stands far behind
_NO_TLS = ("certificate", "ssl_error", "wrong_version", "tsi_protocol_failure")
# Names of gRPC's codes, which HTTP has in the JSON of an error.
_REFUSALS = ("FAILED_PRECONDITION", "PERMISSION_DENIED", "UNIMPLEMENTED", "UNAUTHENTICATED", "NOT_FOUND")
# What a server says while it starts, stops or is busy, and what gRPC says of a connection that it makes anew by itself.
_PASSING = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")


class Unreachable(Exception):
    """The server did not answer this time; trying again may help. The text says what went wrong."""


class Damaged(Unreachable):
    """An answer that cannot be used, or a call that the server could not read: the next try takes a new connection.

    Compression of headers has a memory for each connection: what was damaged once stays so until it ends.
    """


class NoTls(Unreachable):
    """The two sides could not agree on TLS: one of them does not speak it, or the handshake was damaged."""


class WrongCertificate(NoTls):
    """The server shows a certificate that this device does not trust. TLS 1.3 guards it: no damage on the way looks like that."""


class CallRefused(Exception):
    """The server says that this device cannot take part. The text is its sentence."""


class UnknownDevice(Exception):
    """The server does not know this device (any more). The text is the server's reason."""


class NotFound(Exception):
    """What was asked for is not there any more."""


def call_error(server: str, error: Any) -> Exception:
    """What a call of gRPC means that ended with this error."""
    code = error.code()
    return status_error(server, str(getattr(code, "name", code)), error.details() or "")


def status_error(server: str, code: str, text_of_server: str) -> Exception:
    """What a call means that ended with this status. Text of the server is shown, and never more than shown."""
    details = printable(text_of_server)
    text = f"{code}: {details}" if details else code
    if code == "UNAVAILABLE":
        words = text_of_server[:_LOOKED_AT].lower()
        if any(word in words for word in _WRONG_CERTIFICATE):
            return WrongCertificate(text)
        return NoTls(text) if any(word in words for word in _NO_TLS) else Unreachable(text)
    if code in _PASSING:
        return Unreachable(text)
    if code not in _REFUSALS or not details:  # every refusal of a server has its sentence
        return Damaged(text)
    if code == "UNAUTHENTICATED":
        return UnknownDevice(details)
    if code == "NOT_FOUND":
        return NotFound(details)
    if code == "UNIMPLEMENTED":
        return CallRefused(
            f"what answers at {server} is not a FedFleet server, or has another version ({details}); check the address, and "
            "install the same version on both sides"
        )
    return CallRefused(f"the server at {server} refuses: {details}")


def end_of_patience(server: str, error: Exception, *, uses_tls: bool) -> BadInput:
    """Why a device ends that tried for as long as it may: one sentence with the cure."""
    match error:
        case NoTls():
            return BadInput(
                f"the server at {server} and this device cannot agree on TLS ({error}); give --ca with the authority that "
                "signed the server's certificate, and use the host name in that certificate as the address"
            )
        case Damaged():
            return BadInput(
                f"what answers at {server} is not a FedFleet server, or the line changes what it sends ({error}); check the "
                "address, and what lies between this device and the server"
            )
        case CallRefused():
            return BadInput(str(error))
        case UnknownDevice():
            return BadInput(f"the server at {server} refuses: {error}")
        case _:
            plain = "" if uses_tls else ", or give --ca if it speaks TLS"
            return BadInput(f"no server answers at {server} ({error}); start one with fedfleet serve{plain}")
