"""Why reports were late, and when they would have come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, Ticks, foot_axis, left_axis, room_for, shares
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.labels import ROW, width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, both, dot, figure, line, text
from fedfleet.app.pages.report.number_words import duration, many, per_cent, round_above
from fedfleet.app.pages.report.report_facts import Facts
from fedfleet.app.pages.time_units import moments, plain
from fedfleet.core.records import Floats, Ints

_ENOUGH = 0.8  # of the late reports: what a longer deadline should bring in
_FARTHEST = 10.0  # times the deadline: beyond that nobody would wait


@dataclass(frozen=True, slots=True)
class Late:
    """The tasks that were given up: whose, by how much each would have been late (infinite: never back), what it would have needed in all,
    how long the device would have worked, and of that moved the model."""

    clients: Ints
    over: Floats
    seconds: Floats
    worked: Floats
    moving: Floats


def lateness(f: Facts) -> Late | None:
    """What the world says of the tasks that were given up; None if it says nothing, or if there are none."""
    needs = None if f.hindsight is None else f.hindsight.needs
    late = f.dropped
    if needs is None or not late.any():
        return None
    waited = f.tasks.seconds[late]
    over = np.maximum(needs.seconds[late] - waited, 0.0)
    return Late(f.tasks.clients[late], over, needs.seconds[late], needs.worked[late], needs.moving[late])


def deadline_to_try(found: Late, deadline: float) -> float | None:
    """The shortest round deadline by which four of five late reports would have come; None if it is more than ten times as long."""
    needed = np.sort(deadline + found.over)
    aim = float(needed[int(np.ceil(_ENOUGH * len(needed))) - 1])
    longer = round_above(aim) if np.isfinite(aim) else None
    return float(longer) if longer is not None and deadline < longer <= _FARTHEST * deadline else None


def causes(found: Late, deadline: float) -> list[tuple[str, int, int, str]]:
    """(cause, reports, people, what would help), most frequent first; each late report has one cause."""
    link = found.moving > deadline
    both_ = ~link & (found.worked > deadline)
    gone = ~link & ~both_
    limit = duration(deadline)
    told = (
        (f"The link alone takes more than {limit}", link, "only a longer deadline or a smaller model helps"),
        (f"Link and training together take more than {limit}", both_, "the link would do; too little time is left for training"),
        ("Went out of reach on the way, or failed", gone, "the work alone would have fitted"),
    )  # fmt: skip
    rows = [
        (name, int(mask.sum()), len(np.unique(found.clients[mask])), cure) for name, mask, cure in told if mask.any()
    ]
    return sorted(rows, key=lambda row: -row[1])


def late_section(f: Facts) -> list[str]:
    """Both figures, for runs with a deadline that somebody missed."""
    found = lateness(f)
    if found is None or f.deadline is None:
        return []
    return ["<h2>Why reports were late</h2>", _by_cause(f, found), _when(f, found)]


def _by_cause(f: Facts, found: Late) -> str:
    rows = causes(found, f.deadline or 0.0)
    drawn = [
        Bar(name, [Part(n, "late-area")], f"{n:,}", f"{many(who, f.person, f.people)}; {cure}")
        for name, n, who, cure in rows
    ]
    finding = f"Why {len(found.over):,} reports were late: " + "; ".join(f"{n:,}: {name}" for name, n, _, _ in rows)
    title = f"{many(len(found.over), 'late report')}, by cause"
    return figure(
        title, "From the time that each task would have needed", *both(lambda sheet: bars(drawn, sheet)), finding
    )


def _when(f: Facts, found: Late) -> str:
    """Which share of all tasks would be back by when."""
    needs = f.hindsight.needs if f.hindsight else None
    assert needs is not None
    ended = f.tasks.fate >= 0
    seconds = np.sort(needs.seconds[ended & ~np.isnan(needs.seconds)])
    deadline, aim = f.deadline or 0.0, deadline_to_try(found, f.deadline or 0.0)
    marks = [(deadline, "deadline of")] + ([(aim, "")] if aim else [])
    said = [f"{per_cent(_back(seconds, at))} by {duration(at)}" for at, _ in marks]
    never = int(np.isinf(seconds).sum())
    last = seconds[np.isfinite(seconds)]
    said += [f"the last after {plain(float(last[-1]))}"] if len(last) else []
    finding = f"Share of the {len(seconds):,} tasks that are back after a given time: {', '.join(said)}{f'; {never:,} never' if never else ''}."
    return figure(
        "When the work would have come back", f"Share of all {len(seconds):,} tasks back by then, logarithmic; a longer deadline costs time in every round that needs it",
        *both(lambda sheet: _curve(seconds, marks, sheet, f.colour)), finding,
    )  # fmt: skip


def _back(seconds: Floats, by: float) -> float:
    return float(np.searchsorted(seconds, by + 1e-9, side="right")) / max(len(seconds), 1)


def _curve(seconds: Floats, marks: list[tuple[float, str]], sheet: Sheet, colour: int) -> Drawing:
    known = seconds[np.isfinite(seconds) & (seconds > 0)]
    low = float(min(known[0] if len(known) else 1.0, marks[0][0] / 2))
    high = float(max(known[-1] if len(known) else 2.0, marks[-1][0] * 1.5))
    up: Ticks = shares(1.0)
    left, base = room_for(up), 236.0
    x, y = Scale(low, high, left, sheet.width - 12, log=True), Scale(0.0, 1.0, base, 16.0)
    found = left_axis(y, up, left, x.end) + foot_axis(
        x, moments(low, high, 4 if sheet.slim else 8), base, "time after being asked"
    )
    kept = np.unique(np.linspace(0, len(known) - 1, min(len(known), 300)).astype(np.int64)).tolist()
    run = "".join(f"H{x(float(known[i])):.1f}V{y((i + 1) / len(seconds)):.1f}" for i in kept)
    found.append(f'<path d="M{x(low):.1f} {y(0):.1f}{run}" class="line s{colour}"/>')
    found += [line(x(at), y(_back(seconds, at)), x(at), base, "ref") for at, _ in marks]
    for i, (at, name) in enumerate(marks):
        share = _back(seconds, at)
        told = f"{name + ' ' if name else ''}{duration(at)}: {per_cent(share)}"
        told += "" if sheet.slim else " of the work is back"
        place = x(at)
        found.append(dot(place, y(share), 4, f"a{colour}"))
        fits = place + 12 + width_of(told, strong=True) <= sheet.width
        # Right of the mark and below the line that rises; above it at the foot, left of it where another stands or room is short.
        beside = fits and not (i and abs(y(share) - y(_back(seconds, marks[0][0]))) < 2 * ROW)
        drop = -8.0 if y(share) > base - 26 or not beside else 18.0
        found.append(
            text(place + (9 if beside else -9), y(share) + drop, told, "strong halo", "start" if beside else "end")
        )
    return Drawing(sheet.width, base + 42, found)
