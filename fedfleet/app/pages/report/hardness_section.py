"""How hard the fleet is: the metrics of rounds under this run's own pacing, in words, beside what the run saw."""

from __future__ import annotations

from html import escape

import numpy as np

from fedfleet.app.fleets.hardness import share_word, wait_word
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import both, figure
from fedfleet.app.pages.report.number_words import duration, per_cent
from fedfleet.app.pages.report.report_facts import Facts
from fedfleet.app.pages.time_units import plain
from fedfleet.app.terminal.text import size

_LOOKS = {"Dev": "devices alone", "Stat": "reachability alone", "Inter": "both together"}


def seen_share(f: Facts) -> float | None:
    """What the run itself saw of fair work: reports that were used, none beyond an equal share each."""
    k = f.spec.get("pace", {}).get("cohort")
    rounds = int(f.metrics["rounds"])
    if not k or not rounds or not f.clients:
        return None
    ideal = k * rounds / f.clients
    return float(np.minimum(f.used, ideal).sum() / (k * rounds))


def seen_seconds(f: Facts) -> float | None:
    """How long a round took in the run itself."""
    return f.metrics["virtual_seconds"] / f.metrics["rounds"] if f.metrics["rounds"] else None


def verdict(f: Facts) -> str:
    """How hard, in a word with its figure; nothing where nothing was measured."""
    h = f.hardness
    if h is None or not h.measures:
        return ""
    name, worst = list(h.measures.items())[-1]
    looks = _LOOKS[name.partition("MC")[0]]
    if name.endswith("-R"):
        word = share_word(h.relative(worst.plain))
        seen = seen_share(f)
        late = ", which uses late reports too," if f.spec.get("pace", {}).get("max_staleness") else ""
        saw = "" if seen is None else f"; the run{late} saw {per_cent(seen)}"
        return f"This fleet is {word} under a deadline of {duration(h.settings.deadline)}: {per_cent(worst.plain)} of fair work gets through ({looks}){saw}."
    usual = float(np.median(f.tasks.seconds[f.tasks.folded_into > 0])) if (f.tasks.folded_into > 0).any() else 0.0
    word = wait_word(worst.plain / usual if usual else 0.0)
    seen = seen_seconds(f)
    saw = "" if seen is None else f"; the run saw {plain(seen)}"
    usually = f", and a usual task takes {plain(usual)}" if usual else ""
    return f"This fleet is {word} to wait for: a round takes {plain(worst.plain)} ({looks}){usually}{saw}."


def hard_section(f: Facts) -> list[str]:
    """The section: verdict, bars, and what cannot be measured and why; nothing where nobody tried."""
    h = f.hardness
    if h is None:
        return []
    if not h.measures:
        return ["<h2>How hard is this fleet?</h2>", f"<p>Not measured: {escape(h.why_not)}.</p>"]
    by_share = next(iter(h.measures)).endswith("-R")
    seen = seen_share(f) if by_share else seen_seconds(f)
    rows = [
        Bar(f"{_LOOKS[name.partition('MC')[0]].capitalize()}", [Part(m.plain, "a4", title=f"{name} {m.raw:.4g} (sd over seeds {m.sd:.2g})")], _said(m.plain, by_share=by_share), name)
        for name, m in h.measures.items()
    ]  # fmt: skip
    if seen is not None:
        rows.append(Bar("What the run saw", [Part(seen, f"a{f.colour}")], _said(seen, by_share=by_share)))
    s = h.settings
    under = f"{s.k} at a time, {s.rounds:,} rounds, {size(1000 * s.size_kb)} each way, {s.samples:,.0f} samples a task, a pause of {duration(s.t_break_asked)}"
    title = (
        f"Deadline of {duration(s.deadline)}: fair work that gets through"
        if by_share
        else "Waiting for all: how long a round takes"
    )
    what = (
        f"Fair work: reports in time, up to an equal share for each. Everybody, always in time, would come to {per_cent(h.ideal)}, since chance asks some more often than others."
        if by_share
        else "Mean time of a round until all who were asked are back, pause included."
    )
    note = f"Simulated without training, over three seeds, under this run's own pacing: {under}." + (
        f" {h.why_not[0].upper()}{h.why_not[1:]}." if h.why_not else ""
    )
    note += " The run also has data of different size for each, and rounds that fail; the simulation has neither."
    return [
        "<h2>How hard is this fleet?</h2>",
        f"<p>{escape(verdict(f))}</p>",
        figure(
            title, what, *both(lambda sheet: bars(rows, sheet, most=1.0 if by_share else None)), verdict(f), note=note
        ),
    ]


def _said(value: float, *, by_share: bool) -> str:
    return per_cent(value) if by_share else plain(value)
