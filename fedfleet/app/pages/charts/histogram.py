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
    result = [line(0, y.start, sheet.width, y.start, "axis")]
    right_edge = -1.0
    for i, count in enumerate(counts):
        middle = (i + 0.5) * each
        result.append(
            box(i * each + 0.06 * each, y(count), 0.88 * each, y.start - y(count), kinds[i] if kinds else "a6")
        )
        count_text, wide = f"{count:,}" if count else "", width_of(f"{count:,}")
        if count_text and middle - wide / 2 > right_edge:
            result.append(
                text(middle, y(count) - 6, count_text, "strong" if kinds and kinds[i] != "a6" else "", "middle")
            )
            right_edge = middle + wide / 2
        result.append(_foot(feet[i] if i < len(feet) else "", middle, y.start + 19, sheet))
    result.append(text(sheet.width, y.start + 37, label, anchor="end"))
    return Drawing(sheet.width, y.start + 42, result)


def _foot(words: str, middle: float, y: float, sheet: Sheet) -> str:
    half = width_of(words) / 2
    return text(min(max(middle, half), sheet.width - half), y, words, "", "middle")
