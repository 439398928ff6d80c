"""Pins: what a builder adds to its table when a spec is resolved, such as the hash of a file that the table names.

So a spec, its digest and every later reader mean the content of a file, and not whatever lies at its place that day.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Builder = TypeVar("Builder", bound=Callable[..., Any])
Pin = Callable[[Mapping[str, Any]], dict[str, Any]]

_PINS: dict[Callable[..., Any], tuple[Pin, Pin]] = {}


def pinned(pin: Pin, identity: Pin) -> Callable[[Builder], Builder]:
    """Give a builder its pin: `pin(table)` completes a resolved table, and `identity(table)` is what of it names the content.

    >>> @pinned(lambda table: {**table, "content": "abc"}, lambda table: {"content": table["content"]})
    ... def photos(*, path: str, content: str | None = None): ...
    >>> complete(photos, {"use": "photos", "path": "a.npz"}), identity_of(photos, {"path": "a.npz", "content": "abc"})
    ({'use': 'photos', 'path': 'a.npz', 'content': 'abc'}, {'content': 'abc'})
    """

    def mark(build: Builder) -> Builder:
        _PINS[build] = pin, identity
        return build

    return mark


def complete(build: Callable[..., Any], table: dict[str, Any]) -> dict[str, Any]:
    """The table of a part with what its builder pins; the table itself where the builder pins nothing."""
    return _PINS[build][0](table) if build in _PINS else table


def identity_of(build: Callable[..., Any], table: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of a part's table says what was asked, without the places where it lies."""
    return _PINS[build][1](table) if build in _PINS else table
