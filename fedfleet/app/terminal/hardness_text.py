"""How hard the fleet of a spec is, as text for people."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import fill
from typing import Any

from fedfleet.app.terminal.text import percent, size, span

_LOOKS = {"Dev": "devices alone", "Stat": "reachability alone", "Inter": "both together"}
_WIDTH = 118


def shown_fleet(answer: dict[str, Any]) -> str:
    """The verdict first, then each metric with its unit and interval, the clock, and what all of it was measured under."""
    under = answer["under"]
    shares = {n: m for n, m in answer.items() if n.endswith("MC-R")}
    waits = {n: m for n, m in answer.items() if n.endswith("MC-T")}
    lines = [fill(answer["verdict"], _WIDTH)]
    if shares:
        within = "" if under["deadline_seconds"] is None else f" within {span(under['deadline_seconds'])}"
        title = (
            f"Fair work that gets through{within}: reports in time, none beyond an equal share each. An ideal fleet, everybody "
            f"always in time, gets {percent(under['ideal_fair_work'])}, since chance asks some more often than others. Words are "
            "relative to that; 'their' fleets are FLHetBench's"
        )
        lines += ["", fill(title, _WIDTH), *(_share(n, m) for n, m in shares.items())]
    if waits:
        whom = "all" if under["ready_share"] == 1.0 else percent(under["ready_share"])
        instead = " instead" if shares else ""
        lines += ["", f"A round that waits for {whom} of its {under['cohort']} clients{instead}, pause included"]
        lines += [_wait(n, m) for n, m in waits.items()]
    lines += [f"note: {note}" for m in (*shares.values(), *waits.values()) for note in m["notes"]]
    lines += [*_clock(answer["clock"]), "", fill(_under(under), _WIDTH)]
    return "\n".join([*lines, *(fill(f"not measured: {said}", _WIDTH) for said in answer["not_measured"])])


def _share(name: str, m: dict[str, Any]) -> str:
    end = f"{name} {m['value']:.4g}; {m['beside']}"
    return f"  {_look(name):<19} {percent(m['fair_work']):>8}  {_range(m, percent):<22} {m['word']:<9}  {end}"


def _wait(name: str, m: dict[str, Any]) -> str:
    end = f"{name} {m['value']:.4g}; {m['times_undisturbed']:.3g} times an undisturbed round"
    return f"  {_look(name):<19} {span(m['round_seconds']):>8}  {_range(m, span):<22} {m['word']:<9}  {end}"


def _look(name: str) -> str:
    return _LOOKS[name.partition("MC")[0]]


def _range(m: dict[str, Any], said: Callable[[float], str]) -> str:
    return "(one seed)" if m["ci95"] is None else f"({said(m['ci95'][0])} to {said(m['ci95'][1])})"


def _clock(clock: dict[str, Any] | None) -> list[str]:
    """The class clock with its gloss, as many labels in a line as fit."""
    if clock is None:
        return []
    told = ", ".join(f"{label}: {value:.3g}" for label, value in clock["classes"].items())
    gloss = (
        f"Class clock: how many rounds of an ideal fleet (everyone alike, always there) would show each label as much as "
        f"{clock['rounds_done']:.0f} rounds of this one do, of which {clock['commits']:.3g} give a model"
    )
    effective = (
        f"n_eff: the models rest on {percent(clock['effective'])} of the fleet's samples; the less, the more often the same few "
        "clients are asked"
    )
    labels = fill(told, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return ["", fill(gloss, _WIDTH), labels, fill(effective, _WIDTH), *(f"note: {note}" for note in clock["notes"])]


def _under(under: dict[str, Any]) -> str:
    trip = f" (a usual trip takes {span(under['trip_seconds'])})" if under["trip_seconds"] else ""
    seeds = f"95 % intervals over {under['seeds']} seeds" if under["seeds"] > 1 else "one seed, so no intervals"
    return (
        f"Simulated without training, under the spec's own pacing: {under['clients']:,} clients, {under['cohort']} at a time, "
        f"{under['rounds']:,} rounds, {size(under['model_bytes'])} each way, {under['samples']:,.0f} samples a task"
        f"{trip}, a pause of {span(under['pause_seconds'])} before each round; {seeds}. Rounds that "
        "fail for too few reports and data of different size are in the clock only."
    )
