"""Why reports were late, and when they would have come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, Ticks, foot_axis, left_axis, left_axis_width, share_ticks
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.labels import ROW, width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, dot, figure, line, text
from fedfleet.app.pages.report.number_words import count_noun, duration, next_round_time, per_cent
from fedfleet.app.pages.report.report_facts import Facts
from fedfleet.app.pages.time_units import log_time_ticks, plain_time
from fedfleet.core.records import Floats, Ints

_ENOUGH = 0.8  # of the late reports: what a longer deadline should bring in
_FARTHEST = 10.0  # times the deadline: a longer wait is not proposed


@dataclass(frozen=True, slots=True)
class LateTasks:
    """The tasks that were given up: whose, by how much each would have been late (infinite: never back), what it would have needed in all,
    how long the device would have worked, and of that moved the model."""

    clients: Ints
    excess: Floats
    seconds: Floats
    worked: Floats
    moving: Floats


def find_late_tasks(f: Facts) -> LateTasks | None:
    """What the world says of the tasks that were given up; None if it says nothing, or if there are none."""
    needs = None if f.hindsight is None else f.hindsight.needs
    late = f.dropped_tasks
    if needs is None or not late.any():
        return None
    waited = f.tasks.seconds[late]
    excess = np.maximum(needs.seconds[late] - waited, 0.0)
    return LateTasks(f.tasks.clients[late], excess, needs.seconds[late], needs.worked[late], needs.moving[late])


def deadline_to_try(late: LateTasks, deadline: float) -> float | None:
    """The shortest round deadline by which four of five late reports would have come; None if it is more than ten times as long."""
    needed = np.sort(deadline + late.excess)
    aim = float(needed[int(np.ceil(_ENOUGH * len(needed))) - 1])
    longer = next_round_time(aim) if np.isfinite(aim) else None
    return float(longer) if longer is not None and deadline < longer <= _FARTHEST * deadline else None


def lateness_causes(late: LateTasks, deadline: float) -> list[tuple[str, int, int, str]]:
    """(cause, reports, people, what would help), most frequent first; each late report has one cause."""
    link = late.moving > deadline
    link_and_training = ~link & (late.worked > deadline)
    unreachable = ~link & ~link_and_training
    limit = duration(deadline)
    rules = (
        (f"The link alone takes more than {limit}", link, "only a longer deadline or a smaller model helps"),
        (f"Link and training together take more than {limit}", link_and_training, "the link would do; too little time is left for training"),
        ("Went out of reach on the way, or failed", unreachable, "the work alone would have fitted"),
    )  # fmt: skip
    rows = [(name, int(mask.sum()), len(np.unique(late.clients[mask])), cure) for name, mask, cure in rules if mask.any()]
    return sorted(rows, key=lambda row: -row[1])


def late_section(f: Facts) -> list[str]:
    """Both figures, for runs with a deadline that tasks missed."""
    late = find_late_tasks(f)
    if late is None or f.deadline is None:
        return []
    return ["<h2>Why reports were late</h2>", _cause_figure(f, late), _return_figure(f, late)]


def _cause_figure(f: Facts, late: LateTasks) -> str:
    rows, cause_bars = lateness_causes(late, f.deadline or 0.0), list[Bar]()
    for name, n, n_people, cure in rows:
        cause_bars.append(Bar(name, [Part(n, "late-area")], f"{n:,}", f"{count_noun(n_people, f.person, f.people)}; {cure}"))
    finding = f"Why {len(late.excess):,} reports were late: " + "; ".join(f"{n:,}: {name}" for name, n, _, _ in rows)
    title = f"{count_noun(len(late.excess), 'late report')}, by cause"
    return figure(title, "From the time that each task would have needed", lambda sheet: bars(cause_bars, sheet), finding)


def _return_figure(f: Facts, late: LateTasks) -> str:
    """Which share of all tasks would be back by when."""
    needs = f.hindsight.needs if f.hindsight else None
    assert needs is not None
    ended = f.tasks.fate >= 0
    seconds = np.sort(needs.seconds[ended & ~np.isnan(needs.seconds)])
    deadline, aim = f.deadline or 0.0, deadline_to_try(late, f.deadline or 0.0)
    marks = [(deadline, "deadline of")] + ([(aim, "")] if aim else [])
    parts = [f"{per_cent(_share_back(seconds, at))} by {duration(at)}" for at, _ in marks]
    never = int(np.isinf(seconds).sum())
    last = seconds[np.isfinite(seconds)]
    parts += [f"the last after {plain_time(float(last[-1]))}"] if len(last) else []
    finding = f"Share of the {len(seconds):,} tasks that are back after a given time: {', '.join(parts)}{f'; {never:,} never' if never else ''}."
    return figure(
        "When the work would have come back", f"Share of all {len(seconds):,} tasks back by then, logarithmic; a longer deadline costs time in every round that needs it",
        lambda sheet: _curve(seconds, marks, sheet, f.colour), finding,
    )  # fmt: skip


def _share_back(seconds: Floats, by: float) -> float:
    return float(np.searchsorted(seconds, by + 1e-9, side="right")) / max(len(seconds), 1)


def _curve(seconds: Floats, marks: list[tuple[float, str]], sheet: Sheet, colour: int) -> Drawing:
    known = seconds[np.isfinite(seconds) & (seconds > 0)]
    low = float(min(known[0] if len(known) else 1.0, marks[0][0] / 2))
    high = float(max(known[-1] if len(known) else 2.0, marks[-1][0] * 1.5))
    up: Ticks = share_ticks(1.0)
    left, base = left_axis_width(up), 236.0
    x, y = Scale(low, high, left, sheet.width - 12, log=True), Scale(0.0, 1.0, base, 16.0)
    feet = log_time_ticks(low, high, 4 if sheet.slim else 8)
    late = left_axis(y, up, left, x.end) + foot_axis(x, feet, base, "time after being asked")
    indices = np.unique(np.linspace(0, len(known) - 1, min(len(known), 300)).astype(np.int64)).tolist()
    run = "".join(f"H{x(float(known[i])):.1f}V{y((i + 1) / len(seconds)):.1f}" for i in indices)
    late.append(f'<path d="M{x(low):.1f} {y(0):.1f}{run}" class="line s{colour}"/>')
    late += [line(x(at), y(_share_back(seconds, at)), x(at), base, "ref") for at, _ in marks]
    for i, (at, name) in enumerate(marks):
        share = _share_back(seconds, at)
        label = f"{name + ' ' if name else ''}{duration(at)}: {per_cent(share)}"
        label += "" if sheet.slim else " of the work is back"
        place = x(at)
        late.append(dot(place, y(share), 4, f"a{colour}"))
        fits = place + 12 + width_of(label, strong=True) <= sheet.width
        # Right of the mark and below the line that rises; above it at the foot, left of it where another stands or room is short.
        to_the_right = fits and not (i and abs(y(share) - y(_share_back(seconds, marks[0][0]))) < 2 * ROW)
        drop = -8.0 if y(share) > base - 26 or not to_the_right else 18.0
        side, anchor = (9, "start") if to_the_right else (-9, "end")
        late.append(text(place + side, y(share) + drop, label, "strong halo", anchor))
    return Drawing(sheet.width, base + 42, late)
