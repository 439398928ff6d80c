"""How the model learnt: accuracy in steps over time, models made and bytes, above the reports of each round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, number_ticks
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, figure, line, pictures, stack_below, switch, text
from fedfleet.app.pages.charts.steps import Line, Plot, margins, steps
from fedfleet.app.pages.report.number_words import count_noun, per_cent
from fedfleet.app.pages.report.report_facts import Facts, Rounds, rounds_of
from fedfleet.app.terminal.text import span
from fedfleet.core.records import FOLDED, Floats
from fedfleet.measure.accuracy import Curve

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
        return ["<h2>Learning</h2>", "<p>No model of this run was evaluated, so its accuracy is unknown.</p>"]
    rounds = rounds_of(f.record.progress)
    summary = finding(f)
    over_time = pictures(lambda sheet: _over_time(f, rounds, sheet), summary)
    choices = [(f.clock, over_time)]
    if f.curve.versions.max() > 0:
        by_model = Line("accuracy", f.curve.versions.tolist(), f.curve.accuracy.tolist(), f.colour, label_text=_final_accuracy(f))
        plot = Plot(time=False, label="models made")
        choices.append(("models", pictures(lambda sheet: steps([by_model], sheet, plot), f"By models made: {summary}")))
    moved = bytes_until(f, f.curve.seconds)
    if moved.max(initial=0.0) > 0:
        unit, length = next((u for u in _UNITS if moved.max() >= u[1]), ("B", 1.0))
        by_bytes = Line("accuracy", (moved / length).tolist(), f.curve.accuracy.tolist(), f.colour, label_text=_final_accuracy(f))
        plot_bytes = Plot(time=False, label=f"{unit} moved, down and up")
        choices.append(("bytes", pictures(lambda sheet: steps([by_bytes], sheet, plot_bytes), f"By bytes moved: {summary}")))
    what = "the model" if f.metrics["commits"] else "the first weights"
    what = f"the shared part alone, which no {f.person} uses" if f.personal else what
    head = f'<p class="ft">Accuracy of {what}, and how many reports each round had to learn from</p>'
    # Some round had fewer reports than it asked for, while those who report were asked in the same round.
    shortfall = (rounds.asked >= rounds.used).all() and (rounds.asked > rounds.used).any()
    ticks_note = " Grey ticks: how many were asked." if shortfall else ""
    how = f'<p class="fs">Steps: the model changes at server updates only.{ticks_note}<span class="screen"> Against:</span></p>'
    return ["<h2>Learning</h2>", f"<figure>{head}{how}{switch('against', choices)}</figure>", *_patience(f)]


def _final_accuracy(f: Facts) -> str:
    return per_cent(float(f.curve.accuracy[-1]))


def finding(f: Facts) -> str:
    """What the curve shows, in a sentence."""
    accuracy, at = f.curve.accuracy, f.curve.seconds
    best = int(np.argmax(accuracy))
    summary = f"Accuracy begins at {per_cent(float(accuracy[0]))}, is highest with {per_cent(float(accuracy[best]))} after {span(float(at[best]))} and ends at {_final_accuracy(f)} after {span(float(at[-1]))}."
    fall = deepest_fall(f.curve)
    if fall:
        summary += f" It falls from {per_cent(fall.high)} to {per_cent(fall.low)} between {span(fall.start)} and {span(fall.end)}."
    failed = int(f.metrics["rounds_failed"])
    return summary + (f" {count_noun(failed, 'round')} failed." if failed else "")


def _over_time(f: Facts, rounds: Rounds, sheet: Sheet) -> Drawing:
    end = float(f.metrics["virtual_seconds"]) or 1.0
    fall = deepest_fall(f.curve)
    accuracy = f.curve.accuracy.tolist()
    line_ = Line("accuracy", [*f.curve.seconds.tolist(), end], [*accuracy, accuracy[-1]], f.colour, label_text=_final_accuracy(f))
    words: list[str] = []
    if fall and not sheet.slim:
        between = (f.tasks.fate == FOLDED) & (f.tasks.ended > fall.start) & (f.tasks.ended <= fall.end)
        clients = count_noun(len(np.unique(f.tasks.clients[between])), f.person, f.people)
        words = [f"from {clients} it learnt here:", f"accuracy falls from {100 * fall.high:.0f} to {per_cent(fall.low)}"]
    shade = (fall.start, fall.end) if fall else None
    plot = Plot(last=end, shade=shade, words=words, label="" if len(rounds.number) else f.clock)
    above_ = steps([line_], sheet, plot)
    if not len(rounds.number):
        return above_
    left, right = margins([line_], sheet, plot)  # the reports stand on the same axis of time
    return stack_below(above_, _reports(f, rounds, Scale(0.0, end, left, sheet.width - right), sheet), gap=-16)


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
