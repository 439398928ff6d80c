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
    return page(
        f"{name}, predicted",
        [
            *_head(answer),
            *([_curve(answer)] if _has_model(answer) else []),
            *_participation_section(answer),
            *_limits_section(answer),
        ],
        top=topline(f"prediction for {name}, before it is trained"),
        description=_conclusion(answer),
    )


def _has_model(answer: dict[str, Any]) -> bool:
    """Will there be a model? The first weights are no result."""
    return answer["commits"]["high"] > 0


def _conclusion(answer: dict[str, Any]) -> str:
    accuracy, commits = answer["accuracy"], answer["commits"]
    if not _has_model(answer):
        return (
            f"None of {answer['rounds']:.0f} rounds will end with a model, in {span(answer['virtual_seconds']['value'])} of virtual time; an "
            f"ideal fleet would reach {percent(answer['ideal_accuracy'])}."
        )
    return (
        f"The run will reach about {percent(accuracy['value'])} (90 % interval: {100 * accuracy['low']:.1f} to "
        f"{percent(accuracy['high'])}) in {span(answer['virtual_seconds']['value'])} of virtual time, with {commits['value']:.0f} models out of "
        f"{answer['rounds']:.0f} rounds; an ideal fleet would reach {percent(answer['ideal_accuracy'])}."
    )


def _title(answer: dict[str, Any]) -> str:
    """The finding: how good the model will be, and how sure that is."""
    accuracy = answer["accuracy"]
    if not _has_model(answer):
        return "No model will be made"
    low, high = (f"{100 * accuracy[end]:.0f}" for end in ("low", "high"))
    interval = f"{high} %" if low == high else f"{low} to {high} %"
    return f"About {per_cent(accuracy['value'])} at the end, 90 % interval {interval}"


def _head(answer: dict[str, Any]) -> list[str]:
    failed = sum(answer["failed_rounds"].values())
    return [
        f"<h1>{escape(_title(answer))}</h1>",
        f'<p class="lead">{escape(_conclusion(answer))}</p>',
        key_figures([
            (percent(answer["accuracy"]["value"]) if _has_model(answer) else "-", "accuracy at the end", "on the central test set, as predicted"),
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
    return figure(
        "Accuracy on the central test set against virtual time",
        f"The line is the prediction; the band holds nine of ten runs ({answer['band']}).",
        lambda sheet: steps([predicted_line], sheet, plot),
        _conclusion(answer),
    )


def _participation_section(answer: dict[str, Any]) -> list[str]:
    clock = answer["clock"]
    finding = f"By label: from {min(clock.values()):.0f} to {max(clock.values()):.0f} server updates of an ideal fleet"
    rows = [Bar(f"label {c}", [Part(t, "a1", f"{t:.0f}")]) for c, t in clock.items()]
    failed = [[as_people(reason), f"{n:.0f}" if n >= 0.5 else "under 1"] for reason, n in answer["failed_rounds"].items()]
    return [
        "<h2>Participation and exclusion</h2>",
        f"<p>{escape(as_people(answer['left_out']['sentence']))}</p>",
        figure(
            "How much each label is trained",
            "In server updates of an ideal fleet that would have trained the label as much: the class clock.",
            lambda sheet: bars(rows, sheet, names_left=True),
            finding,
        ),
        *([table(["rounds that will fail because", "rounds"], failed, words=[0])] if failed else []),
    ]


def _limits_section(answer: dict[str, Any]) -> list[str]:
    reference = answer["reference"]
    return [
        "<h2>Limitations</h2>",
        "<ul>" + "".join(f"<li>{escape(note[:1].upper() + note[1:])}.</li>" for note in answer["notes"]) + "</ul>",
        f'<p class="note">From {answer["draws"]} draws with other seeds than the run\'s own, and three reference runs on an ideal fleet '
        f"({reference['commits']} commits, {reference['seconds']:.0f} s of real time).</p>",
    ]


_SECONDS = ("seconds", "period", "t_break", "lease", "refill", "t_o")  # keys whose numbers are seconds


def _sweep_title(answer: dict[str, Any]) -> str:
    """The finding of a sweep: which value is first at the target."""
    reached = [row for row in answer["rows"] if row["seconds_to_target"] is not None]
    if not reached:
        return f"No value of {answer['key']} reaches {per_cent(answer['target'])}"
    first = min(reached, key=lambda row: row["seconds_to_target"])
    return f"{answer['key']} = {first['value']:g} is first at {per_cent(answer['target'])}"


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
    head = [
        f"{key}{unit}",
        "accuracy at the end",
        "models made",
        "ends after",
        f"to {percent(answer['target'])}",
        "never took part",
    ]
    cells = [
        [f"{row['value']:g}", percent(row["accuracy"]) if row["commits"] else "no model", f"{row['commits']:.0f}", span(row["virtual_seconds"]),
         "never" if row["seconds_to_target"] is None else span(row["seconds_to_target"]), percent(row["never"])]
        for row in rows
    ]  # fmt: skip
    body = [
        f"<h1>{escape(_sweep_title(answer))}</h1>",
        f'<p class="lead">{escape(answer["sentence"])}</p>',
        figure(
            f"Accuracy at the end against {key}",
            f"A dot is a value, as predicted for the rounds that the spec asks for. Hollow: the target of {percent(answer['target'])} is never reached.",
            lambda sheet: _dots(answer, f"{key}{unit}", sheet),
            answer["sentence"],
        ),
        table(head, cells),
        f'<p class="note">The target is nine tenths of what an ideal fleet reaches. {len(rows)} values in {answer["seconds"]:.2g} s.</p>',
    ]
    return page(
        f"{name}: {key}, predicted",
        body,
        top=topline(f"prediction for {name}, before it is trained"),
        description=answer["sentence"],
    )
