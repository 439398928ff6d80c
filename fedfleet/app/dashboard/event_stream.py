"""What a page that stays open is told: only what changed since it was last told, a few times a second at most."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedfleet.app.dashboard.pages import device_words, kinds, live_pieces
from fedfleet.app.dashboard.run_view import Score, device_states
from fedfleet.app.dashboard.run_watcher import Followed, Glance, Watch
from fedfleet.app.dashboard.served_runs import Says
from fedfleet.app.dashboard.sparklines import curve_words
from fedfleet.app.dashboard.status_text import Repeated, repeated

PAUSE_SECONDS = 0.5
_ALIVE_SECONDS = 15.0  # between two signs of life to a page that has nothing to hear
_LIST_PAUSES = 4  # the list is fetched anew after so many pauses at the earliest


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of a run beside its journal: what it printed, and what its server says."""

    log: Sequence[str] = ()
    says: Says | None = None


About = Callable[[Glance], Beside]


@dataclass(slots=True)
class Told:
    """What one page knows already."""

    mark: tuple[Any, ...] = ()
    pieces: dict[str, str] = field(default_factory=dict[str, str])
    curve: int = 0
    states: str = ""
    other: str | None = None
    runs: tuple[Any, ...] | None = None
    pauses: int = _LIST_PAUSES


def news(told: Told, watch: Watch, name: str, about: About) -> dict[str, Any]:
    """What has to be told now; `told` remembers it."""
    found: dict[str, Any] = {}
    told.pauses += 1
    runs = tuple((g.name, g.status, g.rounds, g.accuracy) for g in watch.glances.values())
    if runs != told.runs and told.pauses >= _LIST_PAUSES:
        found |= {} if told.runs is None else {"runs": True}
        told.runs, told.pauses = runs, 0
    glance = watch.glances.get(name)
    if glance is not None:
        beside = about(glance)  # it may take a while, in which nobody else has to wait
        found |= watch.view(name, lambda run, followed: _of_run(told, run, followed, watch.glances, beside)) or {}
    return found


def _of_run(
    told: Told, run: Glance, followed: Followed, glances: Mapping[str, Glance], beside: Beside
) -> dict[str, Any]:
    other = repeated(run, glances.values())
    mark = (followed.version, followed.fault, run.status, beside, other and other.run.name)
    if mark == told.mark:
        return {}
    told.mark = mark
    seen, found = followed.seen, dict[str, Any]()
    states = device_states(seen, beside.says.present if beside.says else "")
    pieces = {**live_pieces(run, followed, other, beside.log, beside.says), "kinds": kinds(states)}
    changed = {key: html for key, html in pieces.items() if told.pieces.get(key) != html}
    told.pieces = pieces
    found |= {"pieces": changed} if changed else {}
    found |= (
        {"devices": _changed(told.states, states), "devices_said": device_words(states)}
        if states != told.states
        else {}
    )
    told.states = states
    if len(seen.scores) != told.curve or told.other is None:
        first = 0 if len(seen.scores) < told.curve else told.curve
        words = curve_words(seen.scores, run.name, _beside(other))
        found["curve"] = {"from": first, "said": words, **_columns(seen.scores[first:])}
        told.curve = len(seen.scores)
    name = other.run.name if other else ""
    if name != told.other:
        told.other = name
        found["other"] = {"name": _beside(other), **_columns(other.run.scores)} if other else None
    return found


def _beside(other: Repeated | None) -> str:
    if other is None:
        return ""
    return ", ".join(f"{key} {there}" for key, there, _ in other.differs) or other.run.name


def _columns(scores: Sequence[Score]) -> dict[str, list[float]]:
    return {"t": [round(s.time, 1) for s in scores], "a": [round(100 * s.accuracy, 2) for s in scores]}


def _changed(before: str, now: str) -> dict[str, Any]:
    """All devices, or those that changed where that is shorter."""
    if len(before) != len(now):
        return {"all": now}
    some = {i: letter for i, (old, letter) in enumerate(zip(before, now, strict=True)) if old != letter}
    return {"some": some} if 10 * len(some) < len(now) else {"all": now}


async def stream(watch: Watch, name: str, about: About, gone: Callable[[], bool]) -> AsyncIterator[str]:
    """Server-sent events for one page, until `gone`."""
    told, silent = Told(), 0.0
    while not gone():
        found = await asyncio.to_thread(news, told, watch, name, about)
        if found:
            silent = 0.0
            yield f"data: {json.dumps(found, separators=(',', ':'))}\n\n"
        elif silent >= _ALIVE_SECONDS:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(PAUSE_SECONDS)
        silent += PAUSE_SECONDS
