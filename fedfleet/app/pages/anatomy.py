"""The anatomy of a round as a picture: a bar for each task, split by what its time went into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from fedfleet.app.pages.html import figure
from fedfleet.app.pages.svg import Axis
from fedfleet.app.pages.times import even, plain
from fedfleet.core.events import Event
from fedfleet.core.spending import STAGES
from fedfleet.measure.anatomy import Anatomy, Strand, anatomy, telling_rounds
from fedfleet.measure.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Paint:
    """How a part of a bar looks, and its word."""

    word: str
    colour: str
    opacity: float = 1.0


# Moving the model is teal and blue, training violet; what belongs to either is paler; grey: nothing happens.
PAINTS: dict[str, Paint] = {
    "latency": Paint("connecting", "var(--c4)", 0.5),
    "download": Paint("download", "var(--c4)"),
    "planning": Paint("inside the user: planning, exchanging samples, averaging", "var(--c2)"),
    "exchange": Paint("inside the user: planning, exchanging samples, averaging", "var(--c2)"),
    "averaging": Paint("inside the user: planning, exchanging samples, averaging", "var(--c2)"),
    "compute": Paint("training", "var(--c5)"),
    "upload": Paint("upload", "var(--c1)"),
    "delivery": Paint("the report is under way", "var(--c1)", 0.5),
    "away": Paint("out of reach", "var(--c6)", 0.55),
    "unknown": Paint("at work, nobody says with what", "var(--c6)"),
}
_SHORT = {
    "folded": "used", "rejected": "refused", "wasted": "wasted", "lost": "lost", "dropped": "late", "running": "runs",
}  # fmt: skip
_ROW, _TOP, _BOTTOM = 17, 26, 34
_LETTER = 6.3  # width of a letter of a mark, about


@dataclass(frozen=True, slots=True)
class Sheet:
    """The measures of a drawing: for wide screens, and for phones."""

    name: str
    width: int
    left: int
    right: int
    titles: bool


SHEETS = (Sheet("wide", 720, 84, 190, True), Sheet("slim", 350, 44, 52, False))


def anatomy_figures(log: Sequence[Event], tasks: Tasks) -> list[str]:
    """The usual round and the worst one, each under its finding; nothing if no round has ended yet."""
    found: list[str] = []
    for word, number in telling_rounds(log).items():
        round_ = anatomy(log, tasks, number)
        found.append(f"<h3>{escape(finding(round_, word))}</h3>")
        found.append(figure(round_picture(round_), _caption(round_)))
    return found


def finding(round_: Anatomy, word: str) -> str:
    """What happened in a round, in one line."""
    asked = sum(n for _, n in round_.asked)
    waves = len(round_.asked)
    again = "" if waves < 2 else " as others ended" if round_.refills else f" in {waves} broadcasts"
    ends = "it failed" if round_.version is None else f"model {round_.version} was made"
    fates = ", ".join(f"{n} {_WORDS[fate]}" for fate, n in round_.fates.items())
    heading = {"usual": "A usual round", "worst": "The worst round"}[word]
    return f"{heading} ({round_.number}): {asked} asked{again}; {fates or 'nobody reported'}; {ends} after {plain(round_.seconds)}"


_WORDS = {
    "folded": "used", "rejected": "refused", "wasted": "in time for nothing", "lost": "lost", "dropped": "too late",
    "running": "still at work",
}  # fmt: skip


def _caption(round_: Anatomy) -> str:
    total = sum(round_.fates.values())
    thinned = (
        f" {len(round_.strands)} of {total:,} tasks are drawn, spread evenly from the first to the last."
        if total > len(round_.strands)
        else ""
    )
    reason = f" It failed: {round_.reason}." if round_.reason else ""
    return (
        "A bar is one task, by the time since the round before ended; what is hatched entered no model. How long a device was out of "
        f"reach stands at the end of its bar, whenever that was.{reason}{thinned}"
    )  # fmt: skip


def round_picture(round_: Anatomy) -> str:
    """The picture in both drawings, with its legend."""
    drawn = [f'<div class="{sheet.name}">{_drawing(round_, sheet)}</div>' for sheet in SHEETS]
    return "".join(drawn) + _legend(round_)


def _drawing(round_: Anatomy, sheet: Sheet) -> str:
    began = [s.sent for s in round_.strands]
    # Of work that began long before the round only the end is shown: the round is what is looked at.
    low = min(round_.opened, max(min(began, default=round_.opened), round_.opened - 1.5 * round_.seconds))
    x = Axis(low, max(round_.closed, low + 1e-9), sheet.left, sheet.width - sheet.right)
    base = _TOP + _ROW * len(round_.strands)
    hatch = f"hatch-{sheet.name}-{round_.number}"
    parts = [
        f'<pattern id="{hatch}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="2.6" height="5" fill="var(--page)"/></pattern>',
        *_axis(x, base, round_.opened, 6 if sheet.titles else 4),
        *_marks(round_, x, base),
    ]
    for i, strand in enumerate(round_.strands):
        parts.append(_row(strand, round_, x, _TOP + _ROW * i, hatch, sheet))
    label = escape(finding(round_, "usual").partition(": ")[2], quote=True)
    return (
        f'<svg viewBox="0 0 {sheet.width} {base + _BOTTOM}" role="img" aria-label="{label}">'
        + "".join(parts)
        + "</svg>"
    )


def _axis(x: Axis, base: float, zero: float, most: int) -> list[str]:
    parts = [f'<line x1="{x.start}" x2="{x.end}" y1="{base}" y2="{base}" class="axis"/>']
    for said, at in even(x.low - zero, x.high - zero, most):
        place = x(zero + at)
        parts.append(f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{base}" class="grid"/>')
        parts.append(f'<text x="{place:.1f}" y="{base + 16}" class="tick" text-anchor="middle">{said}</text>')
    return parts


def _marks(round_: Anatomy, x: Axis, base: float) -> list[str]:
    """The end of the round and its broadcasts; a word that would run into another is left out, its line stays."""
    end = "failed" if round_.version is None else f"model {round_.version}"
    taken = [(x(round_.closed) - _LETTER * len(end) - 8, math.inf)]
    parts = [_mark(x(round_.closed), base, end, "end", "mark")]
    for i, (time, count) in enumerate(round_.asked):
        said = f"{count:,} asked" if i == 0 else "" if round_.refills else f"{count:,} more"
        at = x(time)
        reach = (at, at + _LETTER * len(said) + 8)
        free = all(reach[1] <= a or b <= reach[0] for a, b in taken)
        kind = "mark again" if i and not round_.refills else "mark first"
        parts.append(_mark(at, base, said if free else "", "start", kind))
        taken += [reach] if free else []
    return parts


def _mark(at: float, base: float, said: str, anchor: str, kind: str) -> str:
    line = f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 6}" y2="{base}" class="{kind}"/>'
    return line + (f'<text x="{at:.1f}" y="13" class="say" text-anchor="{anchor}">{said}</text>' if said else "")


def _row(strand: Strand, round_: Anatomy, x: Axis, top: float, hatch: str, sheet: Sheet) -> str:
    end = round_.closed if math.isnan(strand.ended) else strand.ended
    name = f"client {strand.client}" if sheet.titles else f"{strand.client}"
    parts = [f'<text x="{sheet.left - 7}" y="{top + 12}" class="tick" text-anchor="end">{name}</text>']
    at = strand.sent
    for kind, seconds in _pieces(strand, end - strand.sent):
        a, b = x(max(at, x.low)), x(min(at + seconds, x.high))
        at += seconds
        if b > a:
            paint = PAINTS[kind]
            faint = f' fill-opacity="{paint.opacity}"' if paint.opacity < 1 else ""
            parts.append(
                f'<rect x="{a:.1f}" y="{top + 3}" width="{b - a:.1f}" height="11" fill="{paint.colour}"{faint}/>'
            )
    left, right = x(max(strand.sent, x.low)), x(min(end, x.high))
    if strand.fate != "folded":
        parts.append(
            f'<rect x="{left:.1f}" y="{top + 3}" width="{max(right - left, 1):.1f}" height="11" fill="url(#{hatch})"/>'
        )
    why = strand.why if sheet.titles else _SHORT[strand.fate]
    parts.append(f'<text x="{x.end + 8}" y="{top + 12}" class="tick">{escape(_cut(why, 32))}</text>')
    title = f"<title>{escape(_told(strand, end))}</title>" if sheet.titles else ""
    return f"<g>{title}{''.join(parts)}</g>"


def _pieces(strand: Strand, elapsed: float) -> list[tuple[str, float]]:
    """The parts of a bar, in order: the stages as far as they were carried out, and the rest."""
    if strand.spent is None:
        return [("unknown", elapsed)]
    known = [(name, strand.spent[name]) for name in STAGES if name in strand.spent]
    rest = elapsed - sum(seconds for _, seconds in known)
    return [*known, ("away", rest)] if rest > 1e-6 * max(elapsed, 1.0) else known


def _told(strand: Strand, end: float) -> str:
    pieces = ", ".join(f"{PAINTS[kind].word} {plain(s)}" for kind, s in _pieces(strand, end - strand.sent))
    return f"client {strand.client}: {strand.why} after {plain(end - strand.sent)} ({pieces})"


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 2].rstrip() + " .."


def _legend(round_: Anatomy) -> str:
    """Only what is to be seen."""
    there: dict[str, Paint] = {}
    for s in round_.strands:
        end = round_.closed if math.isnan(s.ended) else s.ended
        there |= {PAINTS[kind].word: PAINTS[kind] for kind, _ in _pieces(s, end - s.sent)}
    order = {p.word: i for i, p in enumerate(PAINTS.values())}
    items = [
        f'<span><i class="block" style="background:{p.colour};opacity:{p.opacity}"></i>{p.word}</span>'
        for p in sorted(there.values(), key=lambda p: order[p.word])
    ]
    if any(s.fate != "folded" for s in round_.strands):
        items.append('<span><i class="block hatched"></i>entered no model</span>')
    return f'<div class="legend">{"".join(items)}</div>'
