"""What a run cost, and how much of that was wasted: a table of its measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from fedfleet.app.pages.html import table
from fedfleet.app.pages.sides.comparison_words import time_text
from fedfleet.app.pages.time_units import plain_time
from fedfleet.app.terminal.text import percent, size

Row = Mapping[str, float]
_NEGLIGIBLE = 0.0005  # of all: less is not worth a word
_FATES = {
    "folded": "used", "rejected": "refused", "wasted": "in time, for a round that failed", "lost": "lost",
    "dropped": "too late, given up",
}  # fmt: skip


def energy(joules: float) -> str:
    """Energy for people.

    >>> energy(40), energy(52_000), energy(7.2e6)
    ('40 J', '52 kJ', '2 kWh')
    """
    if joules >= 3.6e6:
        return f"{joules / 3.6e6:,.3g} kWh"
    return f"{joules / 1000:,.3g} kJ" if joules >= 1000 else f"{joules:,.3g} J"


# (heading, measures that are added up, how the sum is formatted)
_COLUMNS: tuple[tuple[str, tuple[str, ...], Callable[[float], str]], ...] = (
    ("tasks", ("tasks", "asked"), lambda n: f"{n:,.0f}"),
    ("working", ("worked_seconds",), lambda s: time_text(s) if s >= 1 else plain_time(s)),
    ("out of reach", ("waited_seconds",), lambda s: time_text(s) if s >= 1 else plain_time(s)),
    ("moved", ("bytes_down", "bytes_up"), size),
    ("energy", ("joules",), energy),
)


def costs(m: Mapping[str, Any]) -> list[str]:
    """The section by fate of the work: `fates`, `probes` and `energy` of the measures, each where it is known."""
    fates: Mapping[str, Row] = m.get("fates") or {}
    rows = {_FATES.get(fate, fate): row for fate, row in fates.items() if row.get("tasks")}
    probes: Row = m.get("probes") or {}
    if probes.get("asked"):
        rows["probes, before choosing"] = probes
    if not rows:
        return []
    columns = [(head, keys, format_value) for head, keys, format_value in _COLUMNS if any(_sum(row, keys) for row in rows.values())]
    lines = [[name, *(say(_sum(row, keys)) for _, keys, say in columns)] for name, row in rows.items()]
    total_row = ["all", *(say(sum(_sum(row, keys) for row in rows.values())) for _, keys, say in columns)]
    every = [*lines, total_row] if len(lines) > 1 else lines
    return [
        "<h2>Cost</h2>",
        *(f"<p>{escape(sentence)}</p>" for sentence in [_waste_sentence(m, rows)] if sentence),
        table(["what became of the work", *(head for head, _, _ in columns)], every),
    ]


def _sum(row: Row, keys: tuple[str, ...]) -> float:
    return sum(row.get(key) or 0.0 for key in keys)


def _waste_sentence(m: Mapping[str, Any], rows: Mapping[str, Row]) -> str:
    """How much was spent on updates that entered no model, and of how many tasks the cost is unknown."""
    moved = sum(_sum(row, ("bytes_down", "bytes_up")) for row in rows.values())
    energy_use: Mapping[str, Any] = m.get("energy") or {}
    wasted = sum(m.get("bytes_wasted", {}).values())
    lost = [(wasted / moved, "of the bytes")] if moved and "bytes_wasted" in m else []
    if energy_use.get("joules"):
        lost.append((1 - energy_use["useful"] / energy_use["joules"], "of the energy"))
    parts = (
        [f"{percent(part) if part >= _NEGLIGIBLE else 'under 0.1 %'} {resource}" for part, resource in lost]
        if any(part >= _NEGLIGIBLE for part, _ in lost)
        else []
    )
    grams = f" The energy stands for {energy_use['grams']:,.3g} g of carbon dioxide." if energy_use.get("grams") is not None else ""
    unknown = sum(int(row.get("unknown") or 0) for row in rows.values())
    unknown_note = f" The cost of {unknown:,} tasks is not known, and not in this table." if unknown else ""
    return (f"Wasted (updates not used): {' and '.join(parts)}." if parts else "") + grams + unknown_note
