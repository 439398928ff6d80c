"""The analyses of a study on its page: tables, correlations with their dots, times to accuracy, paired tests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedfleet.app.pages.charts.axes import span_ticks, ticks
from fedfleet.app.pages.charts.dots import Axis, Point, dots
from fedfleet.app.pages.charts.marks import figure
from fedfleet.app.pages.charts.steps import Line, Plot, steps
from fedfleet.app.pages.sides.comparison_words import capitalise, p_value_text, time_text, whole_percent
from fedfleet.app.pages.sides.run_rows import Head, html_table
from fedfleet.app.pages.time_units import linear_time_ticks
from fedfleet.app.terminal.text import percent, size
from fedfleet.measure.goal import Target, target_text
from fedfleet.measure.measure_info import MEASURE_NAMES, OWN, MeasureInfo, measure_info
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.statistics.correlation import MIN_CLUSTERS

Answer = Mapping[str, Any]
_QUANTITY = re.compile(r"(?<![\w.])[a-z][\w.]*\w(?![\w.])")
_SCORE = ScoreInfo()
_NAMES = {
    "virtual_seconds": "virtual time", "bytes_up": "sent up", "bytes_down": "sent down", "bytes": "traffic", "commits": "server updates",
    "accuracy_at_equal_time": "accuracy at equal time", "accuracy_bottom10": "accuracy of the worst tenth",
    "accuracy_clients": "accuracy on clients' own data", "time_to_target": "time to the target",
    "participation.never": "clients that never took part", "wasted.share": "wasted device time", "rounds_failed": "failed rounds",
    "accuracy_worst10_mean": "mean accuracy of the worst tenth", "accuracy_never": "accuracy for clients that never took part",
    "best_accuracy": "best accuracy", "utilisation.mean": "reports used per client",
}  # fmt: skip


def analysis_section(answer: Answer, colours: Mapping[str, int], score: ScoreInfo = _SCORE) -> str:
    """One analysis with its heading; `colours` are those of the arms elsewhere on the page."""
    match answer["kind"]:
        case "table":
            inside = _table(answer, score)
        case "pearson" | "spearman":
            inside = _correlation_figure(answer, colours, score)
        case "time_to_accuracy":
            inside = _times_table(answer, colours, score)
        case _:
            inside = _tests_table(answer, score)
    head = "" if answer["kind"] in ("pearson", "spearman") else f"<h3>{escape(capitalise(_title(answer, score)))}</h3>"
    return f"{head}{inside}"  # the title of a correlation's figure says it all


def _title(answer: Answer, score: ScoreInfo) -> str:
    """The title; names of quantities in it become words."""
    title, target = str(answer["title"]), answer.get("target")
    title = _QUANTITY.sub(lambda word: quantity_name(word[0], score), title)
    if target is None or answer["kind"] != "time_to_accuracy":
        return title
    return title.replace("an accuracy", _goal(target, score)).replace("the target", _goal(target, score))


def _goal(target: Target, score: ScoreInfo) -> str:
    """A target in a title."""
    if isinstance(target, str):
        return target_text(target, score)
    return score.brief(target) if score.kind.percent else score.named(target)


def _info(name: str, score: ScoreInfo) -> MeasureInfo | None:
    """The measure that a quantity is: the score of the task, a share of clients' scores, or another measure; else None."""
    if name.startswith(("measures.", OWN)):
        return measure_info(name.removeprefix("measures."), score)
    return measure_info(name, score) if "accuracy" in name or name in (*MEASURE_NAMES, "loss") else None


