"""How hard fleets are under the pacing of their own runs, beside what the runs saw: of one run, and of several in a table.

Fair work that gets through before a deadline, or the time of a round that waits for all, from simulations without training.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

import numpy as np

from fedfleet.app.fleets.hardness import Hardness, hardness, rules_of, share_word, wait_word
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import figure
from fedfleet.app.pages.html import bind_units
from fedfleet.app.pages.report.number_words import duration, per_cent
from fedfleet.app.pages.report.report_facts import Facts
from fedfleet.app.pages.sides.comparison_words import count_words, time_text, whole_percent
from fedfleet.app.pages.sides.page_runs import PageRun, Side
from fedfleet.app.pages.sides.run_rows import Head, html_table
from fedfleet.app.pages.sides.verdicts import verdict_item
from fedfleet.app.pages.time_units import plain_time
from fedfleet.app.spec import load_spec
from fedfleet.app.terminal.text import size
from fedfleet.core.errors import FedFleetError
from fedfleet.core.records import Ints

_METRIC_NAMES = {"Dev": "devices alone", "Stat": "reachability alone", "Inter": "both together"}
_SEEDS = 3  # runs of a side that are measured
_MOST = 12  # rows of a table: more would keep the reader of the page waiting
_SHORT = 20  # letters of a name with which a table has room in half of the page
_METRICS = {"DevMC": "devices alone", "StatMC": "reachability alone", "InterMC": "both"}
FAIR = "Reports of each client count up to an equal share of all rounds; if all were always in time, this would come near 100 %, the nearer the more rounds."


def observed_share(used: Ints, cohort: float, rounds: int) -> float | None:
    """What a run itself saw of fair work: reports of each client that were used, none beyond an equal share each."""
    total = cohort * rounds
    return float(np.minimum(used, total / len(used)).sum() / total) if total and len(used) else None


def observed(f: Facts, *, by_share: bool) -> float | None:
    """What the run itself saw: its share of fair work, or how long a round took."""
    rounds = int(f.metrics["rounds"])
    if by_share:
        return observed_share(f.used, f.spec.get("pace", {}).get("cohort") or 0, rounds)
    return f.metrics["virtual_seconds"] / rounds if rounds else None


def hardness_sentence(f: Facts) -> str:
    """How hard, in a word with its figure; nothing where nothing was measured."""
    h = f.hardness
    if h is None or not h.measures:
        return ""
    name, worst = list(h.measures.items())[-1]
    metric_name = _METRIC_NAMES[name.partition("MC")[0]]
    if name.endswith("-R"):
        word = share_word(h.relative(worst.plain))
        seen, late = (
            observed(f, by_share=True),
            ", which uses late reports too," if f.spec.get("pace", {}).get("max_staleness") else "",
        )
        observed_note = "" if seen is None else f"; the run{late} saw {per_cent(seen)}"
        return f"This fleet is {word} under a deadline of {duration(h.settings.deadline)}: {per_cent(worst.plain)} of fair work gets through ({metric_name}){observed_note}."
    usual = float(np.median(f.tasks.seconds[f.tasks.folded_into > 0])) if (f.tasks.folded_into > 0).any() else 0.0
    word = wait_word(worst.plain / usual if usual else 0.0)
    seen = observed(f, by_share=False)
    observed_note = "" if seen is None else f"; the run saw {plain_time(seen)}"
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
    seen, value_text, rows = observed(f, by_share=by_share), per_cent if by_share else plain_time, list[Bar]()
    for name, m in h.measures.items():
        part = Part(m.plain, "a4", title=f"{name} {m.raw:.4g} (sd over seeds {m.sd:.2g})")
        rows.append(Bar(_METRIC_NAMES[name.partition("MC")[0]].capitalize(), [part], value_text(m.plain), name))
    if seen is not None:
        rows.append(Bar("What the run saw", [Part(seen, f"a{f.colour}")], value_text(seen)))
    s = h.settings
    under = f"{s.k} at a time, {s.rounds:,} rounds, {size(1000 * s.size_kb)} each way, {s.samples:,.0f} samples a task, a pause of {duration(s.t_break_asked)}"
    title, what = (
        "Waiting for all: how long a round takes",
        "Mean time of a round until all clients that were asked are back, pause included.",
    )
    if by_share:
        title = f"Deadline of {duration(s.deadline)}: fair work that gets through"
        what = f"Fair work: reports in time, up to an equal share for each. A fleet that is always in time would reach {per_cent(h.ideal)}, since random selection asks some clients more often than others."
    missing = f" {h.missing_reason[0].upper()}{h.missing_reason[1:]}." if h.missing_reason else ""
    note = f"Simulated without training, over three seeds, under this run's own pacing: {under}.{missing} The run also has data of different size for each, and rounds that fail; the simulation has neither."
    return [
        "<h2>How hard is this fleet?</h2>",
        f"<p>{escape(hardness_sentence(f))}</p>",
        figure(title, what, lambda sheet: bars(rows, sheet, most=1.0 if by_share else None), hardness_sentence(f), note=note),
    ]


@dataclass(frozen=True, slots=True)
class SideHardness:
    """One side's fleet: what the metrics come to (DevMC, StatMC, InterMC), the mean over fleets; what its runs saw; raw values.

    `name` is unique among the rows: that of the group, or of the sides that have this fleet and this pacing.
    """

    name: str
    side: Side
    plain: Mapping[str, float]
    raw: Mapping[str, float]
    observed: float
    deadline: str  # the deadline; empty where a round waits
    ideal: float = 1.0  # the share of an ideal fleet in as many rounds
    colour: int = 0  # of all its sides; none where these differ


def fleets_section(sides: Sequence[Side]) -> str:
    """The section; nothing where no pacing has a meaning for the metrics."""
    sides = [side for side in sides if not any(one.served for one in side.runs)]  # real devices are not what a spec says
    shares, waits = measure_sides(sides, by_deadline=True), measure_sides(sides, by_deadline=False)
    if not shares and not waits:
        return ""
    fleets = {(hard.side.group, _fleet(hard.side)) for hard in (*shares, *waits)}
    parts = ["<h2>How hard are these fleets?</h2>" if len(fleets) > 1 else "<h2>How hard is this fleet?</h2>"]
    parts.append(
        "<p>Six <abbr title=\"FLHetBench's Monte-Carlo metrics DevMC, StatMC and InterMC; R with a deadline, T waiting. Point at a figure for "
        'its raw value.">simulations without training</abbr>, with the deadline, cohort size, work of a task and length of these '
        "runs, in plain units.</p>"
    )
    deadlines = {hard.deadline for hard in shares}
    until = f"Deadline of {next(iter(deadlines))}" if len(deadlines) == 1 else "Until the deadline of each"
    tables = [_table(shares, f"{until}: fair work that gets through", whole_percent)] if shares else []
    tables += [_table(waits, "Waiting for all: how long a round takes", time_text)] if waits else []
    two_columns = len(tables) == 2 and max(len(hard.name) for hard in (*shares, *waits)) <= _SHORT
    parts.append(f'<div class="two">{"".join(tables)}</div>' if two_columns else "".join(tables))
    parts.append(_verdicts(shares, waits))
    seeds = min(max(len(hard.side.runs) for hard in (*shares, *waits)), _SEEDS)
    means = f" Means over the fleets of {count_words(seeds, 'seed')}." if seeds > 1 else ""
    parts.append(f'<p class="note"><abbr title="{FAIR}">Fair work</abbr>: reports up to an equal share for each client.{means}</p>')
    return "".join(parts)


def measure_sides(sides: Sequence[Side], *, by_deadline: bool) -> list[SideHardness]:
    """All whose rounds have a deadline, or all whose rounds wait, measured: of those that share fleet and pacing only the first."""
    alike: dict[tuple[str, str], list[Side]] = {}
    for side in sides:
        rules = rules_of(side.runs[0].table.get("pace", {}))
        if rules is not None and rules.by_deadline == by_deadline:
            pacing = json.dumps(side.runs[0].table.get("pace", {}), sort_keys=True, default=str)
            alike.setdefault((side.group, _fleet(side) + pacing), []).append(side)
    groups, rows = [group for group, _ in alike], list[SideHardness | None]()
    for (group, _), group_sides in list(alike.items())[:_MOST]:
        alone = group and groups.count(group) == 1
        rows.append(_measure_group(group_sides, group if alone else _joint_name(group_sides, len(sides))))
    return [row for row in rows if row is not None]


def _fleet(side: Side) -> str:
    """What makes the fleet: neither whose data is where, nor what a battery holds, changes when a report arrives."""
    world = side.runs[0].table.get("world", {})
    return json.dumps({k: v for k, v in world.items() if k not in ("data", "energy")}, sort_keys=True, default=str)


def _joint_name(sides: Sequence[Side], total: int) -> str:
    """A name for sides that have the same fleet, out of `total`.

    >>> three = [Side("a", ()), Side("b", ()), Side("c", ())]
    >>> _joint_name(three[:2], 2), _joint_name(three, 4), _joint_name(three, 3)
    ('a and b', 'a and 2 more', 'all three arms')
    """
    first, *others = [side.label for side in sides]
    if len(others) > 1 and len(sides) == total:
        return f"all {count_words(total, 'arm')}"
    return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else first


def _measure_group(sides: Sequence[Side], name: str) -> SideHardness | None:
    side = sides[0]
    results = [(one, hard) for one in side.runs[:_SEEDS] if (hard := _hardness(one)) is not None]
    if not results:
        return None
    names = list(results[0][1].measures)
    by_share = names[-1].endswith("-R")
    deadline = results[0][1].settings.deadline
    plain = {n[:-2]: fmean(hard.measures[n].plain for _, hard in results if n in hard.measures) for n in names}
    raw = {n[:-2]: fmean(hard.measures[n].raw for _, hard in results if n in hard.measures) for n in names}
    if "InterMC" not in plain:  # always reachable: devices alone are both
        plain["InterMC"], raw["InterMC"] = plain["DevMC"], raw["DevMC"]
    seen = fmean(observed_by_run(one, by_share=by_share) for one, _ in results)
    ideal = fmean(hard.ideal for _, hard in results)
    colour = side.colour if len({one.colour for one in sides}) == 1 else 0
    return SideHardness(name, side, plain, raw, seen, time_text(deadline) if by_share else "", ideal, colour)


def _hardness(run: PageRun) -> Hardness | None:
    rounds = int(run.metrics["rounds"])
    if not rounds or not run.samples:
        return None
    try:
        spec = load_spec(run.out / "spec.toml")
        size = None if spec.world["model_bytes"] else run.model_bytes
        result = hardness(spec, run.samples, rounds, seeds=1, model_bytes=size)
    except FedFleetError:
        return None
    return result if result.measures else None


def observed_by_run(run: PageRun, *, by_share: bool) -> float:
    """What a measured run itself saw: its share of fair work, or how long a round took."""
    rules, rounds = rules_of(run.table["pace"]), int(run.metrics["rounds"])
    share = None if rules is None or not by_share else observed_share(run.used, rules.cohort, rounds)
    return run.end / max(rounds, 1) if share is None else share


def _table(rows: Sequence[SideHardness], title: str, format_value: Callable[[float], str]) -> str:
    suffix = "R" if format_value is whole_percent else "T"
    heads = [Head("fleet"), *(Head(word) for word in _METRICS.values()), Head("the run saw")]
    always = "100 %" if format_value is whole_percent else "no wait"
    body = [
        [
            f'<b class="c{row.colour}">{escape(row.name)}</b>',
            *(f'<span title="{n}-{suffix} {row.raw[n]:.4g}">{format_value(row.plain[n])}</span>' if n in row.plain else always for n in _METRICS),
            f"<b>{format_value(row.observed)}</b>",
        ]
        for row in rows
    ]  # fmt: skip
    return f'<div><p class="ft">{escape(bind_units(title))}</p>{html_table(heads, body)}</div>'


def _verdicts(shares: Sequence[SideHardness], waits: Sequence[SideHardness]) -> str:
    by_fleet = {(hard.side.group, _fleet(hard.side)): hard for hard in waits}
    items = list[str]()
    for hard in shares:
        worst = hard.plain["InterMC"]
        wait = by_fleet.get((hard.side.group, _fleet(hard.side)))
        also = f" A round that waits for all takes {time_text(wait.plain['InterMC'])}." if wait else ""
        late = ", which use late reports too," if hard.side.runs[0].table["pace"].get("max_staleness") else ""
        sentence = f"{whole_percent(worst)} of the fair work gets through in {hard.deadline}, and the runs{late} saw {whole_percent(hard.observed)}.{also}"
        items.append(verdict_item(hard.colour, f"{hard.name}: {share_word(worst / hard.ideal)}", sentence))
    return f'<ul class="verdicts apart">{"".join(items)}</ul>' if items else ""
