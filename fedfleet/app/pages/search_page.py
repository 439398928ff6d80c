"""The page of a search: the best values, every trial in order, which keys mattered, which values went together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedfleet.app.pages.charts.axes import Ticks, axis_end, number_ticks, share_ticks, span_ticks, ticks
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.dots import Axis, Point, dots
from fedfleet.app.pages.charts.marks import figure
from fedfleet.app.pages.charts.parallel import Rail, Thread, parallel
from fedfleet.app.pages.html import bind_units, page, topline, write_page
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.pages.sides import sections
from fedfleet.app.pages.sides.comparison_words import capitalise, count_words
from fedfleet.app.pages.sides.page_runs import REPORT, link_to
from fedfleet.app.pages.sides.run_rows import Head, html_table
from fedfleet.app.pages.sides.sections import PageFacts
from fedfleet.app.pages.time_units import linear_time_ticks
from fedfleet.app.runs import read_finished_run
from fedfleet.app.studies.tune.aims import Aim
from fedfleet.app.studies.tune.search_result import Row, Tuned, how_sure, read_search_result, short_value
from fedfleet.app.studies.tune.trial import TRIALS
from fedfleet.store.seals import SEAL

_BEST_SHARE = 0.2  # of the finished trials, drawn in colour


def write_tuning(search: Tuned) -> Path:
    """Write report.html into the folder of a search, and the reports of its best trial and of the spec as it stands."""
    path = search.out / REPORT
    shown = [row for row in search.rows if row.default or row is search.winner]
    for folder in (folder for row in shown for folder in _folders(search, row)):
        if (folder / SEAL).is_file() and not (folder / REPORT).is_file():
            write_report(read_finished_run(folder))
    write_page(path, tuning_page(search))
    return path


def report_tuning(folder: Path) -> Path:
    """The same from the folder alone."""
    return write_tuning(read_search_result(folder))


def tuning_page(search: Tuned) -> str:
    """The page of a search, from its answer."""
    head, lead = conclusion(search)
    keys, trials = count_words(len(search.space), "key"), count_words(len(search.rows), "trial")
    with_value, main_key = bool(_rows_with_value(search)), _main_numeric_key(search)
    body = [
        sections.conclusion(PageFacts(finding=head, lead=lead)),
        *(f"<p>{escape(bind_units(capitalise(note)))}.</p>" for note in search.notes),
        _history(search) if with_value else "",
        _importance(search) if search.importance else "",
        _slice(search, main_key) if with_value and main_key else "",
        _parallel_figure(search) if with_value and len(search.space) > 1 else "",
        f"<h2>{trials.capitalize()}</h2>{_table(search)}",
    ]
    top = topline(f"search {search.name}: {keys}, {trials}")
    return page(f"FedFleet search: {search.name}", [text for text in body if text], top=top, description=head)


def conclusion(search: Tuned) -> tuple[str, str]:
    """The finding and what it cost, in words."""
    aim, trials = search.aim, len(search.rows)
    cost = (
        f"{trials} trials took {search.rounds:,} rounds; {search.count('pruned')} were stopped early, which saved "
        f"{100 * search.rounds_saved:.0f} % of the rounds; {search.count('failed') or 'none'} failed."
    )
    if search.winner is None:
        return f"None of {trials} trials ended", cost
    best = search.winner
    values = ", ".join(f"{key} = {short_value(value)}" for key, value in best.values.items())
    value_text = aim.format_value(math.inf if best.value is None else best.value)
    if aim.info is not None and not (aim.info.is_score and aim.score.counts_answers):
        value_text = f"{aim.info.label} {value_text}"
    if best.default:
        return f"No trial beat the spec as it stands: {value_text}", f"{cost} The spec has {values}."
    gain = "" if best.value is None or search.default_value is None else aim.gain(best.value, search.default_value)
    gain_note = f", {gain} the spec as it stands" if gain else ""
    default_note = "" if search.default_value is None else f" The spec as it stands gives {aim.format_value(search.default_value)}."
    lead = f"By {aim.description}, trial {best.trial} is the best.{default_note} {how_sure(search)} {cost}"
    return f"Use {values}: {value_text}{gain_note}", lead


def _rows_with_value(search: Tuned) -> list[Row]:
    """Trials that have something to show: a value, or what was seen of them before they were stopped."""
    return [row for row in search.rows if _row_value(row) is not None]


def _row_value(row: Row) -> float | None:
    return row.value if row.state == "finished" else row.early


def _aim_axis(search: Tuned) -> Axis:
    """The axis of the aim."""
    aim, rows = search.aim, _rows_with_value(search)
    values = [_row_value(row) or 0.0 for row in rows]
    highest = max(values)
    first = aim.metric.partition(".")[0]
    if aim.info is not None and not (aim.info.percent and aim.info.is_score):
        room = 0.08 * ((highest - min(values)) or abs(highest) or 1.0)
        low, top = min(values) - room, highest + room
        return Axis(low, top, span_ticks(low, top), aim.description)
    if "accuracy" in first:
        top = min(axis_end(highest), 1.0)
        return Axis(0.0, top, share_ticks(top), aim.description)
    if first == "time_to" or first.endswith("seconds"):
        marks = [(label if at else "0", at) for label, at in linear_time_ticks(0.0, highest or 1.0, 4)]
        return Axis(0.0, highest or 1.0, marks, aim.description)
    top = axis_end(highest)
    return Axis(0.0, top, number_ticks(top, whole_only=False), aim.description)


_LEGEND = "Full: trials that ended, the best one large; in the colour of the text: the spec as it stands; hollow: stopped early, at what was seen last."


def _history(search: Tuned) -> str:
    rows, y = _rows_with_value(search), _aim_axis(search)
    last = max(row.trial for row in search.rows)
    x = Axis(-0.5, last + 0.5, list(number_ticks(max(last, 1), 6)), "trial")
    points, best = [_point(search, row, float(row.trial)) for row in rows], search.winner
    label = f"the best: trial {best.trial}" if best else ""
    mark, finding = (float(best.trial), label) if best else None, f"{len(rows)} trials in their order; {label or 'none ended'}."
    return figure("Every trial, in its order", _LEGEND, lambda sheet: dots(points, sheet, x, y, height=210, mark=mark), finding)


def _point(search: Tuned, row: Row, x: float) -> Point:
    kind, radius = ("a1 pale", 4.0) if row.state == "finished" else ("ring s6", 3.6)
    kind, radius = ("a1", 6.0) if row == search.winner else ("ai", 5.0) if row.default else (kind, radius)
    return Point(x, _row_value(row) or 0.0, radius, kind, _title(search.aim, row))


def _title(aim: Aim, row: Row) -> str:
    values = ", ".join(f"{key} = {short_value(value)}" for key, value in row.values.items())
    return f"trial {row.trial} ({row.state}): {aim.format_value(_row_value(row))}; {values}"


def _importance(search: Tuned) -> str:
    rows = [Bar(key, [Part(value, "a1")], f"{100 * value:.0f} %") for key, value in search.importance.items()]
    most = next(iter(search.importance))
    finding = f"{most} matters most, with {100 * search.importance[most]:.0f} %."
    how = (
        "The share of the differences between trials that each key explains (fANOVA); trials that were stopped early are not in it."
    )
    return figure("Which key matters", how, lambda sheet: bars(rows, sheet, names_left=True, most=1.0), finding)


def _main_numeric_key(search: Tuned) -> str | None:
    """The key between limits that matters most."""
    keys = [key for key in (*search.importance, *search.space) if isinstance(search.space[key], Mapping)]
    return keys[0] if keys else None


def _slice(search: Tuned, key: str) -> str:
    y = _aim_axis(search)
    rows = [row for row in _rows_with_value(search) if _is_number(row.values[key])]
    rail = _rail(key, search.space[key], [row.values[key] for row in rows])
    x = Axis(rail.low, rail.high, rail.ticks, key + (", logarithmic" if rail.log else ""), rail.log)
    points = [_point(search, row, float(row.values[key])) for row in rows]
    best = None if search.winner is None else search.winner.values[key]
    title, finding = f"{_title_case(search.aim.description)} by {key}", f"The best trial has {key} = {short_value(best)}."
    return figure(title, _LEGEND, lambda sheet: dots(points, sheet, x, y, height=210), finding)


def _title_case(text: str) -> str:
    """With a capital first letter; RMSE stays what it is."""
    return text[:1].upper() + text[1:]


def _parallel_figure(search: Tuned) -> str:
    """A line for each trial through all keys and down to what it reached."""
    rows = sorted(_rows_with_value(search), key=lambda row: _rank(search, row))
    rails = [_rail(key, space, [row.values[key] for row in rows]) for key, space in search.space.items()]
    aim = _aim_axis(search)
    rails.append(Rail(aim.label, aim.low, aim.high, aim.ticks))
    ended = [row for row in rows if row.state == "finished"]
    bright = {row.trial for row in ended[-max(1, round(_BEST_SHARE * len(ended))) :]} if ended else set[int]()
    threads = list[Thread]()
    for row in rows:
        stroke = "line s1" if row == search.winner else f"line thin {'s1' if row.trial in bright else 's6'} pale"
        places = [_place(space, row.values[key]) for key, space in search.space.items()]
        threads.append(Thread([*places, _row_value(row)], stroke, escape(_title(search.aim, row))))
    how = "Each line is a trial, from its values down to what it reached; in colour the best fifth, the best one thick; grey: the others."
    best = "" if search.winner is None else f"The best trial is number {search.winner.trial}."
    return figure("Which values go together", how, lambda sheet: parallel(rails, threads, sheet), best)


def _rank(search: Tuned, row: Row) -> tuple[bool, float]:
    height = _row_value(row) or 0.0
    return row.state == "finished", -height if search.minimise else height


def _rail(key: str, space: Any, values: Sequence[Any]) -> Rail:
    """The axis of a key; values that lie outside of the space, as the spec's own may, widen it."""
    if not isinstance(space, Mapping):
        labels = [(short_value(value), float(i)) for i, value in enumerate(space)]
        return Rail(key, -0.5, len(space) - 0.5, labels)
    known = [float(value) for value in values if _is_number(value) and (value > 0 or not space["log"])]
    low, high = min([space["low"], *known]), max([space["high"], *known])
    return Rail(key, low, high, _decades(low, high) if space["log"] else [(f"{t:g}", t) for t in ticks(low, high, 4)], space["log"])


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


