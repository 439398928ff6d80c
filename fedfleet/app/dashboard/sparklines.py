"""Small pictures of the dashboard: sparklines, the columns of rounds, the bars of one round. Words stand beside them, not inside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedfleet.app.dashboard.run_view import BACK, LATE, LOST, REFUSED, USED, WASTED, WORKING
from fedfleet.app.dashboard.status_text import TaskRow, score_text
from fedfleet.app.pages.report.number_words import as_people
from fedfleet.measure.run_progress import FAILED, Evaluation, Round
from fedfleet.measure.score_info import score_of_measures

HATCH = (
    '<svg aria-hidden="true" class="none"><defs><pattern id="hx" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><path d="M0 0V5" class="hxp"/></pattern></defs></svg>'
)
_WIDE, _HIGH = 100, 25  # of a sparkline
_POINTS = 60
ROUNDS = 100  # the last ones, which the picture shows
_CLASSES = {BACK: "f4", USED: "f4", WORKING: "f5", LATE: "hx", LOST: "gone", REFUSED: "gone", WASTED: "f6"}


def sparkline(scores: Sequence[Evaluation], planned: int | None, *, live: bool) -> str:
    """The score by model as steps, always from 0 to 100 % (R2: to 1), and over all models that are planned while a run goes on."""
    if not scores:
        return f'<svg viewBox="0 0 {_WIDE} {_HIGH}" class="sp" aria-hidden="true"></svg>'
    shown = [scores[i * len(scores) // _POINTS] for i in range(_POINTS)] + [scores[-1]] if len(scores) > _POINTS else scores
    last = max(s.version for s in shown) or 1
    most = max(last, planned or 0) if live and planned and planned < 10_000 else last
    at = [(1 + 95 * s.version / most, 23 - 21 * min(max(s.accuracy, 0.0), 1.0)) for s in shown]
    steps = "".join(f"H{x:.1f}V{y:.1f}" for x, y in at[1:])
    x, y = at[-1]
    return (
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" class="sp" aria-hidden="true"><path d="M1 23.5H96" class="g"/>'
        f'<path d="M{at[0][0]:.1f} {at[0][1]:.1f}{steps}" class="ln k1"/><circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" class="f1"/></svg>'
    )


def rounds_picture(rounds: Sequence[Round]) -> str:
    """Reports that were used in each of the last rounds, and above them, hatched, those that came too late or never."""
    shown = rounds[-ROUNDS:]
    if not shown:
        return '<p class="small">No round has begun yet.</p>'
    most = max(max(r.asked, r.used) for r in shown) or 1
    columns: list[str] = []
    for i, r in enumerate(shown):
        x, full, part = 8 * i + 1, 60 * r.used / most, 60 * max(0, r.asked - r.used) / most
        kind, failed = "hx" if r.outcome else "fw", r.outcome == FAILED
        label = f"round {r.number + 1}: {r.used} used, {r.asked} asked{f'; failed: {as_people(r.reason)}' if failed else ''}"
        mark = f'<rect x="{x}" y="62" width="6" height="4" class="f3"/>' if failed else ""
        columns.append(
            f'<g><title>{escape(label)}</title><rect x="{x}" y="{60 - full:.1f}" width="6" height="{full:.1f}" class="f1"/>'
            f'<rect x="{x}" y="{60 - full - part:.1f}" width="6" height="{part:.1f}" class="{kind}"/>{mark}</g>'
        )
    bad, wide = sum(r.outcome == FAILED for r in shown), 8 * max(len(shown), 20)
    first, last = shown[0].number + 1, shown[-1].number + 1
    words = f"Reports used in rounds {first} to {last}, of up to {most} asked{f'; {bad} failed' if bad else ''}"
    end = "" if len(shown) < 2 else f"<span>{'' if len(shown) >= 20 else 'the last: '}round {last:,}</span>"
    return (
        f'<div class="col"><span class="ytick">{most:,}</span><svg viewBox="0 0 {wide} 67" preserveAspectRatio="none" class="rounds" '
        f'role="img" aria-label="{escape(words)}"><path d="M0 60.5H{wide}" class="ax"/>{"".join(columns)}</svg></div>'
        f'<div class="ends"><span>round {first:,}</span>{end}</div>'
    )


def round_bars(scale: float, rows: Sequence[TaskRow], more: int) -> str:
    """One row for each client that was asked: number, time, and what came of it."""
    lines = "".join(
        f'<li><span class="n">{r.client}</span><svg viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="100" height="12" class="fw"/><rect width="{max(1.0, 100 * min(1.0, r.seconds / scale)):.1f}" height="12" class="{_CLASSES[r.fate]}"/></svg>'
        f'<span class="{"bad" if r.fate == LOST else ""}">{escape(r.words)}</span></li>'
        for r in rows
    )
    rest = f'<li class="small">and {more:,} more</li>' if more else ""
    return f'<ul class="bars">{lines}{rest}</ul>'


def curve_description(scores: Sequence[Evaluation], name: str, other: str) -> str:
    """What the chart of accuracy shows, for those who do not see it."""
    if not scores:
        return f"Accuracy of {name}: no model has been evaluated yet."
    score = score_of_measures(scores[-1].measures)
    now = score_text(score, scores[-1].accuracy)
    return f"{score.title} of {name} against time: {now} now{f'; compared with {other}' if other else ''}."
