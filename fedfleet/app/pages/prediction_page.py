"""Pages of predictions: the predicted curve with its band, which clients are excluded, limitations; and a sweep's trade-off."""

from __future__ import annotations

from html import escape
from typing import Any

from fedfleet.app.pages.charts.axes import format_number, share_ticks, ticks
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.dots import Axis, Point, dots
from fedfleet.app.pages.charts.marks import Drawing, Sheet, figure
from fedfleet.app.pages.charts.steps import Line, Plot, steps
from fedfleet.app.pages.html import key_figures, page, table, topline
from fedfleet.app.pages.report.number_words import as_people, per_cent
from fedfleet.app.terminal.text import percent, span


def prediction_page(answer: dict[str, Any], name: str) -> str:
    """What a run will come to, as one page: the conclusion in words first."""
    reference = answer["reference"]
    curve = [_curve(answer)] if _has_model(answer) and reference else []
    after = ""
    if reference:
        after = f", and three reference runs on an ideal fleet ({reference['commits']} commits, {reference['seconds']:.0f} s of real time)"
    limits = [
        "<h2>Limitations</h2>",
        "<ul>" + "".join(f"<li>{escape(note[:1].upper() + note[1:])}.</li>" for note in answer["notes"]) + "</ul>",
        f'<p class="note">From {answer["draws"]} draws with other seeds than the run\'s own{after}.</p>',
    ]
    top, body = _top(name), [*_head(answer), *curve, *_participation_section(answer), *limits]
    return page(f"{name}, predicted", body, top=top, description=_conclusion(answer))


def _top(name: str) -> str:
    return topline(f"prediction for {name}, before it is trained")


def _has_model(answer: dict[str, Any]) -> bool:
    """Will there be a model? The first weights are no result."""
    return answer["commits"]["high"] > 0


def _conclusion(answer: dict[str, Any]) -> str:
    accuracy, commits, time = answer["accuracy"], answer["commits"], f"{span(answer['virtual_seconds']['value'])} of virtual time"
    made = f"{commits['value']:.0f} models out of {answer['rounds']:.0f} rounds"
    if accuracy is None:
        return f"The run will make {made} in {time}; {answer['score']} is not predicted, since that applies to classification only."
    ideal = f"an ideal fleet would reach {percent(answer['ideal_accuracy'])}."
    if not _has_model(answer):
        return f"None of {answer['rounds']:.0f} rounds will end with a model, in {time}; {ideal}"
    interval = f"90 % interval: {100 * accuracy['low']:.1f} to {percent(accuracy['high'])}"
    return f"The run will reach about {percent(accuracy['value'])} ({interval}) in {time}, with {made}; {ideal}"


def _head(answer: dict[str, Any]) -> list[str]:
    failed, accuracy, title = sum(answer["failed_rounds"].values()), answer["accuracy"], "No model will be made"
    if _has_model(answer) and accuracy is None:
        title = f"About {answer['commits']['value']:.0f} models in {span(answer['virtual_seconds']['value'])}"
    elif _has_model(answer):
        low, high = (f"{100 * accuracy[end]:.0f}" for end in ("low", "high"))
        interval = f"{high} %" if low == high else f"{low} to {high} %"
        title = f"About {per_cent(accuracy['value'])} at the end, 90 % interval {interval}"
    return [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(_conclusion(answer))}</p>',
        key_figures([
            (percent(accuracy["value"]) if _has_model(answer) and accuracy else "-", f"{answer.get('score', 'accuracy')} at the end{'' if accuracy else ', not predicted'}", "on the central test set, as predicted"),
            (f"{answer['commits']['value']:.0f}", "models made", "commits: rounds that end with a new model"),
            (f"{failed:.0f}" if failed >= 0.5 or not failed else "under 1", "failed rounds", "too few reports in time, or too few reachable clients"),
            (span(answer["virtual_seconds"]["value"]), "virtual time", "of the simulated fleet, not of this computer"),
            (percent(answer["effective"]), "of samples count", "n_eff: the share of the fleet's samples on which the models really rest"),
        ]),
    ]  # fmt: skip


