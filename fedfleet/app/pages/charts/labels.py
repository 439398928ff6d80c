"""Labels of marks: how wide they are, and where they stand so that no two overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Pixels of letters at 12.5 px, as DejaVu Sans Condensed has them: the broadest of the families that pages name.
_WIDTHS = {c: w for letters, w in (("ilj.,:;'|!()[] ", 3.9), ("tfr", 4.6), ("<>=+~±", 9.4), ("mwMW%@&", 11.2)) for c in letters}
_UPPER, _LOWER, _STRONG = 8.4, 7.1, 1.13
ROW = 16.0  # pixels from one line of words to the next


def width_of(words: str, *, strong: bool = False) -> float:
    """About how many pixels these words are wide, at 12.5 px; rather too many than too few.

    >>> width_of("ill") < width_of("abc") < width_of("MMM")
    True
    """
    wide = sum(_WIDTHS.get(c, _UPPER if c.isupper() else _LOWER) for c in words)
    return wide * (_STRONG if strong else 1.0)


def cut_text(words: str, room: float, *, strong: bool = False) -> str:
    """The words, or as many of their letters as fit into that many pixels.

    >>> cut_text("deadline", 200.0), cut_text("deadline of a minute", 80.0)
    ('deadline', 'deadline of ..')
    """
    if width_of(words, strong=strong) <= room:
        return words
    while words and width_of(f"{words}..", strong=strong) > room:
        words = words[:-1]
    return f"{words}.."


def cut_names(names: Sequence[str], room: float, *, strong: bool = False) -> list[str]:
    """Names cut to this room; where two would then read alike, all that are too long lose their middles instead.

    >>> cut_names(["a deadline of 60 s", "a deadline of 90 s"], 90.0)
    ['a deadl..f 60 s', 'a deadl..f 90 s']
    """
    result = [cut_text(name, room, strong=strong) for name in names]
    if len(set(result)) == len(set(names)):
        return result
    for i, name in enumerate(names):
        head, tail = name[: -(-len(name) // 2)], name[-(-len(name) // 2) :]
        while head and tail and width_of(f"{head}..{tail}", strong=strong) > room:
            head, tail = (head[:-1], tail) if len(head) > len(tail) else (head, tail[1:])
        result[i] = name if width_of(name, strong=strong) <= room else f"{head}..{tail}"
    return result


def separate(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places moved as little as need be so that neighbours are `gap` apart, in their order, between the limits.

    Where there is not room enough for all, they stand evenly and closer.

    >>> separate([10.0, 12.0, 50.0], 16, 0, 100)
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
    result = [first + k * gap for first, count in blocks for k in range(count)]
    for i in range(1, len(result)):  # limits may have pushed one block against the next
        result[i] = max(result[i], result[i - 1] + gap)
    for i in range(len(result) - 1, -1, -1):
        result[i] = min(result[i], high if i == len(result) - 1 else result[i + 1] - gap)
    positions = [0.0] * len(places)
    for place, i in zip(result, order, strict=True):
        positions[i] = place
    return positions


@dataclass(frozen=True, slots=True)
class Flag:
    """A label in the band above a chart: its row from below, and on which side of its leader it stands."""

    row: int
    left: bool


_TRIES = 20_000  # places that are tried before crowding is accepted


@dataclass(frozen=True, slots=True)
class _Placement:
    """Where a label would stand: row, side, and from where to where its words reach; `at` is its leader."""

    row: int
    left: bool
    start: float
    end: float
    at: float

    def overlaps(self, other: _Placement, gap: float) -> bool:
        """Whether words meet words, or a leader crosses words."""
        if self.row == other.row:
            return self.start < other.end + gap and other.start < self.end + gap
        low, high = (self, other) if self.row < other.row else (other, self)
        return low.start - 2 < high.at < low.end + 2


def place_flags(places: Sequence[float], widths: Sequence[float], low: float, high: float, *, gap: float = 6.0) -> list[Flag]:
    """Rows and sides for labels whose leaders rise at these places: no label meets another, none is crossed by a leader.

    Searched with as few rows as will do; where nothing will, each label has a row of its own.
    """
    order = sorted(range(len(places)), key=lambda i: -places[i])
    for rows in range(1, len(places) + 2):
        tries_left = [_TRIES]
        result = _search(order, places, widths, (low, high), gap, rows, [], tries_left)
        if result is not None:
            by = dict(zip(order, result, strict=True))
            return [Flag(by[i].row, by[i].left) for i in range(len(places))]
    alone = {i: row for row, i in enumerate(order)}
    return [Flag(alone[i], places[i] - widths[i] - gap >= low) for i in range(len(places))]


def _search(
    order: Sequence[int], places: Sequence[float], widths: Sequence[float], limits: tuple[float, float], gap: float,
    rows: int, chosen: list[_Placement], tries_left: list[int],
) -> list[_Placement] | None:  # fmt: skip
    if len(chosen) == len(order):
        return chosen
    i = order[len(chosen)]
    at, wide = places[i], widths[i]
    for row in range(rows):
        for side, start in ((True, at - gap - wide), (False, at + gap)):
            tries_left[0] -= 1
            candidate = _Placement(row, side, start, start + wide, at)
            if tries_left[0] < 0 or candidate.start < limits[0] - 1 or candidate.end > limits[1] + 1:
                continue
            if not any(candidate.overlaps(other, gap) for other in chosen):
                result = _search(order, places, widths, limits, gap, rows, [*chosen, candidate], tries_left)
                if result is not None:
                    return result
    return None