def value_text(name: str, value: float | None, score: ScoreInfo = _SCORE) -> str:
    """A quantity in the unit that its name implies.

    >>> value_text("accuracy", 0.912), value_text("virtual_seconds", 7200.0), value_text("bytes_up", 2e9), value_text("commits", 12.0), value_text("x", None)
    ('91.2 %', '2 h', '2.0 GB', '12', '-')
    """
    if value is None:
        return "-"
    info = _info(name, score)
    if info is not None and not (info.percent and info.is_score):
        return info.text(value)
    if "accuracy" in name or name.endswith("share"):
        return f"{100 * value:.0f} %" if value in (0.0, 1.0) else percent(value)
    if name.endswith("seconds") or name.startswith("time_"):
        return time_text(value)
    return size(value) if name.startswith("bytes") else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def mean_cell(name: str, answer: Answer | None, score: ScoreInfo = _SCORE) -> str:
    """A mean with its interval, as HTML."""
    if answer is None:
        return "-"
    value = f"<b>{escape(value_text(name, answer['value'], score))}</b>"
    if answer["low"] is None:
        return value
    low, high = (value_text(name, answer[end], score) for end in ("low", "high"))
    number, _, unit = low.partition(" ")
    between = f"{number if unit and high.endswith(f' {unit}') else low} to {high}"
    return f'{value} <span class="soft line" title="95 % interval of the mean over {answer["n"]} runs">{escape(between)}</span>'


def quantity_name(name: str, score: ScoreInfo = _SCORE) -> str:
    """A quantity in words, where its name is one of ours.

    >>> quantity_name("virtual_seconds"), quantity_name("world.data.alpha")
    ('virtual time', 'world.data.alpha')
    """
    info = _info(name, score)
    if info is not None and (name != "loss") and not (score.counts_answers and name in (*_NAMES, "accuracy")):
        return info.label
    return _NAMES.get(name, name)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, default=str)


def _table(answer: Answer, score: ScoreInfo) -> str:
    key = answer["rows"]
    if "across" in answer:
        heads = [Head(key), *(Head(f"{answer['across']} {_word(c)}") for c in answer["columns"])]
        rows = [[escape(_word(r[key])), *(mean_cell(answer["value"], c, score) for c in r["cells"])] for r in answer["table"]]
    else:
        heads = [Head(key), *(Head(quantity_name(name, score)) for name in answer["columns"])]
        rows = [[escape(_word(r[key])), *(mean_cell(c, r[c], score) for c in answer["columns"])] for r in answer["table"]]
    return html_table(heads, rows) + '<p class="note">Means over runs with the 95 % interval of the mean.</p>'


def _correlation_figure(answer: Answer, colours: Mapping[str, int], score: ScoreInfo) -> str:
    x, y = str(answer["x"]), str(answer["y"])
    name = "Pearson's r" if answer["kind"] == "pearson" else "Spearman's rho"
    whose = f"{answer['n']} runs" + (f" of {answer['clusters']} clusters ({answer['cluster']})" if answer.get("cluster") else "")
    few = f", which needs {MIN_CLUSTERS} clusters at least" if answer["clusters"] < MIN_CLUSTERS else ""
    between = f"no interval{few}"
    if answer["low"] is not None:
        between = f"95 % interval {answer['low']:.2f} to {answer['high']:.2f}, by bootstrap"
    value = "not defined" if answer["r"] is None else f"{answer['r']:.2f}"
    sentence = f"{name} of {quantity_name(x, score)} and {quantity_name(y, score)} is {value} ({between}; {whose})."
    marks = [
        Point(float(p["x"]), float(p["y"]), 4.0, f"a{colours.get(str(p['arm']), 1)} see", f"{p['arm']}, seed {p['seed']}: {value_text(x, p['x'], score)}, {value_text(y, p['y'], score)}")
        for p in answer["points"]
    ]  # fmt: skip
    across, up = value_axis(x, [p.x for p in marks], score), value_axis(y, [p.y for p in marks], score)
    how = "A dot is a run, in the colour of its arm."
    return figure(sentence, how, lambda sheet: dots(marks, sheet, across, up, height=240.0), sentence)


