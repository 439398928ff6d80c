"""Keeps secrets out of what people read: by the names of facts, by known values, and by what secrets look like."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping

from fedfleet.network.security.sanitiser import printable

HIDDEN = "(hidden)"
MOST_TEXT = 300  # characters
# Facts whose value nobody may read, whatever it is; and those that are long and random and meant to be read.
_SECRET_NAMES = re.compile(r"secret|token|nonce|passw|key|evidence|authoriz|signature|credential", re.I)
_HASH_NAMES = frozenset({"blob", "digest", "frozen", "hash", "model"})
_LABELLED_SECRET = re.compile(r"(?i)\b((?:secret|token|nonce|password|key|authorization)\s*[=:]\s*|bearer\s+)[^\s,;)]+")
_LONG_WORD = re.compile(r"[A-Za-z0-9_+=-]{24,}")


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Text without what looks like a secret: known ones, `token=..`, and long words as only machines make them up.

    >>> without_secrets("token=abc was refused; so was 9f86d081884c7d659a2feaa0c55ad015")
    'token=(hidden) was refused; so was (hidden)'
    """
    for value in secrets:
        text = text.replace(value, HIDDEN)
    return _LONG_WORD.sub(_hide_if_random, _LABELLED_SECRET.sub(rf"\g<1>{HIDDEN}", text))


def clean_fact(name: str, value: object, secrets: Iterable[str] = ()) -> str | int | float | bool | None:
    """A named fact as it may be written: numbers as they are, text cleaned, bytes and objects by their kind only."""
    if _SECRET_NAMES.search(name):
        return HIDDEN
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return printable(value if name in _HASH_NAMES else without_secrets(value, secrets), MOST_TEXT)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    return f"a {type(value).__name__}"


def clean_facts(named: Mapping[str, object], secrets: Iterable[str] = ()) -> dict[str, str | int | float | bool | None]:
    """All facts of an entry."""
    return {name: clean_fact(name, value, secrets) for name, value in named.items()}


def spellings(secret: bytes) -> tuple[str, ...]:
    """How a secret could turn up in text."""
    forms = [secret.hex(), base64.b64encode(secret).decode(), base64.urlsafe_b64encode(secret).decode(), repr(secret)]
    return tuple({form.rstrip("=") for form in forms})


def _hide_if_random(word: re.Match[str]) -> str:
    text = word[0]
    looks_random = any(c.isdigit() for c in text) or (text != text.lower() and text != text.upper())
    return HIDDEN if looks_random else text
