"""Sheets, marks and figures: what every chart is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Sheet:
    """The paper of one drawing: its width, and whether it is for a phone (no hover titles, fewer ticks)."""

    width: int
    slim: bool = False


WIDE, SLIM, HALF = Sheet(880), Sheet(350, slim=True), Sheet(420)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture before it is put into a figure: its size, and its marks in the order in which they are painted."""

    width: float
    height: float
    marks: Sequence[str]


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Words at a place; kinds: ink, strong, on (over a fill), t1 to t5 (the colour of a series), halo, slanted."""
    if not words:
        return ""
    kinds = f' class="{kind}"' if kind else ""
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{kinds}{anchored}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line; kinds: grid, axis, ref (dotted), leader, tail."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def box(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    """A filled rectangle; kinds: a1 to a6, aw (wash), ai (ink), late-area (hatched: too late or wasted), pale."""
    where = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" class="{kind}"'
    return f"<rect {where}><title>{escape(title)}</title></rect>" if title else f"<rect {where}/>"


def dot(x: float, y: float, radius: float, kind: str, title: str = "") -> str:
    """A circle, filled like a box; `ring s1` is hollow."""
    where = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" class="{kind}"'
    return f"<circle {where}><title>{escape(title)}</title></circle>" if title else f"<circle {where}/>"


def svg(drawing: Drawing, finding: str) -> str:
    """The picture itself, with the finding for those who cannot see it."""
    label = escape(finding, quote=True)
    size = f"0 0 {drawing.width:.0f} {drawing.height:.0f}"
    return f'<svg viewBox="{size}" role="img" aria-label="{label}">{"".join(drawing.marks)}</svg>'


Chart = Callable[[Sheet], Drawing]  # declared once, and drawn on every sheet that a page needs


def figure(title: str, subtitle: str, chart: Chart, finding: str, *, sheet: Sheet = WIDE, note: str = "", legend: str = "") -> str:
    """A chart with what is drawn, how to read it, and the finding in words; `sheet` is that of screens, phones have their own.

    `legend` is what `paint_legend()` gives, for stacked parts only; `note` stands under the picture.
    """
    under = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    how = f'<p class="fs">{escape(subtitle)}</p>' if subtitle else ""
    return f'<figure><p class="ft">{escape(title)}</p>{how}{legend}{pictures(chart, finding, sheet)}{under}</figure>'


def pictures(chart: Chart, finding: str, sheet: Sheet = WIDE) -> str:
    """A chart on the sheet of a screen and on that of a phone, of which a device shows one."""
    wide, slim = svg(chart(sheet), finding), svg(chart(SLIM), finding)
    return f'<div class="wide">{wide}</div><div class="slim">{slim}</div>'


def stack_below(*drawings: Drawing, gap: float = 0.0) -> Drawing:
    """Drawings of one width under each other."""
    marks, y = list[str](), 0.0
    for one in drawings:
        marks.append(f'<g transform="translate(0 {y:.1f})">{"".join(one.marks)}</g>')
        y += one.height + gap
    return Drawing(max((one.width for one in drawings), default=0.0), y - gap if drawings else 0.0, marks)


def side_by_side(*drawings: Drawing, gap: float = 24.0) -> Drawing:
    """Drawings side by side."""
    marks, x = list[str](), 0.0
    for one in drawings:
        marks.append(f'<g transform="translate({x:.1f} 0)">{"".join(one.marks)}</g>')
        x += one.width + gap
    return Drawing(x - gap if drawings else 0.0, max((one.height for one in drawings), default=0.0), marks)


def paint_legend(entries: Sequence[tuple[str, str]]) -> str:
    """What the paints of stacked parts mean: (word, kind of a box)."""
    names = {"late-area": "late", "aw": "bw", "ai": "bi"} | {f"a{i}": f"b{i}" for i in range(1, 7)}
    swatches = [(word, " ".join(names.get(k, k) for k in kind.split())) for word, kind in entries]
    items = "".join(f'<li><i class="{swatch}"></i>{escape(word)}</li>' for word, swatch in swatches)
    return f'<ul class="key">{items}</ul>'


def switch(name: str, choices: Sequence[tuple[str, str]]) -> str:
    """Up to three pictures of which one is seen, chosen by its word, without a script."""
    heads, bodies = list[str](), list[str]()
    for i, (word, picture) in enumerate(choices, 1):
        marked, ident = " checked" if i == 1 else "", f"{name}-{i}"
        heads.append(f'<input type="radio" name="{name}" id="{ident}"{marked}><label for="{ident}">{escape(word)}</label>')
        bodies.append(f'<div class="shown n{i}">{picture}</div>')
    return f'<div class="switch">{"".join(heads + bodies)}</div>'
