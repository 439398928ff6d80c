"""How hard the fleet of a spec is, as text for people."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import fill
from typing import Any

from fedfleet.app.terminal.text import percent, size, span

_PARTS = {"Dev": "devices alone", "Stat": "reachability alone", "Inter": "both together"}
_WIDTH = 118


def hardness_text(answer: dict[str, Any]) -> str:
    """The verdict first, then each metric with its unit and interval, the clock, and what all of it was measured under."""
    conditions = answer["under"]
    shares = {n: m for n, m in answer.items() if n.endswith("MC-R")}
    waits = {n: m for n, m in answer.items() if n.endswith("MC-T")}
    lines = [fill(answer["verdict"], _WIDTH)]
    if shares:
        deadline = "" if conditions["deadline_seconds"] is None else f" within {span(conditions['deadline_seconds'])}"
        title = (
            f"Fair work that gets through{deadline}: reports in time, none beyond an equal share each. An ideal fleet, everybody "
            f"always in time, gets {percent(conditions['ideal_fair_work'])}, since chance asks some more often "
            f"than others. Words are "
            "relative to that; 'their' fleets are FLHetBench's"
        )
        lines += ["", fill(title, _WIDTH), *(_share_line(n, m) for n, m in shares.items())]
    if waits:
        share_text = "all" if conditions["ready_share"] == 1.0 else percent(conditions["ready_share"])
        instead = " instead" if shares else ""
        lines += [
            "",
            f"A round that waits for {share_text} of its {conditions['cohort']} clients{instead}, pause included",
        ]
        lines += [_wait_line(n, m) for n, m in waits.items()]
    lines += [f"note: {note}" for m in (*shares.values(), *waits.values()) for note in m["notes"]]
    lines += [*_clock_lines(answer["clock"]), "", fill(_conditions_text(conditions), _WIDTH)]
    return "\n".join([*lines, *(fill(f"not measured: {reason}", _WIDTH) for reason in answer["not_measured"])])


def _share_line(name: str, m: dict[str, Any]) -> str:
    end = f"{name} {m['value']:.4g}; {m['beside']}"
    return f"  {_measured_part(name):<19} {percent(m['fair_work']):>8}  {_range_text(m, percent):<22} {m['word']:<9}  {end}"


def _wait_line(name: str, m: dict[str, Any]) -> str:
    end = f"{name} {m['value']:.4g}; {m['times_undisturbed']:.3g} times an undisturbed round"
    return (
        f"  {_measured_part(name):<19} {span(m['round_seconds']):>8}  {_range_text(m, span):<22} {m['word']:<9}  {end}"
    )


def _measured_part(name: str) -> str:
    return _PARTS[name.partition("MC")[0]]


def _range_text(m: dict[str, Any], format_value: Callable[[float], str]) -> str:
    return "(one seed)" if m["ci95"] is None else f"({format_value(m['ci95'][0])} to {format_value(m['ci95'][1])})"


def _clock_lines(clock: dict[str, Any] | None) -> list[str]:
    """The class clock with its gloss, as many labels in a line as fit."""
    if clock is None:
        return []
    label_values = ", ".join(f"{label}: {value:.3g}" for label, value in clock["classes"].items())
    gloss = (
        f"Class clock: how many rounds of an ideal fleet (everyone alike, always there) would show each label as much as "
        f"{clock['rounds_done']:.0f} rounds of this one do, of which {clock['commits']:.3g} give a model"
    )
    effective = (
        f"n_eff: the models rest on {percent(clock['effective'])} of the fleet's samples; the less, the more often the same few "
        "clients are asked"
    )
    labels = fill(label_values, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return ["", fill(gloss, _WIDTH), labels, fill(effective, _WIDTH), *(f"note: {note}" for note in clock["notes"])]


def _conditions_text(conditions: dict[str, Any]) -> str:
    trip = f" (a usual trip takes {span(conditions['trip_seconds'])})" if conditions["trip_seconds"] else ""
    seeds = (
        f"95 % intervals over {conditions['seeds']} seeds" if conditions["seeds"] > 1 else "one seed, so no intervals"
    )
    return (
        f"Simulated without training, under the spec's own pacing: {conditions['clients']:,} clients, "
        f"{conditions['cohort']} at a time, "
        f"{conditions['rounds']:,} rounds, {size(conditions['model_bytes'])} each way, {conditions['samples']:,.0f} samples a task"
        f"{trip}, a pause of {span(conditions['pause_seconds'])} before each round; {seeds}. Rounds that "
        "fail for too few reports and data of different size are in the clock only."
    )