def value_axis(name: str, values: Sequence[float], score: ScoreInfo = _SCORE) -> Axis:
    """An axis that holds these values: shares from 0 to 100 %, everything else with some room."""
    label, info = quantity_name(name, score), _info(name, score)
    if (info is not None and info.percent) or ("accuracy" in name and score.kind.percent):
        return Axis(0.0, 1.0, [(whole_percent(t), t) for t in ticks(0.0, 1.0)], label)
    low, high = min(values, default=0.0), max(values, default=0.0)
    room = 0.06 * ((high - low) or abs(high) or 1.0)
    low, high = max(low - room, 0.0 if low >= 0 else low - room), high + room
    if info is not None:
        return Axis(low, high, span_ticks(low, high), label)
    if name.endswith("seconds") or name.startswith("time_"):
        return Axis(low, high, linear_time_ticks(low, high, 5), label)
    if name.endswith("share"):
        return Axis(low, high, [(whole_percent(t), t) for t in ticks(low, high)], label)
    return Axis(low, high, [(value_text(name, t, score), t) for t in ticks(low, high)], label)


def _times_table(answer: Answer, colours: Mapping[str, int], score: ScoreInfo) -> str:
    target = answer["target"]
    if target is None:
        return f"<p>The target is a share of the {score.name} of an arm that has no {score.name}.</p>"
    heads = [
        Head("arm"), Head("median", "When half of the runs had got there, by Kaplan and Meier; runs that never did are counted as such."),
        Head("restricted mean", "The mean of whichever came first: the target, or the time that all runs lasted."), Head("reached"),
    ]  # fmt: skip
    rows, lines = list[list[str]](), list[Line]()
    for r in answer["table"]:
        arm, reached, at = str(r["arm"]), r.get("reached", 0), r["steps"]
        median = "never" if r.get("median") is None else time_text(r["median"])
        mean = mean_cell("time_", r.get("restricted_mean"))
        rows.append([escape(arm), escape(median), mean, f"{reached} of {reached + r.get('never', 0)}"])
        curve = Line(arm, [0.0, *(s[0] for s in at)], [0.0, *(1.0 - s[1] for s in at)], colours.get(arm, 1))
        lines += [curve] if at else []
    if max((len(one.x) for one in lines), default=0) < 3:
        return html_table(heads, rows)
    title = f"Share of runs that have reached {_goal(target, score)}, by virtual time"
    how, plot, names = "One minus Kaplan and Meier's curve.", Plot(top=1.0, height=180.0), "; ".join(one.name for one in lines)
    return html_table(heads, rows) + figure(title, how, lambda sheet: steps(lines[:8], sheet, plot), f"{title}: {names}.")


def _tests_table(answer: Answer, score: ScoreInfo) -> str:
    name = str(answer["metric"])
    heads = [
        Head("arm"), Head(f"difference to {answer['baseline']}", "Of the means over common seeds, with its 95 % interval."),
        Head("p", "How often chance alone would make such a difference or a larger one."), Head("p, corrected", "Holm's correction for the number of comparisons."),
        Head("in common", "What both arms were run with; where seeds share fleets, data or trainings, the test is of those."),
    ]  # fmt: skip
    rows = list[list[str]]()
    for r in answer["table"]:
        p_values = [escape(p_value_text(r[key])) for key in ("p", "p_holm")]
        rows.append([escape(str(r["arm"])), difference_cell(name, r, score), *p_values, f"{r['n']} {r.get('unit', 'seeds')}"])
    return html_table(heads, rows)


def difference_cell(name: str, answer: Answer, score: ScoreInfo = _SCORE) -> str:
    """A paired difference with its interval, as HTML; of percentages in points, of R2 and errors in their own units."""
    if answer.get("difference") is None:
        return "no common seeds"
    info = _info(name, score)
    if info is not None and name != "loss" and not (info.percent and info.is_score):
        shown = f"<b>{escape(info.difference(answer['difference']))}</b>"
        ends = [
            info.difference(answer[end]).removesuffix(info.unit_of_differences)
            for end in ("low", "high")
            if answer[end] is not None
        ]
        return f'{shown} <span class="soft line">{escape(" to ".join(ends))}</span>' if ends else shown
    factor, unit = (100.0, " points") if "accuracy" in name else (1.0, "")
    digits = "+.1f" if unit else "+.3g"
    value = f"<b>{format(factor * answer['difference'], digits)}{unit}</b>"
    if answer["low"] is None:
        return value
    low, high = (format(factor * answer[end], digits) for end in ("low", "high"))
    return f'{value} <span class="soft line">{low} to {high}</span>'
