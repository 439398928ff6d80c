"""How hard the fleet is: the metrics of rounds under this run's own pacing, in words, beside what the run saw."""

from __future__ import annotations

from html import escape

import numpy as np

from fedfleet.app.fleets.hardness import share_word, wait_word
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import figure
from fedfleet.app.pages.report.number_words import duration, per_cent
from fedfleet.app.pages.report.report_facts import Facts
from fedfleet.app.pages.time_units import plain_time
from fedfleet.app.terminal.text import size

_METRIC_NAMES = {"Dev": "devices alone", "Stat": "reachability alone", "Inter": "both together"}


def observed_share(f: Facts) -> float | None:
    """What the run itself saw of fair work: reports that were used, none beyond an equal share each."""
    k = f.spec.get("pace", {}).get("cohort")
    rounds = int(f.metrics["rounds"])
    if not k or not rounds or not f.clients:
        return None
    ideal = k * rounds / f.clients
    return float(np.minimum(f.used, ideal).sum() / (k * rounds))


def observed_seconds(f: Facts) -> float | None:
    """How long a round took in the run itself."""
    return f.metrics["virtual_seconds"] / f.metrics["rounds"] if f.metrics["rounds"] else None


def hardness_sentence(f: Facts) -> str:
    """How hard, in a word with its figure; nothing where nothing was measured."""
    h = f.hardness
    if h is None or not h.measures:
        return ""
    name, worst = list(h.measures.items())[-1]
    metric_name = _METRIC_NAMES[name.partition("MC")[0]]
    if name.endswith("-R"):
        word = share_word(h.relative(worst.plain))
        observed = observed_share(f)
        late = ", which uses late reports too," if f.spec.get("pace", {}).get("max_staleness") else ""
        observed_note = "" if observed is None else f"; the run{late} saw {per_cent(observed)}"
        return f"This fleet is {word} under a deadline of {duration(h.settings.deadline)}: {per_cent(worst.plain)} of fair work gets through ({metric_name}){observed_note}."
    usual = float(np.median(f.tasks.seconds[f.tasks.folded_into > 0])) if (f.tasks.folded_into > 0).any() else 0.0
    word = wait_word(worst.plain / usual if usual else 0.0)
    observed = observed_seconds(f)
    observed_note = "" if observed is None else f"; the run saw {plain_time(observed)}"
    usually = f", and a usual task takes {plain_time(usual)}" if usual else ""
    return f"This fleet is {word} to wait for: a round takes {plain_time(worst.plain)} ({metric_name}){usually}{observed_note}."


def hardness_section(f: Facts) -> list[str]:
    """The section: verdict, bars, and what cannot be measured and why; nothing where nothing was measured."""
    h = f.hardness
    if h is None:
        return []
    if not h.measures:
        return ["<h2>How hard is this fleet?</h2>", f"<p>Not measured: {escape(h.missing_reason)}.</p>"]
    by_share = next(iter(h.measures)).endswith("-R")
    observed = observed_share(f) if by_share else observed_seconds(f)
    rows = [
        Bar(f"{_METRIC_NAMES[name.partition('MC')[0]].capitalize()}", [Part(m.plain, "a4", title=f"{name} {m.raw:.4g} (sd over seeds {m.sd:.2g})")], _value_text(m.plain, by_share=by_share), name)
        for name, m in h.measures.items()
    ]  # fmt: skip
    if observed is not None:
        rows.append(Bar("What the run saw", [Part(observed, f"a{f.colour}")], _value_text(observed, by_share=by_share)))
    s = h.settings
    under = f"{s.k} at a time, {s.rounds:,} rounds, {size(1000 * s.size_kb)} each way, {s.samples:,.0f} samples a task, a pause of {duration(s.t_break_asked)}"
    title = (
        f"Deadline of {duration(s.deadline)}: fair work that gets through"
        if by_share
        else "Waiting for all: how long a round takes"
    )
    what = (
        f"Fair work: reports in time, up to an equal share for each. A fleet that is always in time would reach {per_cent(h.ideal)}, since random selection asks some clients more often than others."
        if by_share
        else "Mean time of a round until all clients that were asked are back, pause included."
    )
    note = f"Simulated without training, over three seeds, under this run's own pacing: {under}." + (
        f" {h.missing_reason[0].upper()}{h.missing_reason[1:]}." if h.missing_reason else ""
    )
    note += " The run also has data of different size for each, and rounds that fail; the simulation has neither."
    return [
        "<h2>How hard is this fleet?</h2>",
        f"<p>{escape(hardness_sentence(f))}</p>",
        figure(title, what, lambda sheet: bars(rows, sheet, most=1.0 if by_share else None), hardness_sentence(f), note=note),
    ]


def _value_text(value: float, *, by_share: bool) -> str:
    return per_cent(value) if by_share else plain_time(value)
