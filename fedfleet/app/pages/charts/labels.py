"""Words beside marks: how wide they are, and where they stand so that no two overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_NARROW, _BROAD = set("iljtfr.,:;'|!()[] "), set("mwMW%@&")
ROW = 16.0  # pixels from one line of words to the next


def width_of(said: str, *, strong: bool = False) -> float:
    """About how many pixels these words are wide, at 12.5 px; rather too many than too few.

    >>> width_of("ill") < width_of("abc") < width_of("MMM")
    True
    """
    wide = sum(3.9 if c in _NARROW else 11.2 if c in _BROAD else 8.4 if c.isupper() else 7.1 for c in said)
    return wide * (1.06 if strong else 1.0)


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places moved as little as need be so that neighbours are `gap` apart, in their order, between the limits.

    Where there is not room enough for all, they stand evenly and closer.

    >>> apart([10, 12, 50], 16, 0, 100)
    [3.0, 19.0, 50.0]
    """
    if not places:
        return []
    order = sorted(range(len(places)), key=lambda i: places[i])
    gap = min(gap, (high - low) / max(len(places) - 1, 1))
    # Neighbours that touch become a block, which sits as near as it can to where its members want to be.
    blocks: list[tuple[float, int]] = []  # where the first of a block would be, how many
    for i in order:
        first, count = min(max(places[i], low), high), 1
        while blocks and blocks[-1][0] + blocks[-1][1] * gap > first:
            above, many = blocks.pop()
            first, count = (above * many + (first - many * gap) * count) / (many + count), many + count
        blocks.append((min(max(first, low), high - (count - 1) * gap), count))
    found = [first + k * gap for first, count in blocks for k in range(count)]
    for i in range(1, len(found)):  # limits may have pushed one block against the next
        found[i] = max(found[i], found[i - 1] + gap)
    for i in range(len(found) - 1, -1, -1):
        found[i] = min(found[i], high if i == len(found) - 1 else found[i + 1] - gap)
    settled = [0.0] * len(places)
    for place, i in zip(found, order, strict=True):
        settled[i] = place
    return settled


@dataclass(frozen=True, slots=True)
class Flag:
    """A label in the band above a chart: its row from below, and on which side of its leader it stands."""

    row: int
    left: bool


def flags(places: Sequence[float], widths: Sequence[float], low: float, high: float, *, gap: float = 6.0) -> list[Flag]:
    """Rows and sides for labels whose leaders rise at these places: no label meets another, none is crossed by a leader.

    The rightmost is placed first and lowest, so that what crowds at the left climbs.
    """
    found: dict[int, tuple[int, bool, float, float]] = {}
    for i in sorted(range(len(places)), key=lambda i: -places[i]):
        at, wide = places[i], widths[i]
        options = [
            (row, left, a, b)
            for row in range(len(places) + 1)
            for left, a, b in ((True, at - gap - wide, at), (False, at, at + gap + wide))
            if (a >= low - 1 and b <= high + 1)
        ]
        free = next((o for o in options if _free(o, at, found, places, gap)), None)
        found[i] = free or (len(found), at - wide - gap >= low, at - wide - gap, at)
    return [Flag(found[i][0], found[i][1]) for i in range(len(places))]


def _free(
    option: tuple[int, bool, float, float], at: float, taken: dict[int, tuple[int, bool, float, float]],
    places: Sequence[float], gap: float,
) -> bool:  # fmt: skip
    row, _, a, b = option
    for j, (other, _, c, d) in taken.items():
        if other == row and a < d + gap and c < b + gap:
            return False
        if other < row and c - 2 < at < d + 2:
            return False  # my leader would cross its words
        if other > row and a - 2 < places[j] < b + 2:
            return False  # its leader would cross mine
    return True
