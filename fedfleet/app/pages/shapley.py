"""The page that explains a run: what its time went into, and what it would have been without each cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from fedfleet.app.pages.html import figure, page, table
from fedfleet.app.pages.svg import WIDTH, Axis, number, ticks
from fedfleet.app.runs.causes import NAMES
from fedfleet.app.terminal.text import percent, span

_LEFT, _RIGHT, _TOP, _ROW, _BAR = 180, 96, 8, 30, 16
_WHOLE, _GAIN, _LOSS = "var(--c1)", "var(--c4)", "var(--c2)"


@dataclass(frozen=True, slots=True)
class Step:
    """One bar of a waterfall: from where to where, what it says beside it, and its colour."""

    name: str
    start: float
    end: float
    said: str
    colour: str


def explain_page(attribution: str, counterfactuals: dict[str, Any], name: str = "run") -> str:
    """The page of `fedfleet explain`: the figure of where the time went, and what would have been; either may be empty."""
    went = ["<h2>What its time went into</h2>", attribution] if attribution else []
    body = [f"<h1>{escape(name)} explained</h1>", *went, *counterfactual_section(counterfactuals)]
    return page(f"FedFleet: {name} explained", body)


def counterfactual_section(found: dict[str, Any]) -> list[str]:
    """What the run would have been without its causes: two waterfalls and the table of all re-simulations."""
    if not found.get("counterfactuals"):
        return []
    said = ["<h2>What it would have been</h2>", f'<p class="lead">{escape(found["sentence"])}</p>']
    if not found["present"]:
        return said
    target, restricted = percent(found["target"]), any(row["censored"] for row in found["counterfactuals"])
    note = (
        f" A run that never did counts with {span(found['horizon'])}, the longest of these runs." if restricted else ""
    )
    return [
        *said,
        figure(waterfall(_steps(found, "time_to_accuracy", span), axis="virtual seconds"), f"Virtual time until {target} accuracy, from the "
               f"run as it was to an ideal fleet: the Shapley value of each cause.{note}"),
        figure(waterfall(_steps(found, "accuracy", percent), axis="accuracy"), "Accuracy of the last model, in the same way."),
        "<details><summary>All re-simulations</summary>", _rows(found), "</details>",
        '<p class="note">Each was simulated with the same seed and the same addressed draws. The reference is an ideal device, the '
        "fleet's fastest, and not the median one. Causes act together: a Shapley value is a cause's effect averaged over all orders "
        "in which the causes could be removed.</p>",
    ]  # fmt: skip


def waterfall(steps: Sequence[Step], *, axis: str) -> str:
    """Horizontal bars, each beginning where the one above ended; the first and the last stand on zero."""
    low = min(0.0, *(min(s.start, s.end) for s in steps))
    high = max(max(s.start, s.end) for s in steps) or 1.0
    x, base = Axis(low, high, _LEFT, WIDTH - _RIGHT), _TOP + _ROW * len(steps)
    parts = [f'<line x1="{x.start}" x2="{x.end}" y1="{base}" y2="{base}" class="axis"/>']
    for t in ticks(low, high, 6):
        parts.append(f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{_TOP}" y2="{base}" class="grid"/>')
        parts.append(f'<text x="{x(t):.1f}" y="{base + 16}" class="tick" text-anchor="middle">{number(t)}</text>')
    middle = (x.start + x.end) / 2
    parts.append(f'<text x="{middle:.1f}" y="{base + 34}" class="label" text-anchor="middle">{escape(axis)}</text>')
    for i, step in enumerate(steps):
        parts += _bar(step, x, _TOP + _ROW * i)
        if i + 1 < len(steps):  # where the next one goes on
            at, y = x(step.end), _TOP + _ROW * i + (_ROW + _BAR) / 2
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y:.1f}" y2="{y + _ROW - _BAR:.1f}" class="mark"/>')
    return f'<svg viewBox="0 0 {WIDTH} {base + 42}" role="img">{"".join(parts)}</svg>'


def _bar(step: Step, x: Axis, top: float) -> list[str]:
    left, right = sorted((x(step.start), x(step.end)))
    y, text = top + (_ROW - _BAR) / 2, top + _ROW / 2 + 4
    title = escape(f"{step.name}: {step.said}")
    return [
        f'<text x="{_LEFT - 8}" y="{text:.1f}" class="tick" text-anchor="end">{escape(step.name)}</text>',
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(right - left, 1.5):.1f}" height="{_BAR}" rx="2" fill="{step.colour}">'
        f"<title>{title}</title></rect>",
        f'<text x="{right + 6:.1f}" y="{text:.1f}" class="tick">{escape(step.said)}</text>',
    ]


def _steps(found: dict[str, Any], figure_of: str, say: Callable[[float], str]) -> list[Step]:
    """From the run as it was, cause by cause, the greatest first, to what an ideal fleet would have made of it."""
    first, last = found["counterfactuals"][0], found["counterfactuals"][-1]
    better = -1.0 if figure_of == "time_to_accuracy" else 1.0
    steps = [Step("as it was", 0.0, first[figure_of], _whole(first, figure_of, say), _WHOLE)]
    at = float(first[figure_of])
    effects = {cause: found["shapley"][cause][figure_of] for cause in found["present"]}
    for cause, effect in sorted(effects.items(), key=lambda item: -abs(item[1])):
        sign = "-" if effect < 0 else "+"
        colour = _GAIN if effect * better >= 0 else _LOSS
        steps.append(Step(f"without {NAMES[cause]}", at, at + effect, f"{sign}{say(abs(effect))}", colour))
        at += effect
    return [*steps, Step("ideal fleet", 0.0, last[figure_of], _whole(last, figure_of, say), _WHOLE)]


def _whole(row: dict[str, Any], figure_of: str, say: Callable[[float], str]) -> str:
    never = figure_of == "time_to_accuracy" and row["censored"]
    return f"{'over ' if never else ''}{say(row[figure_of])}"


def _rows(found: dict[str, Any]) -> str:
    rows = [
        [
            ", ".join(NAMES[cause] for cause in row["without"]) or "nothing (as it was)",
            f"{'not within ' if row['censored'] else ''}{span(row['time_to_accuracy'])}",
            percent(row["accuracy"]),
            span(row["virtual_seconds"]),
        ]
        for row in found["counterfactuals"]
    ]
    return table(["without", "time to accuracy", "last model", "whole run"], rows, words=[0])
