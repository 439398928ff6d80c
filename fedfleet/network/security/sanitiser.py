"""Disarms what strangers say before it reaches a journal, a log, a reply or a terminal: text, and statistics.

Text keeps its printable characters; whatever could move a cursor, start a line, hide or turn text around (controls, format and
direction marks, lone surrogates, separators, private characters) becomes an escape, and what is too long is cut. Of statistics,
those that were declared, are finite and have a plain name are kept, sixteen at most; the others are dropped and counted: a report
is worth more than a stray number beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

LONGEST = 200  # characters of foreign text that are shown
MOST_STATS = 16
_STAT_NAME = re.compile(r"[a-z][a-z0-9_./]{0,31}")
_CUT = ".."


def printable(text: str | bytes, longest: int = LONGEST) -> str:
    r"""Foreign text as it may be shown: one line of printable characters, no longer than `longest`.

    >>> printable("phone\n\x1b[2J of \u202eecila")
    'phone\\n\\x1b[2J of \\u202eecila'
    """
    cut = text[: longest + 1]  # before anything is done with it, however long it is
    line = cut.decode("utf-8", "backslashreplace") if isinstance(cut, bytes) else cut
    if not (line.isprintable() and "\\" not in line):
        line = "".join(c if c.isprintable() and c != "\\" else _escape(c) for c in line)
    return line if len(line) <= longest and len(text) <= longest else line[: longest - len(_CUT)] + _CUT


class Stats(NamedTuple):
    """Statistics that are kept, and how many were dropped."""

    kept: dict[str, float]
    dropped: int


def clean_stats(stats: Mapping[str, float], declared: Collection[str] | None = None) -> Stats:
    """What is kept of a report's statistics: `declared` names (None: any), finite, sixteen at most, the first by name.

    >>> clean_stats({"loss": 0.5, "Loss!": 1.0, "norm": float("inf")})
    Stats(kept={'loss': 0.5}, dropped=2)
    """
    names = sorted(
        name
        for name, value in stats.items()
        if (declared is None or name in declared) and math.isfinite(value) and _STAT_NAME.fullmatch(name)
    )[:MOST_STATS]
    return Stats({name: stats[name] for name in names}, len(stats) - len(names))


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
