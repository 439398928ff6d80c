"""The anatomy of three rounds: a bar for each task, split by what its time went into."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, foot_axis
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import WIDE, Drawing, Sheet, box, figure, line, paint_legend, side_by_side, stack_below, text
from fedfleet.app.pages.html import table
from fedfleet.app.pages.report.number_words import as_people, count_noun
from fedfleet.app.pages.report.report_facts import Facts, rounds_of
from fedfleet.app.pages.time_units import linear_time_ticks, plain_time
from fedfleet.core.stages import STAGES
from fedfleet.measure.round_timeline import RoundTimeline, TaskSpan, describe_round, notable_rounds
from fedfleet.measure.run_progress import FAILED, Round

MOST = 14  # tasks of a round that are drawn
_ROW, _TOP = 15.0, 24.0
_ALIKE = 4.0  # rounds whose lengths differ by more are drawn on scales of their own
# What a stage is called, and its paint: moving the model is teal, training violet, inside a user ochre; grey: nothing happens.
PAINTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("latency", "download"), ("loading and sending the model", "a4")),
    **dict.fromkeys(("planning", "exchange", "averaging"), ("inside the user: planning, exchanging samples, averaging", "a2")),
    "compute": ("training", "a5"),
    "upload": ("loading and sending the model", "a4"),
    "delivery": ("the report is under way", "a1"),
    "away": ("out of reach", "a6"),
    "unknown": ("training or transfer, not recorded", "a6 pale"),
    "after": ("would still have been needed", "aw"),
}
_WORDS = {
    "folded": "used", "rejected": "refused", "wasted": "in time, not used", "lost": "lost", "dropped": "too late",
    "running": "still training",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShownRound:
    """A round that is drawn, and what it is called: best, usual or worst."""

    word: str
    round: RoundTimeline

    @property
    def heading(self) -> str:
        """Which round it is, and how many of those asked were used."""
        asked = sum(n for _, n in self.round.asked)
        used = self.round.fates.get("folded", 0)
        failed = self.round.version is None
        what = {"best": "the best", "usual": "a usual one", "worst": "one that failed" if failed else "the longest"}[self.word]
        return f"Round {self.round.number + 1:,}, {what}: {used:,} of {max(asked, used):,} used"


def shown_rounds(f: Facts) -> list[ShownRound]:
    """The best (most of those asked were used, then the shortest), the usual (of median length, then of median use) and the worst,
    as far as they differ."""
    chosen, rounds = notable_rounds(f.record), rounds_of(f.record.progress)
    successful = np.flatnonzero(~rounds.failed & (rounds.asked > 0))
    if len(successful) > 2:
        length = np.diff(np.array(rounds.closed), prepend=0.0)[successful].round(6)
        share = rounds.used[successful] / np.maximum(rounds.asked[successful], 1)
        usual = int(rounds.number[successful[np.lexsort((successful, share, length))[(len(successful) - 1) // 2]]])
        best = int(rounds.number[successful[np.lexsort((successful, length, -share))[0]]])
        worst = {word: number for word, number in chosen.items() if word == "worst" and number not in (usual, best)}
        chosen = {"usual": usual, **worst} if usual == best else {"best": best, "usual": usual, **worst}
    return [ShownRound(word, describe_round(f.record, f.tasks, number, most=MOST)) for word, number in chosen.items()]


def rounds_section(f: Facts) -> list[str]:
    """The section; nothing if no round has ended yet."""
    shown = shown_rounds(f)
    if not shown:
        return []
    rounds = [s.round for s in shown]
    words, lengths = {1: "one round", 2: "two rounds"}.get(len(shown), "three rounds"), [r.seconds for r in rounds]
    alike = max(lengths) <= _ALIKE * max(min(lengths), 1e-9)
    notes = " Before them a round pauses." if any(_blank(r) > 0.05 for r in rounds) else ""
    notes += "" if alike or len(shown) == 1 else " Each round has its own scale."
    tasks = max(sum(r.fates.values()) for r in rounds)
    notes += f" Of {tasks:,} tasks at most {MOST} are drawn, spread evenly." if tasks > max(len(r.spans) for r in rounds) else ""
    # Somewhat more time than the round where late tasks would have gone on.
    late = f.hindsight is not None and f.hindsight.needs is not None and any("dropped" in r.fates for r in rounds)
    limits = [max((max(lengths) if alike else length) * (2.2 if late else 1.0), 1e-9) for length in lengths]

    def chart(sheet: Sheet) -> Drawing:
        """The rounds side by side, or one below the other on phones."""
        each = sheet if sheet.slim else Sheet(int((WIDE.width - 24 * (len(shown) - 1)) / len(shown)))
        drawings = [_drawing(s, f, each, limit) for s, limit in zip(shown, limits, strict=True)]
        return stack_below(*drawings, gap=14) if sheet.slim else side_by_side(*drawings)

    title = f"Each bar is one {f.person}'s task, from the request to the report"
    finding = " ".join(f"{round_sentence(s)}." for s in shown)
    how = f"Numbers at the left are {f.people}; hatched: not used; the dotted line is the end of the round.{notes}"
    legend = paint_legend(_legend(rounds, late=late))
    return [f"<h2>Anatomy of {words}</h2>", figure(title, how, chart, f"Task by task: {finding}", legend=legend)]


def _blank(r: RoundTimeline) -> float:
    """The share of a round that is blank before all bars."""
    return min((s.sent - r.opened for s in r.spans), default=0.0) / max(r.seconds, 1e-9)


def round_sentence(shown: ShownRound) -> str:
    """What happened in a round, in one line."""
    r = shown.round
    waves = len(r.asked)
    waves_note = "" if waves < 2 else " as others ended" if r.refills else f" in {waves} broadcasts"
    ends = f"it failed, because {as_people(r.reason)}," if r.version is None else f"model {r.version:,} was made"
    fates = ", ".join(f"{n:,} {_WORDS[fate]}" for fate, n in r.fates.items())
    return f"{shown.heading}{waves_note}; {fates or 'no report'}; {ends} after {plain_time(r.seconds)}"


def _drawing(shown: ShownRound, f: Facts, sheet: Sheet, limit: float) -> Drawing:
    r = shown.round
    names = [f"{s.client}" for s in r.spans]
    left = max([7.0 * len(n) for n in names] + [14.0]) + 8
    x = Scale(0.0, limit, left, sheet.width - 6.0)
    base = _TOP + _ROW * len(r.spans) + 4
    ticks = linear_time_ticks(0.0, limit, 4)
    result = [text(0, 13, shown.heading, "strong"), *foot_axis(x, ticks, base)]
    for i, strand in enumerate(r.spans):
        result += _row(strand, r, x, _TOP + _ROW * i, f, sheet)
    end = x(r.seconds)
    result.append(line(end, _TOP - 4, end, base, "ref"))
    return Drawing(sheet.width, base + 26, result)


def _row(strand: TaskSpan, r: RoundTimeline, x: Scale, y: float, f: Facts, sheet: Sheet) -> list[str]:
    end = r.closed if math.isnan(strand.ended) else strand.ended
    result = [text(x.start - 7, y + 10, f"{strand.client}", anchor="end")]
    at = strand.sent - r.opened
    start = max(at, 0.0)
    pieces, title = _pieces(strand, end - strand.sent), ""
    if not sheet.slim:
        stages = ", ".join(f"{kind} {plain_time(s)}" for kind, s in pieces)
        title = f"{f.person} {strand.client}: {strand.why} after {plain_time(end - strand.sent)} ({stages})"
    for kind, seconds in pieces:
        a, b = x(min(max(at, 0.0), x.high)), x(min(at + seconds, x.high))
        at += seconds
        if b > a:
            result.append(box(a, y, b - a, 10, PAINTS[kind][1]))
    last = min(max(end - r.opened, 0.0), x.high)
    if strand.fate != "folded" and last > start:
        result.append(box(x(start), y, x(last) - x(start), 10, "over"))
    result += _remaining_work(strand, r, x, y, f, last)
    body = "".join(result)
    return [f"<g><title>{escape(title)}</title>{body}</g>" if title else body]


def _remaining_work(strand: TaskSpan, r: RoundTimeline, x: Scale, y: float, f: Facts, last: float) -> list[str]:
    """What a task that was given up would still have needed."""
    needs = None if f.hindsight is None else f.hindsight.needs
    if needs is None or strand.fate != "dropped" or math.isnan(needs.seconds[strand.task]):
        return []
    full_time = float(needs.seconds[strand.task]) + strand.sent - r.opened
    inside = min(full_time, x.high)
    result = [box(x(last), y, x(inside) - x(last), 10, "aw")]
    if full_time > x.high:
        label = f"{plain_time(full_time)} →" if math.isfinite(full_time) else "never →"
        wide = width_of(label) + 6
        if x.end - x(last) < wide:  # words stand on the pale of what was still needed, not on the bar
            result.append(box(x.end - wide, y, wide, 10, "aw"))
        result.append(text(x.end, y + 9.5, label, "ink", "end"))
    return result


def _pieces(strand: TaskSpan, elapsed: float) -> list[tuple[str, float]]:
    """The parts of a bar, in order: the stages as far as they were carried out, and the rest."""
    if strand.spent is None:
        return [("unknown", elapsed)]
    known = [(name, strand.spent[name]) for name in STAGES if name in strand.spent]
    rest = elapsed - sum(seconds for _, seconds in known)
    return [*known, ("away", rest)] if rest > 1e-6 * max(elapsed, 1.0) else known


def _legend(rounds: list[RoundTimeline], *, late: bool) -> list[tuple[str, str]]:
    """Only what is to be seen."""
    spans = [(s, (r.closed if math.isnan(s.ended) else s.ended) - s.sent) for r in rounds for s in r.spans]
    kinds = {kind for strand, seconds in spans for kind, _ in _pieces(strand, seconds)} | ({"after"} if late else set())
    unused = any(strand.fate != "folded" for strand, _ in spans)
    return [*dict.fromkeys(PAINTS[kind] for kind in PAINTS if kind in kinds), *([("not used", "late-area")] if unused else [])]


def failed_section(f: Facts) -> list[str]:
    """Failed rounds by reason: how many, which, and when the first was."""
    reasons: dict[str, list[Round]] = {}
    for one in f.record.progress.rounds:
        if one.outcome == FAILED:
            reasons.setdefault(one.reason, []).append(one)
    if not reasons:
        return []
    total, rows = int(f.metrics["rounds"]), list[list[str]]()
    for reason, some in sorted(reasons.items(), key=lambda item: -len(item[1])):
        which, first = _number_list([one.number + 1 for one in some]), f"{plain_time(some[0].closed)} after the start"
        rows.append([as_people(reason, f.people, f.person), f"{len(some):,} of {total:,}", which, first])
    summary = f"{count_noun(sum(len(s) for s in reasons.values()), 'round')} ended without a new model; the old one stayed."
    return ["<h2>Failed rounds</h2>", f"<p>{summary}</p>", table(["reason", "rounds", "which", "the first"], rows)]


def _number_list(numbers: list[int]) -> str:
    """Round numbers, as many as can be read.

    >>> _number_list([1, 2, 3, 9]), _number_list(list(range(0, 40, 2)))
    ('1, 2, 3, 9', '0, 2, 4, 6, 8, .. 38')
    """
    return ", ".join(map(str, numbers)) if len(numbers) <= 6 else f"{', '.join(map(str, numbers[:5]))}, .. {numbers[-1]}"