def _folders(search: Tuned, row: Row) -> list[Path]:
    folder = search.out / TRIALS / str(row.trial if row.same_as is None else row.same_as)
    return [folder] if len(search.seeds) == 1 else [folder / f"seed-{seed}" for seed in search.seeds]


def _table(search: Tuned) -> str:
    """Every trial, the best first; those that were stopped or failed come last, with the reason."""
    heads = [Head(key) for key in ("trial", *search.space, search.aim.description, "rounds")]
    cells = list[list[str]]()
    for row in sorted(search.rows, key=lambda row: (_rank(search, row), -row.trial), reverse=True):
        links = [to for folder in _folders(search, row) if (to := link_to(folder, search.out / REPORT))]
        name = f"{row.trial}{' (the spec as it stands)' if row.default else ''}"
        link = f'<a href="{escape(links[0], quote=True)}">{name}</a>' if links else name
        outcome = row.reason or (row.state if row.same_as is None else f"the same spec as trial {row.same_as}")
        value = search.aim.format_value(row.value if row.value is not None or row.state != "finished" else math.inf)
        values = [escape("-" if row.values[key] is None else short_value(row.values[key])) for key in search.space]
        cells.append([link, *values, escape(value), f"{row.rounds:,}", escape(outcome)])
    return html_table([*heads, Head("outcome", kind="words")], cells)
