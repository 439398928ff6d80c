"""How the model learnt: accuracy in steps over time, models made and bytes, above the reports of each round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, number_ticks
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, figure, line, pictures, stack_below, switch, text
from fedfleet.app.pages.charts.steps import Line, Plot, margins, steps
from fedfleet.app.pages.report.number_words import count_noun
from fedfleet.app.pages.report.report_facts import Facts, Rounds, rounds_of
from fedfleet.app.pages.score_axes import measure_plot, score_plot
from fedfleet.app.terminal.text import span
from fedfleet.core.kinds import SCORE_NAMES
from fedfleet.core.limits import read_target
from fedfleet.core.records import FOLDED, Floats
from fedfleet.measure.accuracy import Curve
from fedfleet.measure.goal import target_of
from fedfleet.measure.measure_info import OWN, MeasureInfo, measure_info

_FALL = 0.1  # accuracy that is lost between two evaluations, to be spoken of
_LEARNT = 0.75  # of the best accuracy: before that, falls are the noise of beginnings
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class Fall:
    """The deepest fall of accuracy: from when to when, from how much to how much."""

    start: float
    end: float
    high: float
    low: float


def deepest_fall(curve: Curve) -> Fall | None:
    """From the peak before it to its lowest point; None if it is less than ten points, or while there was little to lose yet."""
    accuracy = curve.accuracy
    if len(accuracy) < 3:
        return None
    peaks = np.maximum.accumulate(accuracy)
    bottom = int(np.argmax(np.where(peaks >= _LEARNT * peaks[-1], peaks - accuracy, -1.0)))
    if peaks[bottom] - accuracy[bottom] < _FALL:
        return None
    top = int(np.flatnonzero(accuracy[: bottom + 1] == peaks[bottom])[-1])
    return Fall(float(curve.seconds[top]), float(curve.seconds[bottom]), float(accuracy[top]), float(accuracy[bottom]))


def bytes_until(f: Facts, times: Floats) -> Floats:
    """How many bytes had moved by these times: downloads from when tasks were sent, uploads from when they ended."""
    t = f.tasks
    ended = ~np.isnan(t.ended)
    down, up = np.argsort(t.sent, kind="stable"), np.argsort(t.ended[ended], kind="stable")
    downloaded = np.concatenate([[0.0], np.cumsum(t.bytes_down[down])])[np.searchsorted(t.sent[down], times, side="left")]
    uploads = np.searchsorted(t.ended[ended][up], times, side="right")
    return downloaded + np.concatenate([[0.0], np.cumsum(t.bytes_up[ended][up])])[uploads]


def learning_section(f: Facts) -> list[str]:
    """The figure with its three axes; words instead where nothing was evaluated."""
    if not len(f.curve.accuracy):
        return ["<h2>Learning</h2>", f"<p>No model of this run was evaluated, so its {f.score.name} is unknown.</p>"]
    rounds = rounds_of(f.record.progress)
    summary = finding(f)
    over_time = pictures(lambda sheet: _over_time(f, rounds, sheet), summary)
    choices = [(f.clock, over_time)]
    if f.curve.versions.max() > 0:
        by_model = Line(f.score.name, f.curve.versions.tolist(), f.curve.accuracy.tolist(), f.colour, label_text=_final_accuracy(f))
        plot = score_plot(f.score, f.curve.accuracy.tolist(), time=False, label="models made")
        choices.append(("models", pictures(lambda sheet: steps([by_model], sheet, plot), f"By models made: {summary}")))
    moved = bytes_until(f, f.curve.seconds)
    if moved.max(initial=0.0) > 0:
        unit, length = next((u for u in _UNITS if moved.max() >= u[1]), ("B", 1.0))
        by_bytes = Line(f.score.name, (moved / length).tolist(), f.curve.accuracy.tolist(), f.colour, label_text=_final_accuracy(f))
        plot_bytes = score_plot(f.score, f.curve.accuracy.tolist(), time=False, label=f"{unit} moved, down and up")
        choices.append(("bytes", pictures(lambda sheet: steps([by_bytes], sheet, plot_bytes), f"By bytes moved: {summary}")))
    what = "the model" if f.metrics["commits"] else "the first weights"
    what = f"the shared part alone, which no {f.person} uses" if f.personal else what
    measure = _shown_measure(f)
    beside = "" if measure is None else f", its {escape(measure.label)}"
    head = f'<p class="ft">{escape(f.score.title)} of {what}{beside}, and how many reports each round had to learn from</p>'
    # Some round had fewer reports than it asked for, while those who report were asked in the same round.
    shortfall = (rounds.asked >= rounds.used).all() and (rounds.asked > rounds.used).any()
    ticks_note = " Grey ticks: how many were asked." if shortfall else ""
    how = f'<p class="fs">Steps: the model changes at server updates only.{ticks_note}<span class="screen"> Against:</span></p>'
    return ["<h2>Learning</h2>", f"<figure>{head}{how}{switch('against', choices)}</figure>", *_patience(f)]


def _final_accuracy(f: Facts) -> str:
    return f.score.brief(float(f.curve.accuracy[-1]))


def finding(f: Facts) -> str:
    """What the curve shows, in a sentence."""
    accuracy, at, say = f.curve.accuracy, f.curve.seconds, f.score.brief
    best = int(np.argmax(accuracy))
    summary = f"{f.score.title} begins at {say(float(accuracy[0]))}, is highest with {say(float(accuracy[best]))} after {span(float(at[best]))} and ends at {_final_accuracy(f)} after {span(float(at[-1]))}."
    fall = deepest_fall(f.curve)
    if fall:
        summary += f" It falls from {say(fall.high)} to {say(fall.low)} between {span(fall.start)} and {span(fall.end)}."
    summary += _measure_sentence(f)
    failed = int(f.metrics["rounds_failed"])
    return summary + (f" {count_noun(failed, 'round')} failed." if failed else "")


def _over_time(f: Facts, rounds: Rounds, sheet: Sheet) -> Drawing:
    end = float(f.metrics["virtual_seconds"]) or 1.0
    fall = deepest_fall(f.curve)
    accuracy = f.curve.accuracy.tolist()
    line_ = Line(f.score.name, [*f.curve.seconds.tolist(), end], [*accuracy, accuracy[-1]], f.colour, label_text=_final_accuracy(f))
    words: list[str] = []
    if fall and not sheet.slim:
        between = (f.tasks.fate == FOLDED) & (f.tasks.ended > fall.start) & (f.tasks.ended <= fall.end)
        clients = count_noun(len(np.unique(f.tasks.clients[between])), f.person, f.people)
        high = f"{100 * fall.high:.0f}" if f.score.kind.percent else f.score.brief(fall.high)
        words = [f"from {clients} it learnt here:", f"{f.score.name} falls from {high} to {f.score.brief(fall.low)}"]
    shade = (fall.start, fall.end) if fall else None
    goal, measure = target_of(f.spec.get("stop", {})), _shown_measure(f)
    refs = [(goal, f"target: {f.score.brief(goal)}")] if isinstance(goal, float) else []
    label = "" if len(rounds.number) or measure is not None else f.clock
    plot = score_plot(f.score, accuracy, last=end, shade=shade, words=words, label=label, refs=refs)
    left, right = margins([line_], sheet, plot)  # what stands below has the same axis of time
    if measure is None:
        below = []
    else:
        one, below_plot = _measure_line(f, measure, end)
        below_plot = replace(below_plot, label="" if len(rounds.number) else f.clock)
        sides = margins([one], sheet, below_plot)
        left, right = max(left, sides[0]), max(right, sides[1])
        plot = replace(plot, left=left, right=right)
        below = [steps([one], sheet, replace(below_plot, left=left, right=right))]
    above_ = stack_below(steps([line_], sheet, plot), *below, gap=-16) if below else steps([line_], sheet, plot)
    if not len(rounds.number):
        return above_
    return stack_below(above_, _reports(f, rounds, Scale(0.0, end, left, sheet.width - right), sheet), gap=-16)


def _shown_measure(f: Facts) -> MeasureInfo | None:
    """The measure beside the score: that of the target of the run, else the main one of its kind of task; None if it has none."""
    goal = target_of(f.spec.get("stop", {}))
    parsed = read_target(goal) if isinstance(goal, str) else None
    name = f.score.kind.main if parsed is None or parsed[0] in SCORE_NAMES else parsed[0].removeprefix(OWN)
    values = f.curve.measures.get(name)
    return measure_info(name, f.score) if values is not None and np.isfinite(values).any() else None


def _known_values(f: Facts, info: MeasureInfo) -> tuple[list[float], list[float]]:
    """When this measure was known, and what it was."""
    values = f.curve.measures[info.name]
    known = np.isfinite(values)
    return f.curve.seconds[known].tolist(), values[known].tolist()


def _measure_sentence(f: Facts) -> str:
    """From where to where the measure beside the score went."""
    info = _shown_measure(f)
    if info is None:
        return ""
    _, values = _known_values(f, info)
    best = min(values) if info.lower else max(values)
    how = "lowest" if info.lower else "highest"
    label = info.label[:1].upper() + info.label[1:]
    return f" {label} begins at {info.text(values[0])}, is {how} with {info.text(best)} and ends at {info.text(values[-1])}."


def _measure_line(f: Facts, info: MeasureInfo, end: float) -> tuple[Line, Plot]:
    """The panel of that measure, with the target if the run has one for it."""
    times, values = _known_values(f, info)
    goal = target_of(f.spec.get("stop", {}))
    parsed = read_target(goal) if isinstance(goal, str) else None
    refs = [(parsed[2], f"target: {info.text(parsed[2])}")] if parsed and parsed[0].removeprefix(OWN) == info.name else []
    better = "less is better" if info.lower else "more is better"
    one = Line(info.label, [*times, end], [*values, values[-1]], 5, label_text=info.text(values[-1]))
    return one, measure_plot(info, values, last=end, height=120.0, refs=refs, title=f"{info.label} ({better})")


def _reports(f: Facts, rounds: Rounds, x: Scale, sheet: Sheet) -> Drawing:
    """A column for each round at the moment it closed, a grey tick for how many were asked; failed rounds by name if they are few."""
    wave_by_wave = bool((rounds.asked >= rounds.used).all())  # else those who report were asked in another round
    highest = int(max(rounds.used.max(initial=1), rounds.asked.max(initial=1) if wave_by_wave else 1))
    y = Scale(0.0, highest, 78.0, 24.0)
    asked_note = f" of up to {highest:,} asked" if wave_by_wave else ""
    result = [text(0, 12, f"reports used in each round{asked_note}"), line(x.start, y.start, x.end, y.start, "axis")]
    result += [text(x.start - 7, y(v) + 4, said, anchor="end") for said, v in number_ticks(highest, 2)]
    order = np.unique(np.linspace(0, len(rounds.number) - 1, min(len(rounds.number), 420)).astype(np.int64)).tolist()
    thick = min(max((x.end - x.start) / max(len(order), 1) * 0.62, 0.8), 7.0)
    bars, ticks = list[str](), list[str]()
    for i in order:
        at, used = max(x.start, x(rounds.closed[i]) - thick), int(rounds.used[i])
        if used:
            bars.append(f"M{at:.1f} {y.start:.1f}V{y(used):.1f}h{thick:.1f}V{y.start:.1f}Z")
        if asked_note and rounds.asked[i] > used:
            ticks.append(f"M{at:.1f} {y(int(rounds.asked[i])):.1f}h{thick:.1f}")
    result.append(f'<path d="{"".join(bars)}" class="a{f.colour}"/>')
    result.append(f'<path d="{"".join(ticks)}" class="s6" fill="none" stroke-width="1.6"/>')
    failed = np.flatnonzero(rounds.failed).tolist()
    result += [box(max(x.start, x(rounds.closed[i]) - thick), y.start + 2, max(thick, 2.0), 4, "late-area") for i in failed[:400]]
    # Which rounds failed: under the mark of the only one; of several at the right end, on phones below.
    if len(failed) == 1:
        words = f"round {rounds.number[failed[0]] + 1} failed"
        at, half = x(rounds.closed[failed[0]]) - thick / 2, width_of(words, strong=True) / 2
        result.append(text(min(max(at, half), sheet.width - half), y.start + 20, words, "strong", "middle"))
    elif failed:
        words = f"hatched: {len(failed):,} rounds failed"
        result.append(text(0, y.start + 20, words, "strong") if sheet.slim else text(x.end, 12, words, "strong", "end"))
    return Drawing(sheet.width, y.start + (24 if failed and (sheet.slim or len(failed) == 1) else 10), result)


def _patience(f: Facts) -> list[str]:
    """How a policy's patience changed, if it did."""
    result = list[str]()
    for name, line_ in dict(f.metrics.get("pace_timelines") or {}).items():
        if len(line_) > 1:
            x, y = [float(t) for t, _ in line_], [float(s) for _, s in line_]
            end = float(f.metrics["virtual_seconds"])
            one = Line(name, [*x, end], [*y, y[-1]], 5, label_text=f"{y[-1]:,.0f} s")
            plot = Plot(shares=False, height=130.0, last=end)
            summary = f"{name} goes from {y[0]:,.0f} to {y[-1]:,.0f} seconds, between {min(y):,.0f} and {max(y):,.0f}."
            result.append(figure(
                f"How long the policy waits: {name}", "Seconds; longer after silence, shorter after quiet rounds",
                lambda sheet, one=one, plot=plot: steps([one], sheet, plot), summary,
            ))  # fmt: skip
    return result
