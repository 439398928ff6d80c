"""Notes in a journal that programs read again, and not people alone: how each is written, and how it is found."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Journals of earlier versions say "judged".
_BY_DEVICES = re.compile(r"version (\d+) was (?:evaluated|judged) by \d+ of \d+ devices: ")


def devices_note(what: str, version: int, answered: int, asked: int, declined: int, silent: int) -> str:
    """One sentence about the devices that were asked to evaluate a model, or for its loss.

    >>> devices_note("evaluated", 4, 0, 3, 0, 3)
    'version 4 was evaluated by 0 of 3 devices: 0 declined, 3 did not answer'
    """
    return (
        f"version {version} was {what} by {answered} of {asked} devices: {declined} declined, {silent} did not answer"
    )


def evaluated_by_devices(notes: Iterable[str]) -> frozenset[int]:
    """The versions that devices evaluated: their scores cannot be derived again.

    >>> sorted(evaluated_by_devices([devices_note("evaluated", 4, 2, 3, 0, 1), "patience ended"]))
    [4]
    """
    return frozenset(int(match[1]) for match in map(_BY_DEVICES.match, notes) if match is not None)
