"""The page of a search: the best values and how far to trust them, how it went, what mattered, which values went together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedfleet.app.pages.charts.axes import Ticks, above, numbers, shares, ticks
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.dots import Along, Point, dots
from fedfleet.app.pages.charts.marks import Drawing, Sheet, both, figure
from fedfleet.app.pages.charts.parallel import Rail, Thread, parallel
from fedfleet.app.pages.html import keep_page, page, tight, topline
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.pages.sides.comparison_words import count
from fedfleet.app.pages.sides.run_looks import REPORT, link_to
from fedfleet.app.pages.sides.run_rows import Head, html_table
from fedfleet.app.pages.time_units import even
from fedfleet.app.runs import finished
from fedfleet.app.studies.tune.aims import Aim
from fedfleet.app.studies.tune.search_result import Row, Tuned, read_tuned, short
from fedfleet.app.studies.tune.trial import TRIALS
from fedfleet.store.seals import SEAL

_BEST_SHARE = 0.2  # of the finished trials, drawn in colour


def write_tuning(found: Tuned) -> Path:
    """Write report.html into the folder of a search, and the reports of its best trial and of the spec as it stands."""
    path = found.out / REPORT
    shown = [row for row in found.rows if row.default or row is found.winner]
    for folder in (folder for row in shown for folder in _folders(found, row)):
        if (folder / SEAL).is_file() and not (folder / REPORT).is_file():
            write_report(finished(folder))
    keep_page(path, tuning_page(found))
    return path


def report_tuning(folder: Path) -> Path:
    """The same from the folder alone."""
    return write_tuning(read_tuned(folder))


def tuning_page(found: Tuned) -> str:
    """The page of a search, from its answer."""
    head, lead = conclusion(found)
    body = [
        f"<h1>{escape(tight(head))}</h1>",
        f'<p class="lead">{escape(tight(lead))}</p>',
        *(f"<p>{escape(tight(note[0].upper() + note[1:]))}.</p>" for note in found.notes),
        *([_history(found)] if _judged(found) else []),
        *([_importance(found)] if found.importance else []),
        *([_slice(found)] if _numeric(found) and _judged(found) else []),
        *([_together(found)] if len(found.space) > 1 and _judged(found) else []),
        f"<h2>{count(len(found.rows), 'trial').capitalize()}</h2>",
        _table(found),
    ]
    top = topline(f"search {found.name}: {count(len(found.space), 'key')}, {count(len(found.rows), 'trial')}")
    return page(f"FedFleet search: {found.name}", body, top=top, description=head)


def conclusion(found: Tuned) -> tuple[str, str]:
    """The finding and what it cost, in words."""
    aim, trials = found.aim, len(found.rows)
    cost = (
        f"{trials} trials took {found.rounds:,} rounds; {found.count('pruned')} were stopped early, which saved "
        f"{100 * found.rounds_saved:.0f} % of the rounds; {found.count('failed') or 'none'} failed."
    )
    if found.winner is None:
        return f"None of {trials} trials ended", cost
    best = found.winner
    values = ", ".join(f"{key} = {short(value)}" for key, value in best.values.items())
    said = aim.said(math.inf if best.value is None else best.value)
    if best.default:
        return f"No trial beat the spec as it stands: {said}", f"{cost} The spec has {values}."
    gain = "" if best.value is None or found.default_value is None else aim.gain(best.value, found.default_value)
    apart = f", {gain} the spec as it stands" if gain else ""
    own = "" if found.default_value is None else f" The spec as it stands gives {aim.said(found.default_value)}."
    return f"{values}: {said}{apart}", f"By {aim.words}, trial {best.trial} is the best.{own} {cost}"


# ---- figures --------------------------------------------------------------------------------------------------------


def _judged(found: Tuned) -> list[Row]:
    """Trials that have something to show: a value, or what was seen of them before they were stopped."""
    return [row for row in found.rows if _height(row) is not None]


def _height(row: Row) -> float | None:
    return row.value if row.state == "finished" else row.early


def _upwards(found: Tuned) -> Along:
    """The axis of the aim."""
    aim, rows = found.aim, _judged(found)
    highest = max(_height(row) or 0.0 for row in rows)
    first = aim.metric.partition(".")[0]
    if "accuracy" in first:
        top = min(above(highest), 1.0)
        return Along(0.0, top, shares(top), aim.words)
    if first == "time_to" or first.endswith("seconds"):
        return Along(
            0.0, highest or 1.0, [(said if at else "0", at) for said, at in even(0.0, highest or 1.0, 4)], aim.words
        )
    top = above(highest)
    return Along(0.0, top, numbers(top, whole=False), aim.words)


def _paint(found: Tuned, row: Row) -> tuple[str, float]:
    if row == found.winner:
        return "a1", 6.0
    if row.default:
        return "ai", 5.0
    return ("a1 pale", 4.0) if row.state == "finished" else ("ring s6", 3.6)


_PAINTS = "Full: trials that ended, the best one large; in the colour of the text: the spec as it stands; hollow: stopped early, at what was seen last."


def _history(found: Tuned) -> str:
    rows, y = _judged(found), _upwards(found)
    last = max(row.trial for row in found.rows)
    x = Along(-0.5, last + 0.5, [(said, at) for said, at in numbers(max(last, 1), 6)], "trial")
    points = [_point(found, row, float(row.trial)) for row in rows]
    best = found.winner
    said = f"the best: trial {best.trial}" if best else ""
    wide, slim = both(
        lambda sheet: dots(points, sheet, x, y, height=210, mark=(float(best.trial), said) if best else None)
    )
    finding = f"{len(rows)} trials in their order; {said or 'none ended'}."
    return figure("Every trial, in its order", _PAINTS, wide, slim, finding)


def _point(found: Tuned, row: Row, x: float) -> Point:
    kind, radius = _paint(found, row)
    return Point(x, _height(row) or 0.0, radius, kind, _title(found.aim, row))


def _title(aim: Aim, row: Row) -> str:
    values = ", ".join(f"{key} = {short(value)}" for key, value in row.values.items())
    return f"trial {row.trial} ({row.state}): {aim.said(_height(row))}; {values}"


def _importance(found: Tuned) -> str:
    rows = [Bar(key, [Part(value, "a1")], f"{100 * value:.0f} %") for key, value in found.importance.items()]
    wide, slim = both(lambda sheet: bars(rows, sheet, beside=True, most=1.0))
    most = next(iter(found.importance))
    how = "The share of the differences between trials that each key explains (fANOVA); trials that were stopped early are not in it."
    return figure(
        "Which key matters", how, wide, slim, f"{most} matters most, with {100 * found.importance[most]:.0f} %."
    )


def _numeric(found: Tuned) -> str | None:
    """The key between limits that matters most."""
    keys = [key for key in (*found.importance, *found.space) if isinstance(found.space[key], Mapping)]
    return keys[0] if keys else None


def _slice(found: Tuned) -> str:
    key, y = _numeric(found) or "", _upwards(found)
    rows = [row for row in _judged(found) if _is_number(row.values[key])]
    rail = _rail(key, found.space[key], [row.values[key] for row in rows])
    x = Along(rail.low, rail.high, rail.ticks, key + (", logarithmic" if rail.log else ""), rail.log)
    points = [_point(found, row, float(row.values[key])) for row in rows]
    wide, slim = both(lambda sheet: dots(points, sheet, x, y, height=210))
    best = None if found.winner is None else found.winner.values[key]
    return figure(
        f"{found.aim.words.capitalize()} by {key}", _PAINTS, wide, slim, f"The best trial has {key} = {short(best)}."
    )


def _together(found: Tuned) -> str:
    """A line for each trial through all keys and down to what it reached."""
    rows = sorted(_judged(found), key=lambda row: _rank(found, row))
    rails = [_rail(key, space, [row.values[key] for row in rows]) for key, space in found.space.items()]
    aim = _upwards(found)
    rails.append(Rail(aim.label, aim.low, aim.high, aim.ticks))
    ended = [row for row in rows if row.state == "finished"]
    bright = {row.trial for row in ended[-max(1, round(_BEST_SHARE * len(ended))) :]} if ended else set[int]()
    threads = [Thread([*(_place(found.space[k], row.values[k]) for k in found.space), _height(row)], _stroke(found, row, bright), escape(_title(found.aim, row))) for row in rows]  # fmt: skip

    def draw(sheet: Sheet) -> Drawing:
        return parallel(rails, threads, sheet)

    wide, slim = both(draw)
    how = "Each line is a trial, from its values down to what it reached; in colour the best fifth, the best one thick; grey: the others."
    best = "" if found.winner is None else f"The best trial is number {found.winner.trial}."
    return figure("Which values go together", how, wide, slim, best)


def _rank(found: Tuned, row: Row) -> tuple[bool, float]:
    height = _height(row) or 0.0
    return row.state == "finished", -height if found.minimise else height


def _stroke(found: Tuned, row: Row, bright: set[int]) -> str:
    if row == found.winner:
        return "line s1"
    return "line thin s1 pale" if row.trial in bright else "line thin s6 pale"


def _rail(key: str, space: Any, seen: Sequence[Any]) -> Rail:
    """The axis of a key; values that lie outside of the space, as the spec's own may, widen it."""
    if not isinstance(space, Mapping):
        words = [(short(value), float(i)) for i, value in enumerate(space)]
        return Rail(key, -0.5, len(space) - 0.5, words)
    known = [float(value) for value in seen if _is_number(value) and (value > 0 or not space["log"])]
    low, high = min([space["low"], *known]), max([space["high"], *known])
    return Rail(key, low, high, _decades(low, high) if space["log"] else _evenly(low, high), space["log"])


