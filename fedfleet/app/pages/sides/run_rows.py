"""The table of runs: one row for each side, each of its seeds leading to the report of its run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

from fedfleet.app.pages.html import bind_units
from fedfleet.app.pages.score_axes import score_limits
from fedfleet.app.pages.sides.comparison_words import capitalise, mean_count, score_range, time_range, time_text, whole_percent
from fedfleet.app.pages.sides.page_runs import PageRun, Side, clock_name
from fedfleet.app.terminal.text import size
from fedfleet.measure.goal import Target, target_text
from fedfleet.measure.measure_info import main_measure
from fedfleet.measure.score_info import MINUS, ScoreInfo
from fedfleet.measure.statistics.means import mean_of
from fedfleet.measure.statistics.survival import median_time

_TOTAL = {
    "virtual time": "Virtual time: computed from links, computing speeds and reachability.",
    "real time": "Real time: from the start of the server to its end; while it was down, its clock stood still.",
    "time": "Real time of runs that were served, virtual time of the others: the two are not comparable.",
}
_TAG = re.compile("<[^>]*>")
_LONG = 40  # letters of a row's name that may break
_IN_A_LINE = 5  # seeds that stay on one line


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column: its words, a gloss shown on hover, and whether it holds words or a drawing."""

    title: str
    gloss: str = ""
    kind: str = ""


