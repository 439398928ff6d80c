"""How many there are of each: counted columns with their number on top."""

from __future__ import annotations

from collections.abc import Sequence

from fedfleet.app.pages.charts.axes import Scale
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, line, text


def histogram(
    counts: Sequence[int],
    sheet: Sheet,
    feet: Sequence[str],
    *,
    kinds: Sequence[str] = (),
    label: str = "",
    height: float = 150.0,
) -> Drawing:
    """One column for each count; `feet` stand under them (empty: nothing), `kinds` paint them, `label` names the axis."""
    y = Scale(0.0, max(counts, default=0) or 1, height + 22, 22)
    each = sheet.width / max(len(counts), 1)
    found = [line(0, y.start, sheet.width, y.start, "axis")]
    taken = -1.0
    for i, count in enumerate(counts):
        middle = (i + 0.5) * each
        found.append(
            box(i * each + 0.06 * each, y(count), 0.88 * each, y.start - y(count), kinds[i] if kinds else "a6")
        )
        said, wide = f"{count:,}" if count else "", width_of(f"{count:,}")
        if said and middle - wide / 2 > taken:
            found.append(text(middle, y(count) - 6, said, "strong" if kinds and kinds[i] != "a6" else "", "middle"))
            taken = middle + wide / 2
        found.append(_foot(feet[i] if i < len(feet) else "", middle, y.start + 19, sheet))
    found.append(text(sheet.width, y.start + 37, label, anchor="end"))
    return Drawing(sheet.width, y.start + 42, found)


def _foot(said: str, middle: float, y: float, sheet: Sheet) -> str:
    half = width_of(said) / 2
    return text(min(max(middle, half), sheet.width - half), y, said, "", "middle")
