"""Updates for a page that stays open: only what changed since the last one, a few times a second at most."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedfleet.app.dashboard.pages import device_description, device_legend, live_pieces
from fedfleet.app.dashboard.run_view import device_states
from fedfleet.app.dashboard.run_watcher import FollowedRun, RunSummary, RunWatcher
from fedfleet.app.dashboard.served_runs import ServerStatus
from fedfleet.app.dashboard.sparklines import curve_description
from fedfleet.app.dashboard.status_text import SimilarRun, most_similar_run
from fedfleet.measure.run_progress import Evaluation
from fedfleet.measure.score_info import score_of_measures

PAUSE_SECONDS = 0.5
_KEEPALIVE_SECONDS = 15.0  # between two signs of life to a page that has nothing to hear
_LIST_PAUSES = 4  # the list is fetched anew after so many pauses at the earliest


@dataclass(frozen=True, slots=True)
class SideInfo:
    """What is known of a run besides its journal: what it printed, and the status of its server."""

    log: Sequence[str] = ()
    server_status: ServerStatus | None = None


ReadSideInfo = Callable[[RunSummary], SideInfo]
Title = Callable[[RunSummary], str]


def _name_of(run: RunSummary) -> str:
    return run.name


@dataclass(slots=True)
class PageState:
    """What one page knows already."""

    mark: tuple[Any, ...] = ()
    pieces: dict[str, str] = field(default_factory=dict[str, str])
    curve: int = 0
    states: str = ""
    other: str | None = None
    runs: tuple[Any, ...] | None = None
    pauses: int = _LIST_PAUSES


def page_updates(
    state: PageState, watcher: RunWatcher, name: str, read_side_info: ReadSideInfo, title: Title = _name_of
) -> dict[str, Any]:
    """What the page has to show now; `state` remembers it. `title` is what another run is called."""
    updates: dict[str, Any] = {}
    state.pauses += 1
    runs = tuple((g.name, g.status, g.rounds, g.accuracy) for g in watcher.summaries.values())
    if runs != state.runs and state.pauses >= _LIST_PAUSES:
        updates |= {} if state.runs is None else {"runs": True}
        state.runs, state.pauses = runs, 0
    summary = watcher.summaries.get(name)
    if summary is not None:
        side_info = read_side_info(summary)  # it may take a while, in which no other page waits
        updates |= watcher.inspect(name, lambda run, f: _run_updates(state, run, f, watcher.summaries, side_info, title)) or {}
    return updates


def _run_updates(
    state: PageState,
    run: RunSummary,
    followed: FollowedRun,
    summaries: Mapping[str, RunSummary],
    side_info: SideInfo,
    title: Title,
) -> dict[str, Any]:
    other = most_similar_run(run, summaries.values(), title)
    mark = (followed.version, followed.fault, run.status, side_info, other and other.run.name)
    if mark == state.mark:
        return {}
    state.mark = mark
    evaluations, updates = followed.record.progress.evaluations, dict[str, Any]()
    states = device_states(followed.record, side_info.server_status.present if side_info.server_status else "")
    pieces = {**live_pieces(run, followed, other, side_info.log, side_info.server_status), "kinds": device_legend(states)}
    changed = {key: html for key, html in pieces.items() if state.pieces.get(key) != html}
    state.pieces = pieces
    updates |= {"pieces": changed} if changed else {}
    if states != state.states:  # all devices, or those that changed where that is shorter
        letters = {i: now for i, now in enumerate(states) if now != state.states[i : i + 1]}
        few = len(states) == len(state.states) and 10 * len(letters) < len(states)
        updates |= {"devices": {"some": letters} if few else {"all": states}, "devices_said": device_description(states)}
    state.states = states
    if len(evaluations) != state.curve or state.other is None:
        first = 0 if len(evaluations) < state.curve else state.curve
        words = curve_description(evaluations, run.name, _comparison_label(other))
        updates["curve"] = {"from": first, "said": words, **_columns(evaluations[first:])}
        score = score_of_measures(evaluations[-1].measures if evaluations else ())
        if not score.kind.percent:
            updates["curve"]["number"] = True
        state.curve = len(evaluations)
    name = other.run.name if other else ""
    if name != state.other:
        state.other = name
        updates["other"] = {"name": _comparison_label(other), **_columns(other.run.scores)} if other else None
    return updates


def _comparison_label(other: SimilarRun | None) -> str:
    if other is None:
        return ""
    return ", ".join(f"{key} {value}" for key, value, _ in other.differs) or other.title


def _columns(scores: Sequence[Evaluation]) -> dict[str, list[float]]:
    percent = score_of_measures(scores[-1].measures if scores else ()).kind.percent
    values = [round(100 * s.accuracy, 2) if percent else round(s.accuracy, 4) for s in scores]
    return {"t": [round(s.time, 1) for s in scores], "a": values}


async def stream(
    watcher: RunWatcher, name: str, read_side_info: ReadSideInfo, is_gone: Callable[[], bool], title: Title = _name_of
) -> AsyncIterator[str]:
    """Server-sent events for one page, until `gone`."""
    state, silent = PageState(), 0.0
    while not is_gone():
        updates = await asyncio.to_thread(page_updates, state, watcher, name, read_side_info, title)
        if updates:
            silent = 0.0
            yield f"data: {json.dumps(updates, separators=(',', ':'))}\n\n"
        elif silent >= _KEEPALIVE_SECONDS:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(PAUSE_SECONDS)
        silent += PAUSE_SECONDS
