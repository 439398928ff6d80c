"""The analyses of a study on its page: tables, correlations with their dots, times to accuracy, paired tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedfleet.app.pages.charts.axes import ticks
from fedfleet.app.pages.charts.dots import Along, Point, dots
from fedfleet.app.pages.charts.marks import both, figure
from fedfleet.app.pages.charts.steps import Line, Plot, steps
from fedfleet.app.pages.sides.comparison_words import capital, chance, points, time
from fedfleet.app.pages.sides.run_rows import Head, html_table
from fedfleet.app.pages.time_units import even
from fedfleet.app.terminal.text import percent, size
from fedfleet.measure.statistics.correlation import FEWEST

Answer = Mapping[str, Any]
_NAMES = {
    "virtual_seconds": "virtual time", "bytes_up": "sent up", "bytes_down": "sent down", "bytes": "traffic", "commits": "models made",
    "accuracy_at_equal_time": "accuracy at equal time", "accuracy_bottom10": "accuracy of the worst tenth",
    "accuracy_clients": "accuracy on people's own data", "time_to_target": "time to the target",
    "participation.never": "people who never took part", "wasted.share": "device time thrown away", "rounds_failed": "failed rounds",
    "accuracy_worst10_mean": "mean accuracy of the worst tenth", "accuracy_never": "accuracy for those who never took part",
    "best_accuracy": "best accuracy", "utilisation.mean": "reports used per person",
}  # fmt: skip


def analysis(found: Answer, colours: Mapping[str, int]) -> str:
    """One analysis with its heading; `colours` are those of the arms elsewhere on the page."""
    match found["kind"]:
        case "table":
            inside = _table(found)
        case "pearson" | "spearman":
            inside = _together(found, colours)
        case "time_to_accuracy":
            inside = _times(found, colours)
        case _:
            inside = _tests(found)
    head = "" if found["kind"] in ("pearson", "spearman") else f"<h3>{escape(capital(_titled(found)))}</h3>"
    return f"{head}{inside}"  # the title of a correlation's figure says it all


def _titled(found: Answer) -> str:
    """The title; names of quantities in it become words."""
    title = str(found["title"])
    for name, word in _NAMES.items():
        title = title.replace(name, word) if f"{name}" in title.replace(",", " ").split() else title
    target = found.get("target")
    return (
        title.replace("an accuracy", points(target))
        if target is not None and found["kind"] == "time_to_accuracy"
        else title
    )


def said(name: str, value: float | None) -> str:
    """A quantity in the unit that its name implies.

    >>> said("accuracy", 0.912), said("virtual_seconds", 7200.0), said("bytes_up", 2e9), said("commits", 12.0), said("x", None)
    ('91.2 %', '2 h', '2.0 GB', '12', '-')
    """
    if value is None:
        return "-"
    if "accuracy" in name or name.endswith("share"):
        return f"{100 * value:.0f} %" if value in (0.0, 1.0) else percent(value)
    if name.endswith("seconds") or name.startswith("time_"):
        return time(value)
    return size(value) if name.startswith("bytes") else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def mean(name: str, found: Answer | None) -> str:
    """A mean with its interval, as HTML."""
    if found is None:
        return "-"
    value = f"<b>{escape(said(name, found['value']))}</b>"
    if found["low"] is None:
        return value
    between = f"{_bare(said(name, found['low']), said(name, found['high']))} to {said(name, found['high'])}"
    return f'{value} <span class="soft line" title="95 % interval of the mean over {found["n"]} runs">{escape(between)}</span>'


def _bare(low: str, high: str) -> str:
    """The lower end without its unit where both have the same."""
    value, _, unit = low.partition(" ")
    return value if unit and high.endswith(f" {unit}") else low


def named(name: str) -> str:
    """A quantity in words, where its name is one of ours.

    >>> named("virtual_seconds"), named("world.data.alpha")
    ('virtual time', 'world.data.alpha')
    """
    return _NAMES.get(name, name)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, default=str)


def _table(found: Answer) -> str:
    key = found["rows"]
    if "across" in found:
        heads = [Head(key), *(Head(f"{found['across']} {_word(c)}") for c in found["columns"])]
        rows = [[escape(_word(r[key])), *(mean(found["value"], c) for c in r["cells"])] for r in found["table"]]
    else:
        heads = [Head(key), *(Head(named(name)) for name in found["columns"])]
        rows = [[escape(_word(r[key])), *(mean(c, r[c]) for c in found["columns"])] for r in found["table"]]
    return html_table(heads, rows) + '<p class="note">Means over runs; beside them the 95 % interval of the mean.</p>'


def _together(found: Answer, colours: Mapping[str, int]) -> str:
    x, y = str(found["x"]), str(found["y"])
    name = "Pearson's r" if found["kind"] == "pearson" else "Spearman's rho"
    whose = f"{found['n']} runs" + (
        f" of {found['clusters']} clusters ({found['cluster']})" if found.get("cluster") else ""
    )
    few = f", which needs {FEWEST} clusters at least" if found["clusters"] < FEWEST else ""
    between = (
        f"no interval{few}"
        if found["low"] is None
        else f"95 % interval {found['low']:.2f} to {found['high']:.2f}, by redrawing"
    )
    value = "not defined" if found["r"] is None else f"{found['r']:.2f}"
    sentence = f"{name} of {named(x)} and {named(y)} is {value} ({between}; {whose})."
    marks = [
        Point(float(p["x"]), float(p["y"]), 4.0, f"a{colours.get(str(p['arm']), 1)} see", f"{p['arm']}, seed {p['seed']}: {said(x, p['x'])}, {said(y, p['y'])}")
        for p in found["points"]
    ]  # fmt: skip
    across, up = along(x, [p.x for p in marks]), along(y, [p.y for p in marks])
    wide, slim = both(lambda sheet: dots(marks, sheet, across, up, height=240.0))
    return figure(sentence, "A dot is a run, in the colour of its arm.", wide, slim, sentence)


def along(name: str, values: Sequence[float]) -> Along:
    """An axis that holds these values: shares from 0 to 100 %, everything else with some room."""
    if "accuracy" in name:
        return Along(0.0, 1.0, [(points(t), t) for t in ticks(0.0, 1.0)], named(name))
    low, high = min(values, default=0.0), max(values, default=0.0)
    room = 0.06 * ((high - low) or abs(high) or 1.0)
    low, high = max(low - room, 0.0 if low >= 0 else low - room), high + room
    if name.endswith("seconds") or name.startswith("time_"):
        return Along(low, high, even(low, high, 5), named(name))
    if name.endswith("share"):
        return Along(low, high, [(points(t), t) for t in ticks(low, high)], named(name))
    return Along(low, high, [(said(name, t), t) for t in ticks(low, high)], named(name))


def _times(found: Answer, colours: Mapping[str, int]) -> str:
    target = found["target"]
    if target is None:
        return "<p>The accuracy to be reached is a share of what an arm had, and that arm has nothing.</p>"
    heads = [
        Head("arm"), Head("median", "When half of the runs had got there, by Kaplan and Meier; runs that never did are counted as such."),
        Head("restricted mean", "The mean of whichever came first: the target, or the time that all runs lasted."), Head("reached"),
    ]  # fmt: skip
    rows = [
        [
            escape(str(r["arm"])),
            "never" if r.get("median") is None else escape(time(r["median"])),
            mean("time_", r.get("restricted_mean")),
            f"{r.get('reached', 0)} of {r.get('reached', 0) + r.get('never', 0)}",
        ]
        for r in found["table"]
    ]
    return html_table(heads, rows) + _survival(found, colours)


def _survival(found: Answer, colours: Mapping[str, int]) -> str:
    """The share of runs that have got there, against time."""
    lines = [
        Line(str(r["arm"]), [0.0, *(s[0] for s in r["steps"])], [0.0, *(1.0 - s[1] for s in r["steps"])], colours.get(str(r["arm"]), 1))
        for r in found["table"]
        if r["steps"]
    ]  # fmt: skip
    if not lines or max(len(one.x) for one in lines) < 3:
        return ""
    wide, slim = both(lambda sheet: steps(lines[:8], sheet, Plot(top=1.0, height=180.0)))
    told = f"Share of runs that have reached {points(found['target'])}, by virtual time"
    return figure(
        told, "One minus Kaplan and Meier's curve.", wide, slim, f"{told}: {'; '.join(one.name for one in lines)}."
    )


def _tests(found: Answer) -> str:
    name = str(found["metric"])
    heads = [
        Head("arm"), Head(f"difference to {found['baseline']}", "Of the means over common seeds, with its 95 % interval."),
        Head("p", "How often chance alone would make such a difference."), Head("p, corrected", "Holm's correction for the number of comparisons."),
        Head("in common", "What both arms were run with; where seeds share fleets, data or trainings, the test is of those."),
    ]  # fmt: skip
    rows = [
        [
            escape(str(r["arm"])),
            difference(name, r),
            escape(chance(r["p"])),
            escape(chance(r["p_holm"])),
            f"{r['n']} {r.get('unit', 'seeds')}",
        ]
        for r in found["table"]
    ]
    return html_table(heads, rows)


def difference(name: str, found: Answer) -> str:
    """A paired difference with its interval, as HTML; of accuracies in points."""
    if found.get("difference") is None:
        return "no common seeds"
    factor, unit = (100.0, " points") if "accuracy" in name else (1.0, "")
    digits = "+.1f" if unit else "+.3g"
    value = f"<b>{format(factor * found['difference'], digits)}{unit}</b>"
    if found["low"] is None:
        return value
    low, high = (format(factor * found[end], digits) for end in ("low", "high"))
    return f'{value} <span class="soft line">{low} to {high}</span>'
