"""Pages of predictions: the curve foretold with its band, who will be left out, what cannot be seen; and a sweep's trade-off."""

from __future__ import annotations

from html import escape
from typing import Any

from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.drawing import both, figure
from fedfleet.app.pages.charts.steps import Line, Plot, steps
from fedfleet.app.pages.html import keys, page, table, topline
from fedfleet.app.terminal.text import percent, span


def prediction_page(answer: dict[str, Any], name: str) -> str:
    """What a run will come to, as one page: the conclusion in words first."""
    return page(
        f"{name}, foretold",
        [*_head(answer, name), _curve(answer), *_who(answer), *_blind(answer)],
        top=topline("prediction"),
        description=_conclusion(answer),
    )


def _conclusion(answer: dict[str, Any]) -> str:
    accuracy, commits = answer["accuracy"], answer["commits"]
    return (
        f"The run will reach about {percent(accuracy['value'])} (nine times of ten between {percent(accuracy['low'])} and "
        f"{percent(accuracy['high'])}) in {span(answer['virtual_seconds']['value'])} of virtual time, with {commits['value']:.0f} models out of "
        f"{answer['rounds']:.0f} rounds; an ideal fleet would reach {percent(answer['ideal_accuracy'])}."
    )


def _head(answer: dict[str, Any], name: str) -> list[str]:
    failed = sum(answer["failed_rounds"].values())
    return [
        f"<h1>{escape(name)}, before it is trained</h1>",
        f'<p class="lead">{escape(_conclusion(answer))} {escape(answer["left_out"]["sentence"])}</p>',
        keys([
            (percent(answer["accuracy"]["value"]), "accuracy at the end", "on the central test set, as foretold"),
            (f"{answer['commits']['value']:.0f}", "models made", "commits: rounds that end with a new model"),
            (f"{failed:.0f}", "failed rounds", "too few reports came in time, or too few could be asked"),
            (span(answer["virtual_seconds"]["value"]), "virtual time", "of the simulated fleet, not of this computer"),
            (percent(answer["effective"]), "of samples count", "n_eff: the share of the fleet's samples on which the models really rest"),
        ]),
    ]  # fmt: skip


def _curve(answer: dict[str, Any]) -> str:
    curve = answer["curve"]
    foretold = Line(
        "foretold", curve["seconds"], curve["accuracy"], low=curve["low"], high=curve["high"],
        said=f"foretold {percent(curve['accuracy'][-1])}",
    )  # fmt: skip
    plot = Plot(refs=[(answer["ideal_accuracy"], "an ideal fleet")], top=1.0)
    return figure(
        "Accuracy on the central test set against virtual time",
        f"The line is foretold; the band holds nine of ten runs ({answer['band']}).",
        *both(lambda sheet: steps([foretold], sheet, plot)),
        _conclusion(answer),
    )


def _who(answer: dict[str, Any]) -> list[str]:
    clock = answer["clock"]
    finding = f"By label: from {min(clock.values()):.0f} to {max(clock.values()):.0f} commits of an ideal fleet"
    rows = [Bar(f"label {c}", [Part(t, "a1", f"{t:.0f}")]) for c, t in clock.items()]
    failed = [[reason, f"{n:.0f}"] for reason, n in answer["failed_rounds"].items()]
    return [
        "<h2>Who will be seen, and who left out</h2>",
        f"<p>{escape(answer['left_out']['sentence'])}</p>",
        figure(
            "How far each label is learnt",
            "In commits of an ideal fleet that would have shown the label as much: the class clock.",
            *both(lambda sheet: bars(rows, sheet, beside=True)),
            finding,
        ),
        *([table(["rounds that will fail because", "rounds"], failed, words=[0])] if failed else []),
    ]


def _blind(answer: dict[str, Any]) -> list[str]:
    reference = answer["reference"]
    return [
        "<h2>What it cannot see</h2>",
        "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in answer["notes"]) + "</ul>",
        f'<p class="note">From {answer["draws"]} draws with other seeds than the run\'s own, and three reference runs on an ideal fleet '
        f"({reference['commits']} commits, {reference['seconds']:.0f} s of real time). One report has the noise b = {answer['noise']:.2g}; "
        f"with few people's samples error grows with the power gamma = {answer['exponent']:.2g} of how few they are.</p>",
    ]


def sweep_page(answer: dict[str, Any], name: str) -> str:
    """A key at many values: what each would come to."""
    key, rows = answer["key"], answer["rows"]
    values = [float(row["value"]) for row in rows]
    ends = Line("accuracy at the end", values, [row["accuracy"] for row in rows], said="at the end")
    head = [key, "accuracy at the end", "models made", "ends after", f"to {percent(answer['target'])}", "in no model"]
    cells = [
        [f"{row['value']:g}", percent(row["accuracy"]), f"{row['commits']:.0f}", span(row["virtual_seconds"]),
         "never" if row["seconds_to_target"] is None else span(row["seconds_to_target"]), percent(row["never"])]
        for row in rows
    ]  # fmt: skip
    plot = Plot(time=False, label=key, refs=[(answer["target"], "target")], top=1.0)
    body = [
        f"<h1>{escape(name)}: {escape(key)}, before it is trained</h1>",
        f'<p class="lead">{escape(answer["sentence"])}</p>',
        figure(
            f"Accuracy at the end against {key}",
            "As foretold, by the number of rounds that the spec asks for.",
            *both(lambda sheet: steps([ends], sheet, plot)),
            answer["sentence"],
        ),
        table(head, cells),
        f'<p class="note">The target is nine tenths of what an ideal fleet reaches. {len(rows)} values in {answer["seconds"]:.2g} s.</p>',
    ]
    return page(f"{name}: {key}, foretold", body, top=topline("prediction"), description=answer["sentence"])