def _place(space: Any, value: Any) -> float | None:
    if isinstance(space, Mapping):
        return float(value) if _is_number(value) else None
    return float(space.index(value)) if value in space else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decades(low: float, high: float) -> Ticks:
    """The powers of ten between two limits, and the limits themselves where there are fewer than two."""
    powers = [10.0**k for k in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    return [(f"{p:g}", p) for p in (powers if len(powers) > 1 else [low, high])]


def _evenly(low: float, high: float) -> Ticks:
    return [(f"{t:g}", t) for t in ticks(low, high, 4)]


# ---- the table ------------------------------------------------------------------------------------------------------


def _folders(found: Tuned, row: Row) -> list[Path]:
    folder = found.out / TRIALS / str(row.trial if row.same_as is None else row.same_as)
    return [folder] if len(found.seeds) == 1 else [folder / f"seed-{seed}" for seed in found.seeds]


def _table(found: Tuned) -> str:
    """Every trial, the best first; those that were stopped or failed come last, with the reason."""
    order = sorted(found.rows, key=lambda row: (_rank(found, row), -row.trial), reverse=True)
    heads = [
        Head("trial"),
        *(Head(key) for key in found.space),
        Head(found.aim.words),
        Head("rounds"),
        Head("what became of it", kind="words"),
    ]
    return html_table(heads, [_cells(found, row) for row in order])


def _cells(found: Tuned, row: Row) -> list[str]:
    links = [to for folder in _folders(found, row) if (to := link_to(folder, found.out / REPORT))]
    name = f"{row.trial}{' (the spec as it stands)' if row.default else ''}"
    opened = f'<a href="{escape(links[0], quote=True)}">{name}</a>' if links else name
    ended = row.reason or (row.state if row.same_as is None else f"the same spec as trial {row.same_as}")
    value = found.aim.said(row.value if row.value is not None or row.state != "finished" else math.inf)
    values = [escape("-" if row.values[key] is None else short(row.values[key])) for key in found.space]
    return [opened, *values, escape(value), f"{row.rounds:,}", escape(ended)]
