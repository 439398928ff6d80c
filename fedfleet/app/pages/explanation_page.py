"""The page that explains a run: what its time went into, and what it would have been without each cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from fedfleet.app.pages.charts.axes import Scale, Ticks, foot_axis, share_ticks, span_ticks
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, figure, line, text
from fedfleet.app.pages.html import details_block, page, table, topline
from fedfleet.app.pages.time_units import linear_time_ticks
from fedfleet.app.runs.causes import NAMES
from fedfleet.app.terminal.text import span
from fedfleet.measure.goal import target_text
from fedfleet.measure.score_info import score_info_of

_ROW, _BAR = 30.0, 16.0
_WHOLE, _GAIN, _LOSS = "a6", "a4", "a2"


@dataclass(frozen=True, slots=True)
class Step:
    """One bar of a waterfall: its ends, its label and its paint."""

    name: str
    start: float
    end: float
    label: str
    kind: str


def explain_page(attribution: str, counterfactuals: dict[str, Any], name: str = "run") -> str:
    """The page of `fedfleet explain`: the figure of where the time went, and what would have been; either may be empty."""
    time_section = ["<h2>What its time went into</h2>", attribution] if attribution else []
    body = [f"<h1>{escape(name)} explained</h1>", *time_section, *_counterfactual_section(counterfactuals)]
    return page(f"FedFleet: {name} explained", body, top=topline(f"run {name}", [("report", "report.html")]))


def _counterfactual_section(answer: dict[str, Any]) -> list[str]:
    """What the run would have been without its causes: two waterfalls and the table of all re-simulations."""
    if not answer.get("counterfactuals"):
        return []
    sections = ["<h2>What it would have been</h2>", f'<p class="lead">{escape(answer["sentence"])}</p>']
    if not answer["present"]:
        return sections
    score = score_info_of(answer)
    target, restricted = target_text(answer["target"], score), any(row["censored"] for row in answer["counterfactuals"])
    note = f" A run that never did counts with {span(answer['horizon'])}, the longest of these runs." if restricted else ""
    seconds, accuracy = _steps(answer, "time_to_accuracy", span), _steps(answer, "accuracy", score.text)
    marks = share_ticks if score.kind.percent else lambda high: span_ticks(0.0, high)
    rows = list[list[str]]()
    for row in answer["counterfactuals"]:
        without = ", ".join(NAMES[cause] for cause in row["without"]) or "nothing (as it was)"
        reached = f"{'not within ' if row['censored'] else ''}{span(row['time_to_accuracy'])}"
        rows.append([without, reached, score.text(row["accuracy"]), span(row["virtual_seconds"])])
    return [
        *sections,
        figure(f"Virtual time until {target}{' accuracy' if score.counts_answers and isinstance(answer['target'], float) else ''}", f"From the run as it was to an ideal fleet: the Shapley value of each cause.{note}",
               lambda sheet: waterfall(seconds, sheet, lambda high: linear_time_ticks(0.0, high, 4)), steps_sentence(seconds)),
        figure(f"{score.title} of the last model", "In the same way.", lambda sheet: waterfall(accuracy, sheet, marks), steps_sentence(accuracy)),
        details_block("All re-simulations", table(["without", "time to accuracy" if score.counts_answers else "time to the target", "last model", "whole run"], rows, words=[0])),
        '<p class="note">Each was simulated with the same seed and the same addressed draws. The reference is an ideal device, the '
        "fleet's fastest, and not the median one. Causes act together: a Shapley value is a cause's effect averaged over all orders "
        "in which the causes could be removed.</p>",
    ]  # fmt: skip


def steps_sentence(steps: Sequence[Step]) -> str:
    """The waterfall in words."""
    return "; ".join(f"{step.name}: {step.label}" for step in steps) + "."


def waterfall(steps: Sequence[Step], sheet: Sheet, marks: Callable[[float], Ticks]) -> Drawing:
    """Lying bars, each beginning where the one above ended; the first and the last stand on zero. Names stand above on phones."""
    low = min(0.0, *(min(s.start, s.end) for s in steps))
    high = max(max(s.start, s.end) for s in steps) or 1.0
    left = 6.0 if sheet.slim else max(width_of(s.name) for s in steps) + 14
    head, row = (18.0, _ROW + 14) if sheet.slim else (0.0, _ROW)
    x, base = Scale(low, high, left, sheet.width - max(width_of(s.label, strong=True) for s in steps) - 12), row * len(steps) + 4
    result = [line(x(at), 0, x(at), base, "grid") for _, at in marks(high)]
    for i, step in enumerate(steps):
        start, end = sorted((x(step.start), x(step.end)))
        top = row * i + head
        y, middle = top + (_ROW - _BAR) / 2, top + _ROW / 2 + 4
        name = text(6, top - 1, step.name, "ink halo") if sheet.slim else text(x.start - 8, middle, step.name, "ink", "end")
        title = "" if sheet.slim else f"{step.name}: {step.label}"
        result += [
            name,
            box(start, y, max(end - start, 1.5), _BAR, step.kind, title),
            text(end + 6, middle, step.label, "strong halo"),
        ]
        if i + 1 < len(steps):  # where the next one goes on
            result.append(line(x(step.end), y + _BAR, x(step.end), y + row, "ref"))
    return Drawing(sheet.width, base + 26, result + foot_axis(x, marks(high), base))


def _steps(answer: dict[str, Any], figure_of: str, format_value: Callable[[float], str]) -> list[Step]:
    """From the run as it was, cause by cause, the greatest first, to what an ideal fleet would have made of it."""
    first, last = answer["counterfactuals"][0], answer["counterfactuals"][-1]
    better = -1.0 if figure_of == "time_to_accuracy" else 1.0
    steps = [Step("as it was", 0.0, first[figure_of], _value_text(first, figure_of, format_value), _WHOLE)]
    at = float(first[figure_of])
    effects = {cause: answer["shapley"][cause][figure_of] for cause in answer["present"]}
    for cause, effect in sorted(effects.items(), key=lambda item: -abs(item[1])):
        sign = "-" if effect < 0 else "+"
        kind = _GAIN if effect * better >= 0 else _LOSS
        steps.append(Step(f"without {NAMES[cause]}", at, at + effect, f"{sign}{format_value(abs(effect))}", kind))
        at += effect
    return [*steps, Step("ideal fleet", 0.0, last[figure_of], _value_text(last, figure_of, format_value), _WHOLE)]


def _value_text(row: dict[str, Any], figure_of: str, format_value: Callable[[float], str]) -> str:
    never = figure_of == "time_to_accuracy" and row["censored"]
    return f"{'over ' if never else ''}{format_value(row[figure_of])}"
