"""Why a call of a device is not carried out: types that each door turns into statuses of its own."""

from __future__ import annotations


class CallRefused(Exception):
    """A call that the service does not carry out, with its reason; a door turns `code` into its own status."""

    code = "FAILED_PRECONDITION"
    counter = ""
    seconds = 0.0  # after which it may be tried again


class Unauthenticated(CallRefused):
    """A caller that shows no secret, or not the right one."""

    code, counter = "UNAUTHENTICATED", "strangers"


class RateLimited(CallRefused):
    """A peer that asks for more than its share."""

    code, counter = "RESOURCE_EXHAUSTED", "slowed"


class Malformed(CallRefused):
    """Bytes that are no message of this protocol."""

    code, counter = "INVALID_ARGUMENT", "malformed"


class TooSlow(CallRefused):
    """A stream whose chunks come too late."""

    code = "DEADLINE_EXCEEDED"


class NotFound(CallRefused):
    """A model that is not here (any more)."""

    code = "NOT_FOUND"


class NotPermitted(CallRefused):
    """A caller that may not know."""

    code = "PERMISSION_DENIED"
