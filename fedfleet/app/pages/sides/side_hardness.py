"""How hard each fleet is under the pacing of its own runs: fair work that gets through, time of a round, and what the runs saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

import numpy as np

from fedfleet.app.fleets.hardness import Hardness, hardness, rules_of, share_word
from fedfleet.app.pages.html import bind_units
from fedfleet.app.pages.sides.comparison_words import capitalise, count_words, time_text, whole_percent
from fedfleet.app.pages.sides.page_runs import PageRun, Side
from fedfleet.app.pages.sides.run_rows import Head, html_table
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import FedFleetError

_SEEDS = 3  # runs of a side that are measured
_MOST = 12  # rows of a table: more would keep the reader of the page waiting
_SHORT = 20  # letters of a name with which a table has room in half of the page
_METRIC_NAMES = {"DevMC": "devices alone", "StatMC": "reachability alone", "InterMC": "both"}
FAIR = "Reports of each client count up to an equal share of all rounds; if all were always in time, this would come near 100 %, the nearer the more rounds."


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


def hardness_section(sides: Sequence[Side]) -> str:
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
    tables = list[str]()
    if shares:
        deadlines = {hard.deadline for hard in shares}
        title = f"Deadline of {deadlines.pop()}" if len(deadlines) == 1 else "Until the deadline of each"
        tables.append(_table(shares, f"{title}: fair work that gets through", whole_percent))
    if waits:
        tables.append(_table(waits, "Waiting for all: how long a round takes", time_text))
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
            alike.setdefault((side.group, _fleet(side) + _pacing(side)), []).append(side)
    groups = [group for group, _ in alike]
    rows = [
        _measure_group(group_sides, group if group and groups.count(group) == 1 else _joint_name(group_sides, len(sides)))
        for (group, _), group_sides in list(alike.items())[:_MOST]
    ]
    return [row for row in rows if row is not None]


def _fleet(side: Side) -> str:
    """What makes the fleet: neither whose data is where, nor what a battery holds, changes when a report arrives."""
    world = side.runs[0].table.get("world", {})
    return json.dumps({k: v for k, v in world.items() if k not in ("data", "energy")}, sort_keys=True, default=str)


def _pacing(side: Side) -> str:
    return json.dumps(side.runs[0].table.get("pace", {}), sort_keys=True, default=str)


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
    observed = fmean(observed_share(one) if by_share else one.end / max(int(one.metrics["rounds"]), 1) for one, _ in results)
    ideal = fmean(hard.ideal for _, hard in results)
    colour = side.colour if len({one.colour for one in sides}) == 1 else 0
    return SideHardness(name, side, plain, raw, observed, time_text(deadline) if by_share else "", ideal, colour)


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


def observed_share(run: PageRun) -> float:
    """The share of fair work that the run itself saw: reports that were used, none beyond an equal share each."""
    rules = rules_of(run.table["pace"])
    # Only fleets whose rules are known are measured.
    assert rules is not None
    total = float(rules.cohort) * int(run.metrics["rounds"])
    return float(np.minimum(run.used, total / len(run.used)).sum() / total)


def _table(rows: Sequence[SideHardness], title: str, format_value: Callable[[float], str]) -> str:
    suffix = "R" if format_value is whole_percent else "T"
    heads = [Head("fleet"), *(Head(word) for word in _METRIC_NAMES.values()), Head("the run saw")]
    always = "100 %" if format_value is whole_percent else "no wait"
    body = [
        [
            f'<b class="c{row.colour}">{escape(row.name)}</b>',
            *(f'<span title="{n}-{suffix} {row.raw[n]:.4g}">{format_value(row.plain[n])}</span>' if n in row.plain else always for n in _METRIC_NAMES),
            f"<b>{format_value(row.observed)}</b>",
        ]
        for row in rows
    ]  # fmt: skip
    return f'<div><p class="ft">{escape(bind_units(title))}</p>{html_table(heads, body)}</div>'


def hardness_word(hard: SideHardness) -> str:
    """How hard a fleet is under a deadline, in a word."""
    return share_word(hard.plain["InterMC"] / hard.ideal)


def _verdicts(shares: Sequence[SideHardness], waits: Sequence[SideHardness]) -> str:
    by_fleet = {(hard.side.group, _fleet(hard.side)): hard for hard in waits}
    items = list[str]()
    for hard in shares:
        worst = hard.plain["InterMC"]
        wait = by_fleet.get((hard.side.group, _fleet(hard.side)))
        also = f" A round that waits for all takes {time_text(wait.plain['InterMC'])}." if wait else ""
        late = ", which use late reports too," if hard.side.runs[0].table["pace"].get("max_staleness") else ""
        sentence = f"{whole_percent(worst)} of the fair work gets through in {hard.deadline}, and the runs{late} saw {whole_percent(hard.observed)}.{also}"
        head = f"{hard.name}: {hardness_word(hard)}"
        items.append(
            f'<li class="c{hard.colour}"><b>{escape(capitalise(head))}</b><span>{escape(bind_units(sentence))}</span></li>'
        )
    return f'<ul class="verdicts apart">{"".join(items)}</ul>' if items else ""
