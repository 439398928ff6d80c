"""Participation against speed: how often each client's work entered the model, by how long its tasks take."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from fedfleet.app.pages.anatomy import SHEETS, Sheet
from fedfleet.app.pages.svg import Axis, number, ticks
from fedfleet.app.pages.times import moments, plain
from fedfleet.core.records import DROPPED, LOST, Bools, Floats, Ints
from fedfleet.measure.participation import contributions
from fedfleet.measure.tasks import RUNNING, Tasks

MOST = 400  # clients with a dot of their own
_ACROSS, _UP = 28, 12  # cells of larger fleets, a dot each
_HEIGHT, _TOP, _BOTTOM = 280, 26, 46
KINDS = (("always used", "var(--c1)"), ("sometimes used", "var(--c4)"), ("never used", "var(--c2)"))


@dataclass(frozen=True, slots=True)
class Speeds:
    """The clients that ended a task, as columns; `least`: none of its tasks was finished, so that it needs longer than this."""

    clients: Ints
    seconds: Floats
    used: Ints
    asked: Ints
    kind: Ints
    least: Bools


def speeds(tasks: Tasks, clients: int) -> Speeds:
    """The mean seconds of the reports that a client sent; of one that sent none, the longest that it was waited for."""
    ended = (tasks.fate != RUNNING) & np.isfinite(tasks.seconds)
    came = ended & (tasks.fate != DROPPED) & (tasks.fate != LOST)
    reports = np.bincount(tasks.clients[came], minlength=clients)
    means = np.bincount(tasks.clients[came], tasks.seconds[came], clients) / np.maximum(reports, 1)
    longest = np.zeros(clients)
    np.maximum.at(longest, tasks.clients[ended], tasks.seconds[ended])
    used, over = contributions(tasks, clients), np.bincount(tasks.clients[tasks.fate != RUNNING], minlength=clients)
    seconds = np.where(reports > 0, means, longest)
    who = np.flatnonzero(seconds > 0)
    kind = np.where(used[who] == 0, 2, np.where(used[who] < over[who], 1, 0))
    return Speeds(who, seconds[who], used[who], over[who], kind, reports[who] == 0)


def fast_half(found: Speeds) -> float | None:
    """The share of the used reports that the faster half of these clients gave; None if there was none, or nobody to compare."""
    if len(found.clients) < 2 or not found.used.sum():
        return None
    order = np.argsort(found.seconds, kind="stable")
    return float(found.used[order[: len(order) // 2]].sum() / found.used.sum())


def speed_picture(tasks: Tasks, clients: int) -> str:
    """The picture in both drawings, with its legend; nothing if nobody has ended a task."""
    found = speeds(tasks, clients)
    if not len(found.clients):
        return ""
    dots = _dots(found)
    drawn = [f'<div class="{sheet.name}">{_drawing(dots, found, sheet)}</div>' for sheet in SHEETS]
    there = np.unique(found.kind).tolist()
    items = [f'<span><i class="dot" style="background:{KINDS[k][1]}"></i>{KINDS[k][0]}</span>' for k in there]
    if found.least.any():
        items.append('<span><i class="dot hollow"></i>never finished: needs longer than this</span>')
    return "".join(drawn) + f'<div class="legend">{"".join(items)}</div>'


def speed_caption(tasks: Tasks, clients: int) -> str:
    """What the picture shows, with those whom it cannot show."""
    found = speeds(tasks, clients)
    half = fast_half(found)
    said = "" if half is None else f" The faster half of them gave {100 * half:.0f} % of the reports that were used."
    left = clients - len(found.clients)
    was = "was" if left == 1 else "were"
    unseen = f" {left:,} of {clients:,} clients {was} never asked or never ended a task, so how fast they are is not known." if left else ""  # fmt: skip
    many = (
        " A dot is all clients of about the same speed and use; the larger, the more."
        if len(found.clients) > MOST
        else ""
    )
    return f"How often a client's work was used, by the time that its task takes (logarithmic).{said}{unseen}{many}"


@dataclass(frozen=True, slots=True)
class Dot:
    """One client, or several that are alike."""

    seconds: float
    used: float
    kind: int
    least: bool
    count: int
    title: str


def _dots(found: Speeds) -> list[Dot]:
    """A dot for each client, or for those of one cell of a grid; whoever would lie under another shares its dot."""
    if len(found.clients) <= MOST:
        near = np.unique(np.round(np.log(found.seconds), 2), return_inverse=True)[1]
        cells = (near * (int(found.used.max()) + 1) + found.used) * 6 + found.kind * 2 + found.least
    else:
        up = np.where(found.used == 0, 0, 1 + _cell(found.used.astype(np.float64), _UP))
        cells = _cell(np.log(found.seconds), _ACROSS) * (_UP + 1) + up
    order = np.argsort(cells, kind="stable")
    return [_dot(found, mine) for mine in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1)]


def _dot(found: Speeds, mine: Ints) -> Dot:
    seconds, used = found.seconds[mine], found.used[mine]
    kind, least = int(np.bincount(found.kind[mine]).argmax()), bool(found.least[mine].mean() > 0.5)
    more = "more than " if least else ""
    if len(mine) == 1:
        c = int(mine[0])
        title = f"client {found.clients[c]}: {used[0]} of {found.asked[c]} tasks used, {more}{plain(float(seconds[0]))} a task"
    else:
        spread = dict.fromkeys((plain(float(seconds.min())), plain(float(seconds.max()))))
        times = " to ".join(dict.fromkeys((f"{used.min()}", f"{used.max()}")))
        title = f"{len(mine):,} clients: {times} tasks used, {more}{' to '.join(spread)} a task"
    return Dot(float(np.exp(np.log(seconds).mean())), float(used.mean()), kind, least, len(mine), title)


def _cell(values: Floats, cells: int) -> Ints:
    low, high = values.min(), values.max()
    return np.minimum(((values - low) / max(high - low, 1e-12) * cells).astype(np.int64), cells - 1)


def _drawing(dots: list[Dot], found: Speeds, sheet: Sheet) -> str:
    low, high = float(found.seconds.min()), float(found.seconds.max())
    middle, reach = (
        float(np.sqrt(low * high)),
        max(float(np.sqrt(high / low)) * 1.12, 2.0),
    )  # a narrow range is not blown up
    left = 46 if sheet.titles else 36
    x = Axis(float(np.log(middle / reach)), float(np.log(middle * reach)), left, sheet.width - 26)
    y = Axis(0, max(float(found.used.max()), 1.0), _HEIGHT - _BOTTOM, _TOP)
    parts = _axes(x, y, middle / reach, middle * reach, sheet)
    most = max(d.count for d in dots)
    for d in sorted(dots, key=lambda d: -d.count):
        radius = (
            min(3.2 * d.count**0.3, 7.0) if len(found.clients) <= MOST else 1.8 + 6.5 * float(np.sqrt(d.count / most))
        )
        colour = KINDS[d.kind][1]
        look = (
            f'fill="var(--page)" stroke="{colour}" stroke-width="1.6"'
            if d.least
            else f'fill="{colour}" fill-opacity=".75"'
        )
        if d.count >= 5 and len(found.clients) <= MOST:
            where = f'x="{x(float(np.log(d.seconds))) + radius + 5:.1f}" y="{y(d.used) - 6:.1f}"'
            parts.append(f'<text {where} class="tick">{d.count} clients</text>')
        at = f'cx="{x(float(np.log(d.seconds))):.1f}" cy="{y(d.used):.1f}" r="{radius:.1f}"'
        parts.append(
            f"<circle {at} {look}><title>{escape(d.title)}</title></circle>"
            if sheet.titles
            else f"<circle {at} {look}/>"
        )
    label = "Reports used per client against seconds per task."
    return f'<svg viewBox="0 0 {sheet.width} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _axes(x: Axis, y: Axis, low: float, high: float, sheet: Sheet) -> list[str]:
    base = y.start
    parts = [f'<line x1="{x.start}" x2="{x.end}" y1="{base}" y2="{base}" class="axis"/>']
    for said, seconds in moments(low, high, 7 if sheet.titles else 4):
        at = x(float(np.log(seconds)))
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{base}" class="grid"/>')
        parts.append(f'<text x="{at:.1f}" y="{base + 18}" class="tick" text-anchor="middle">{said}</text>')
    for value in (t for t in ticks(0, y.high) if t == int(t)):
        parts.append(f'<line x1="{x.start}" x2="{x.end}" y1="{y(value):.1f}" y2="{y(value):.1f}" class="grid"/>')
        parts.append(
            f'<text x="{x.start - 8}" y="{y(value) + 4:.1f}" class="tick" text-anchor="end">{number(value)}</text>'
        )
    middle = (x.start + x.end) / 2
    parts.append(f'<text x="{middle:.1f}" y="{base + 38}" class="label" text-anchor="middle">time a task takes</text>')
    parts.append(f'<text x="{x.start - 30}" y="12" class="label">reports used</text>')
    return parts