def _curve(answer: dict[str, Any]) -> str:
    curve = answer["curve"]
    predicted_line = Line(
        "predicted", curve["seconds"], curve["accuracy"], low=curve["low"], high=curve["high"],
        label_text=f"predicted {percent(curve['accuracy'][-1])}",
    )  # fmt: skip
    plot = Plot(refs=[(answer["ideal_accuracy"], "an ideal fleet")], top=1.0)
    how = f"The line is the prediction; the band holds nine of ten runs ({answer['band']})."
    return figure(
        "Accuracy on the central test set against virtual time",
        how,
        lambda sheet: steps([predicted_line], sheet, plot),
        _conclusion(answer),
    )


def _participation_section(answer: dict[str, Any]) -> list[str]:
    clock = answer["clock"]
    by = answer.get("by", "label")
    finding = f"By {by}: from {min(clock.values()):.0f} to {max(clock.values()):.0f} server updates of an ideal fleet"
    rows = [Bar(f"{by} {c}", [Part(t, "a1", f"{t:.0f}")]) for c, t in clock.items()]
    failed = [[as_people(reason), f"{n:.0f}" if n >= 0.5 else "under 1"] for reason, n in answer["failed_rounds"].items()]
    how = f"In server updates of an ideal fleet that would have trained the {by} as much: the class clock."
    return [
        "<h2>Participation and exclusion</h2>",
        f"<p>{escape(as_people(answer['left_out']['sentence']))}</p>",
        figure(f"How much each {by} is trained", how, lambda sheet: bars(rows, sheet, names_left=True), finding),
        *([table(["rounds that will fail because", "rounds"], failed, words=[0])] if failed else []),
    ]


_SECONDS = ("seconds", "period", "t_break", "lease", "refill", "t_o")  # keys whose numbers are seconds


def _dots(answer: dict[str, Any], label: str, sheet: Sheet) -> Drawing:
    """Accuracy at the end by value, on a logarithmic axis where values span more than a decade."""
    rows = answer["rows"]
    values = [float(row["value"]) for row in rows]
    low, high = min(values), max(values)
    if log := low > 0 and high > 10 * low:
        marks = [(format_number(v), v) for p in range(-9, 10) for v in (10.0**p, 2 * 10.0**p, 5 * 10.0**p) if low <= v <= high]
        x = Axis(low * 0.93, high * 1.07, marks, f"{label}, logarithmic", log=log)
    else:
        room = 0.04 * ((high - low) or abs(high) or 1.0)
        x = Axis(low - room, high + room, [(format_number(t), t) for t in ticks(low, high)], label)
    points = [
        Point(float(row["value"]), row["accuracy"], 4.6, "ring s1" if row["seconds_to_target"] is None else "a1",
              f"{row['value']:g}: {percent(row['accuracy'])} after {span(row['virtual_seconds'])}")
        for row in rows
    ]  # fmt: skip
    return dots(points, sheet, x, Axis(0.0, 1.0, share_ticks(1.0), "accuracy at the end"), height=230.0)


def sweep_page(answer: dict[str, Any], name: str) -> str:
    """A key at many values: what each would come to."""
    key, rows = answer["key"], answer["rows"]
    unit = ", s" if key.rsplit(".", 1)[-1] in _SECONDS else ""
    reached, target = [row for row in rows if row["seconds_to_target"] is not None], per_cent(answer["target"])
    first = min(reached, key=lambda row: row["seconds_to_target"], default=None)
    title = f"{key} = {first['value']:g} is first at {target}" if first else f"No value of {key} reaches {target}"
    target = percent(answer["target"])
    head = [f"{key}{unit}", "accuracy at the end", "models made", "ends after", f"to {target}", "never took part"]
    cells = [
        [f"{row['value']:g}", percent(row["accuracy"]) if row["commits"] else "no model", f"{row['commits']:.0f}", span(row["virtual_seconds"]),
         "never" if row["seconds_to_target"] is None else span(row["seconds_to_target"]), percent(row["never"])]
        for row in rows
    ]  # fmt: skip
    how = f"A dot is a value, as predicted for the rounds that the spec asks for. Hollow: the target of {target} is never reached."
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(answer["sentence"])}</p>',
        figure(f"Accuracy at the end against {key}", how, lambda sheet: _dots(answer, f"{key}{unit}", sheet), answer["sentence"]),
        table(head, cells),
        f'<p class="note">The target is nine tenths of what an ideal fleet reaches. {len(rows)} values in {answer["seconds"]:.2g} s.</p>',
    ]
    return page(f"{name}: {key}, predicted", body, top=_top(name), description=answer["sentence"])
