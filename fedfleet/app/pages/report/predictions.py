"""Where a model of another kind than classification is right and wrong: numbers, several labels, tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedfleet.app.pages.charts.axes import span_ticks
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.dots import Axis, Point, dots
from fedfleet.app.pages.charts.marks import HALF, figure
from fedfleet.app.pages.html import details_block, table
from fedfleet.app.pages.report.number_words import per_cent
from fedfleet.app.pages.report.report_facts import Facts
from fedfleet.measure.measure_info import plain_number
from fedfleet.measure.score_info import MINUS

Row = Mapping[str, Any]
_MOST_BARS = 20  # labels and tokens that are drawn; more are in a table
_LONGEST = 14  # letters of a token behind a bar
_OUTSIDE = 0.25  # of the range of what is true: predictions farther outside are drawn at the edge


def predictions_section(f: Facts) -> list[str]:
    """The section by the kind of the task; nothing for the first weights, or a model that no client uses."""
    found: Any = f.metrics.get("task_results")
    if not found or not f.metrics["commits"] or f.personal:
        return []
    match f.score.kind.name:
        case "regression":
            return _regression(f, found)
        case "multilabel":
            return _labels(found)
        case "next_token":
            return _tokens(found, "token")
        case "sequence_labels":
            return _tokens(found, "label")
        case "classification":
            return []


def _regression(f: Facts, found: Row) -> list[str]:
    """Predicted against true numbers with the line on which both are equal, the error by what is true, and several outputs."""
    pairs: Sequence[Sequence[float]] = found["pairs"]
    if len(pairs) < 2:
        return []
    low, high = min(p[0] for p in pairs), max(p[0] for p in pairs)
    room = _OUTSIDE * ((high - low) or 1.0)
    low, high = low - room, high + room
    marks = span_ticks(low, high, 4)
    x, y = Axis(low, high, marks, "true"), Axis(low, high, marks, "predicted")
    points = [
        Point(min(max(true, low), high), min(max(guess, low), high), 2.6, f"a{f.colour} see",
              f"true {plain_number(true)}, predicted {plain_number(guess)}")
        for true, guess in pairs
    ]  # fmt: skip
    at_edge = sum(not low <= guess <= high for _, guess in pairs)
    drawn = f"{len(pairs):,} of {found['numbers']:,} numbers of the central test set." if len(pairs) < found["numbers"] else ""
    edge = f" {at_edge:,} predictions lie outside and are drawn at the edge." if at_edge else ""
    missing = f" {found['not_finite']:,} predictions are no finite numbers." if found["not_finite"] else ""
    bins: Sequence[Row] = found["bins"]
    worst = max(bins, key=lambda row: row["rmse"] or 0.0)
    finding = f"The error is largest where the true number is {_range_text(worst)}: RMSE {plain_number(worst['rmse'])}; predictions are {_bias_text(worst)}."
    scatter = figure(
        "Predicted against true", f"A dot is one number. On the dotted line both are equal.{' ' if drawn else ''}{drawn}{edge}{missing}",
        lambda sheet: dots(points, sheet, x, y, height=300.0, diagonal="predicted = true"), finding, sheet=HALF,
    )  # fmt: skip
    rows = [
        Bar(_range_text(row), [Part(row["rmse"], "a4", title=_bias_text(row))], plain_number(row["rmse"]), f"{row['n']:,}: {_bias_text(row)}")
        for row in bins
        if row["rmse"] is not None
    ]  # fmt: skip
    by_bin = figure(
        "Error by the true number", "RMSE, in the units of the label; at the right how many, and the mean error",
        lambda sheet: bars(rows, sheet), finding, sheet=HALF,
    )  # fmt: skip
    outputs: Sequence[Row] = found.get("outputs") or []
    listing = [[str(o["name"]), f"{o['n']:,}", _number(o["rmse"]), _number(o["bias"])] for o in outputs]
    more = details_block("Each output", table(["output", "test samples", "RMSE", "mean error"], listing)) if outputs else ""
    return ["<h2>Predicted and true</h2>", f"<p>{escape(finding)}</p>", f'<div class="two">{scatter}{by_bin}</div>', more]


def _range_text(row: Row) -> str:
    low, high = plain_number(row["low"]), plain_number(row["high"])
    return low if low == high else f"{low} to {high}"


def _bias_text(row: Row) -> str:
    """By how much predictions are too high or too low on average."""
    bias = row["bias"]
    if bias is None:
        return "no prediction"
    return f"{plain_number(abs(bias))} too {'high' if bias >= 0 else 'low'} on average"


def _number(value: float | None) -> str:
    return "-" if value is None else plain_number(value)


def _labels(found: Sequence[Row]) -> list[str]:
    """F1 of each label, and a table with recall and precision."""
    known = [row for row in found if row["f1"] is not None]
    if not known:
        return []
    ranked = sorted(known, key=lambda row: row["f1"])
    worst, best = ranked[0], ranked[-1]
    summary = f"Label {_label(worst)} has the lowest F1, {per_cent(worst['f1'])}; label {_label(best)} the highest, {per_cent(best['f1'])}."
    shown = found if len(found) <= _MOST_BARS else ranked[:_MOST_BARS]
    rows = [Bar(f"{r['label']}", [Part(r["f1"] or 0.0, "a4")], _share_text(r["f1"]), f"{r['n']:,} samples have it") for r in shown]
    how = "F1 on the central test set: 2 x right / (given + true)"
    how += "" if len(found) <= _MOST_BARS else f". The {_MOST_BARS} lowest of {len(found):,} labels"
    cells = [[f"{r['label']}", f"{r['n']:,}", *(_share_text(r[key]) for key in ("recall", "precision", "f1"))] for r in found]
    return [
        "<h2>Label by label</h2>",
        f"<p>{escape(summary)}</p>",
        figure("F1 of each label", how, lambda sheet: bars(rows, sheet, names_left=True, most=1.0), summary),
        details_block("All labels", table(["label", "samples with it", "recall", "precision", "F1"], cells)),
    ]


def _label(row: Row) -> str:
    return f"'{row['label']}'" if isinstance(row["label"], str) else f"{row['label']}"


def _share_text(value: float | None) -> str:
    return "-" if value is None else per_cent(value)


def _tokens(found: Sequence[Row], noun: str) -> list[str]:
    """The tokens at which most predictions are wrong, each with what the model most often says instead."""
    worst = found[0]
    instead = "" if worst["instead"] is None else f"; it most often says {quoted(worst['instead'])} instead"
    summary = f"Most wrong predictions are at {quoted(worst['name'])}: the model is right at {_right_text(worst)} places{instead}."
    rows = [
        Bar(quoted(r["name"]), [Part(r["n"] * r["right"], "a4"), Part(r["n"] * (1 - r["right"]), "late-area")], _bar_text(r))
        for r in found[:_MOST_BARS]
    ]  # fmt: skip
    cells = [[quoted(r["name"]), f"{r['n']:,}", per_cent(r["right"]), quoted(r["instead"] or "-")] for r in found]
    how = f"Places of the central test set with this {noun}; full: predicted correctly, hatched: wrong"
    return [
        f"<h2>{noun.capitalize()}s</h2>",
        f"<p>{escape(summary)}</p>",
        figure(f"The {noun}s with most wrong predictions", how, lambda sheet: bars(rows, sheet, names_left=True), summary),
        details_block(f"These {noun}s", table([noun, "places", "right", "most often instead"], cells)),
    ]


def _right_text(row: Row) -> str:
    return f"{per_cent(row['right'])} of {row['n']:,}"


def _bar_text(row: Row) -> str:
    return f"{_right_text(row)}" + ("" if row["instead"] is None else f", else mostly {quoted(row['instead'][:_LONGEST])}")


def quoted(name: str) -> str:
    """The name of a token, told apart from the words around it if it is a mark or a letter.

    >>> quoted("e"), quoted("space"), quoted("token 7")
    ("'e'", 'space', 'token 7')
    """
    return f"'{name}'" if len(name) == 1 and name != "-" and name != MINUS else name
