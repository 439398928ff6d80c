"""A run's state as plain data and arrays, and back: what a checkpoint is made of. Pure; writing it is the runtime's duty.

Every field of a state is covered, in whatever phase it is: `pending_commands` says which answers a thawed run still waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from immutables import Map

from fedfleet.core.commands import Probe
from fedfleet.core.parts import State
from fedfleet.core.records import Assignments, Book, Cost, EvalScore, Roster, Score, ServerState, Tally, Wave
from fedfleet.core.trees import Array, Tree
from fedfleet.engine.state import EndedChain, Ending, Phase, Progress, RunState, in_order_of_arrival, open_endings

Frozen = tuple[dict[str, Any], dict[str, Array]]
_COLUMNS = ("clients", "steps", "share", "keys", "samples", "bytes_down", "bytes_up")
_PLAIN = ("others", "at_least", "next_task", "wake", "room", "reason", "look")  # fields that are plain values already


def freeze(state: RunState) -> Frozen:
    """JSON-ready facts and named arrays."""
    # In-flight and just-ended tasks keep their waves, and waves the model version that they were sent with.
    waves = {w.first: w for w in (*state.running.values(), *(e.wave for e in open_endings(state)))}
    probe = () if state.probe is None else (state.probe.server,)
    servers = {id(s): s for s in (state.server, *probe, *(w.server for w in waves.values()))}
    order = {key: i for i, key in enumerate(servers)}
    arrays: dict[str, Array] = {f"selector/{n}": v for n, v in state.selector.items()}
    for key, server in servers.items():
        arrays |= {f"server/{order[key]}/params/{n}": v for n, v in server.params.items()}
        arrays |= {f"server/{order[key]}/extra/{n}": v for n, v in server.extra.items()}
    for wave in waves.values():
        a, c, prefix = wave.assignments, wave.cost, f"wave/{wave.first}"
        columns = (a.clients, a.steps, a.share, wave.keys, c.samples, c.bytes_down, c.bytes_up)
        arrays |= {f"{prefix}/{n}": v for n, v in zip(_COLUMNS, columns, strict=True)}
        arrays |= {} if c.batches is None else {f"{prefix}/batches": c.batches}
        arrays |= {f"{prefix}/settings/{n}": v for n, v in a.settings.items()}
    meta: dict[str, Any] = {
        **{name: getattr(state, name) for name in _PLAIN},
        "book": state.book._asdict(),
        "phase": state.phase.value,
        "progress": asdict(state.progress),
        "server": order[id(state.server)],
        "waves": [[w.first, w.round, w.version, w.time, w.assignments.due, order[id(w.server)]] for w in waves.values()],
        "running": {str(first): sorted(t for t, w in state.running.items() if w.first == first) for first in waves},
        "ended": _ending_rows(state.ended),
        "gathering": _ending_rows(state.gathering),
        "unpaid": [_ending_rows(chain) for chain in state.unpaid],
        "probe": None if (p := state.probe) is None else [p.stat, order[id(p.server)], p.time, p.round, p.within],
    }
    if state.roster is not None and state.probe is not None:
        roster = state.roster
        arrays |= {"roster/clients": roster.clients, "roster/keys": roster.keys, "roster/samples": roster.samples}
        arrays |= {f"roster/stats/{n}": v for n, v in roster.stats.items()} | {"probe/clients": state.probe.clients}
    return meta, arrays


def thaw(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> RunState:
    """The inverse of `freeze`."""
    servers: dict[int, ServerState] = {}

    def server(i: int) -> ServerState:
        if i not in servers:
            servers[i] = ServerState(_below(arrays, f"server/{i}/params/"), _below(arrays, f"server/{i}/extra/"))
        return servers[i]

    waves: dict[int, Wave] = {}
    for first, round_, version, time, due, place in meta["waves"]:
        clients, steps, share, keys, samples, down, up = (arrays[f"wave/{first}/{n}"] for n in _COLUMNS)
        settings = _below(arrays, f"wave/{first}/settings/")
        assignments = Assignments(clients, steps, share, settings, due)
        cost = Cost(samples, down, up, arrays.get(f"wave/{first}/batches"))
        waves[first] = Wave(first, round_, version, time, assignments, keys, cost, server(place))
    probe = roster = None
    if meta["probe"] is not None:
        stat, place, asked_at, round_, within = meta["probe"]
        probe = Probe(arrays["probe/clients"], stat, server(place), asked_at, round_, within)
        clients, keys, samples = (arrays[f"roster/{n}"] for n in ("clients", "keys", "samples"))
        roster = Roster(clients, keys, samples, _below(arrays, "roster/stats/"))
    selector: State = _below(arrays, "selector/")
    book = Book(**meta["book"])
    book = book._replace(kept=tuple(book.kept))  # JSON knows lists only
    return RunState(
        server(meta["server"]), selector, book,
        Map({t: waves[int(first)] for first, tasks in meta["running"].items() for t in tasks}),
        ended=_link_endings(meta["ended"], waves), gathering=_link_endings(meta["gathering"], waves),
        unpaid=tuple(c for rows in meta["unpaid"] if (c := _link_endings(rows, waves)) is not None), roster=roster, probe=probe,
        phase=Phase(meta["phase"]), progress=_progress(meta["progress"]), **{name: meta[name] for name in _PLAIN},
    )  # fmt: skip


def _progress(data: Mapping[str, Any]) -> Progress:
    tried, progress = data["tried"], Progress(**{name: value for name, value in data.items() if name != "tried"})
    if tried is None:
        return progress
    unseen = None if tried["unseen"] is None else Tally(*tried["unseen"])
    return replace(progress, tried=EvalScore(Score(**tried["score"]), unseen))


def _ending_rows(last: EndedChain | None) -> list[list[Any]]:
    return [[e.task, e.wave.first, e.seconds, e.fate] for e in in_order_of_arrival(last)]


def _link_endings(rows: Iterable[tuple[int, int, float, int]], waves: Mapping[int, Wave]) -> EndedChain | None:
    last: EndedChain | None = None
    for task, first, seconds, fate in rows:
        last = Ending(last, task, waves[first], seconds, fate)
    return last


def _below(arrays: Mapping[str, Array], prefix: str) -> Tree:
    return {n[len(prefix) :]: np.asarray(v) for n, v in arrays.items() if n.startswith(prefix)}