def html_table(heads: Sequence[Head], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are HTML already; on phones each row becomes a block that carries the words of the head."""

    def head(one: Head) -> str:
        text = escape(one.title)
        kind = f' class="{one.kind}"' if one.kind else ""
        return f'<th scope="col"{kind}>{f"<abbr title={_quote(one.gloss)}>{text}</abbr>" if one.gloss else text}</th>'

    def cell(i: int, inside: str) -> str:
        long = not i and len(_TAG.sub("", inside)) > _LONG
        kind = f' class="{heads[i].kind or "long"}"' if heads[i].kind or long else ""
        label = f" data-h={_quote(heads[i].title)}" if i and heads[i].title else ""
        return f"<td{kind}{label}>{bind_units(inside)}</td>"

    lines = "".join(f"<tr>{''.join(cell(i, inside) for i, inside in enumerate(row))}</tr>" for row in rows)
    return f'<table class="rows"><thead><tr>{"".join(map(head, heads))}</tr></thead><tbody>{lines}</tbody></table>'


def _quote(text: str) -> str:
    return f'"{escape(text, quote=True)}"'


def runs_table(sides: Sequence[Side], *, target: Target | None = None) -> str:
    """Every side with what it reached, how long it took, who was left out and what it moved."""
    several, time_label = any(len(side.runs) > 1 for side in sides), clock_name(sides)
    score = sides[0].score if sides else ScoreInfo()
    main = main_measure(score)
    limits = score_limits(score, [one.last for side in sides for one in side.runs if one.last is not None])
    ends = "0 .. 100 %" if score.kind.percent else f"{limits[0]:g} .. {limits[1]:g}".replace("-", MINUS)
    goal = "" if target is None else score.brief(target) if isinstance(target, float) else target_text(target, score)
    heads = [
        Head("run"),
        Head(score.name, "Of the last model, on test data that no client trains on; the mean over seeds, and from lowest to highest."),
        Head(ends, kind="strip"),
        *([Head(main.label, f"Of the last model, on the same test data: {'less' if main.lower else 'more'} is better; the mean over seeds.")] if main else []),
        Head("worst tenth", f"{score.title} of the 10th-percentile client on its own test data: nine in ten clients do better."),
        *([Head(f"time to {goal}", f"{capitalise(time_label)} until the model first had this {score.name if isinstance(target, float) else 'figure'}; over several seeds the Kaplan-Meier median, which counts runs that never did.")] if target else []),
        Head("total time", _TOTAL[time_label]),
        Head("never took part", "Clients whose reports entered no model, of all; the mean over seeds."),
        Head("reports in time", "Reports that entered a model, of all that were asked for."),
        Head("traffic", "Bytes to and from devices, wasted ones included; the mean over seeds."),
        *([Head("seeds", "Each opens the report of its run.", "words")] if several else []),
    ]  # fmt: skip
    return html_table(heads, [_row(side, target, limits, several=several) for side in sides])


def _row(side: Side, target: Target | None, limits: tuple[float, float], *, several: bool) -> list[str]:
    runs, name, score = side.runs, escape(side.label), side.score
    main = main_measure(score)
    used = sum(int(one.used.sum()) for one in runs)
    asked = used + sum(int(one.late.sum()) for one in runs)
    return [
        f'<a href="{escape(side.link, quote=True)}" title="Open the report of this run">{name}</a>' if side.link else name,
        accuracy_cell([one.last for one in runs if one.last is not None], score) if any(one.first is not None for one in runs) else "no model",
        strip([one.last for one in runs if one.last is not None], side.colour, limits),
        *([escape(_mean([one for one in runs if one.first is not None], lambda one: _last(one, main.name), main.text))] if main else []),
        escape(_mean([one for one in runs if one.first is not None], lambda one: one.metrics.get("accuracy_bottom10"), score.brief)),
        *([escape(time_to(runs, target))] if target else []),
        escape(time_range([one.end for one in runs])),
        f"{mean_count(fmean(float((one.used == 0).sum()) for one in runs))} of {max(len(one.used) for one in runs):,}",
        escape(whole_percent(used / asked) if asked else "-"),
        escape(_mean(runs, lambda one: float(one.metrics["bytes_up"]) + float(one.metrics["bytes_down"]), size)),
        *([seed_links(runs)] if several else []),
    ]  # fmt: skip


def _last(run: PageRun, name: str) -> float | None:
    """A measure of the last model."""
    value = (run.metrics.get("measures") or {}).get(name)
    return None if value is None else float(value)


def accuracy_cell(values: Sequence[float], score: ScoreInfo = ScoreInfo()) -> str:  # noqa: B008 (a frozen record)
    """The mean in bold, and the lowest and highest seed."""
    if not values:
        return "not evaluated"
    mean = mean_of(values, least=score.least, most=1.0)
    if len(values) == 1:
        return f"<b>{score.text(mean.value)}</b>"
    low, high = ("-" if end is None else score.text(end) for end in (mean.low, mean.high))
    title = f"95 % interval of the mean {low} to {high} over {mean.n} seeds"
    return f'<b title="{title}">{score.text(mean.value)}</b> <span class="soft line">{score_range(score, values)}</span>'


def strip(values: Sequence[float], colour: int, limits: tuple[float, float] = (0.0, 1.0)) -> str:
    """The seeds as dots on a line, of percentages from 0 to 100 %; the table says the same in figures."""
    low, high = limits
    places = [min(max((v - low) / (high - low), 0.0), 1.0) for v in values]
    marks = "".join(f'<circle cx="{2 + 96 * v:.1f}" cy="6" r="3.2" class="a{colour} see"/>' for v in places)
    return f'<svg viewBox="0 0 100 12" aria-hidden="true"><path d="M2 6H98" class="grid"/>{marks}</svg>'


def time_to(runs: Sequence[PageRun], target: Target) -> str:
    """When the target was reached: of one run its time, of several their median with how many never did."""
    reach_times = [one.seconds_to(target) for one in runs]
    missing = sum(result is None for result in reach_times)
    watched = [one.end if found is None else found for one, found in zip(runs, reach_times, strict=True)]
    middle = median_time(watched, [found is not None for found in reach_times])
    if middle is None:
        return "never" if missing == len(runs) else f"never in {missing} of {len(runs)}"
    return time_text(middle) + (f" (never in {missing} of {len(runs)})" if missing else "")


def seed_links(runs: Sequence[PageRun]) -> str:
    """Each seed as a link to the report of its run."""
    links = [f'<a href="{escape(one.link, quote=True)}">{escape(one.seed)}</a>' if one.link else escape(one.seed) for one in runs]
    return " ".join(links) if len(links) > _IN_A_LINE else f'<span class="one">{" ".join(links)}</span>'


def _mean(runs: Sequence[PageRun], value: Callable[[PageRun], float | None], format_value: Callable[[float], str]) -> str:
    result = [v for one in runs if (v := value(one)) is not None]
    return format_value(fmean(result)) if result else "-"
