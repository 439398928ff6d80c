"""A run's state as plain data and arrays, and back: what a checkpoint is made of. Pure; writing it is the runtime's duty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from immutables import Map

from fedfleet.core.parts import State
from fedfleet.core.records import Assignments, Book, Cost, ServerState, Wave
from fedfleet.core.trees import Array, Tree
from fedfleet.engine.state import Ending, Phase, Progress, RunState, endings

Frozen = tuple[dict[str, Any], dict[str, Array]]
_COLUMNS = ("clients", "steps", "share", "keys", "samples", "bytes_down", "bytes_up")


def freeze(state: RunState) -> Frozen:
    """JSON-ready facts and named arrays. Only settled states can be frozen: nothing gathered, probed or asked for."""
    if state.phase is not Phase.OPEN or state.gathering is not None or state.roster is not None or state.book.asking:
        raise ValueError(f"a state in phase {state.phase.value} cannot be frozen")
    ended = endings(state.ended)
    # In-flight and just-ended tasks keep their waves, and waves the model version that they were sent with.
    waves = {w.first: w for w in (*state.running.values(), *(e.wave for e in ended))}
    servers = {id(s): s for s in (state.server, *(w.server for w in waves.values()))}
    order = {key: i for i, key in enumerate(servers)}
    arrays: dict[str, Array] = {f"selector/{n}": v for n, v in state.selector.items()}
    for key, server in servers.items():
        arrays |= {f"server/{order[key]}/params/{n}": v for n, v in server.params.items()}
        arrays |= {f"server/{order[key]}/extra/{n}": v for n, v in server.extra.items()}
    for wave in waves.values():
        a, c = wave.asked, wave.cost
        columns = (a.clients, a.steps, a.share, wave.keys, c.samples, c.bytes_down, c.bytes_up)
        arrays |= {f"wave/{wave.first}/{n}": v for n, v in zip(_COLUMNS, columns, strict=True)}
    meta = {
        "book": state.book._asdict(),
        "progress": asdict(state.progress),
        "server": order[id(state.server)],
        "waves": [[w.first, w.round, w.version, w.time, order[id(w.server)]] for w in waves.values()],
        "running": {str(first): sorted(t for t, w in state.running.items() if w.first == first) for first in waves},
        "ended": [[e.task, e.wave.first, e.seconds, e.fate] for e in _in_order_of_arrival(state.ended)],
        "next_task": state.next_task,
        "wake": state.wake,
        "instant": state.instant,
    }
    return meta, arrays


def thaw(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> RunState:
    """The inverse of `freeze`."""
    servers: dict[int, ServerState] = {}

    def server(i: int) -> ServerState:
        if i not in servers:
            servers[i] = ServerState(_below(arrays, f"server/{i}/params/"), _below(arrays, f"server/{i}/extra/"))
        return servers[i]

    waves: dict[int, Wave] = {}
    for first, round_, version, time, place in meta["waves"]:
        clients, steps, share, keys, samples, down, up = (arrays[f"wave/{first}/{n}"] for n in _COLUMNS)
        asked, cost = Assignments(clients, steps, share), Cost(samples, down, up)
        waves[first] = Wave(first, round_, version, time, asked, keys, cost, server(place))
    running = {t: waves[int(first)] for first, tasks in meta["running"].items() for t in tasks}
    ended: Ending | None = None
    for task, first, seconds, fate in meta["ended"]:
        ended = Ending(ended, task, waves[first], seconds, fate)
    selector: State = _below(arrays, "selector/")
    return RunState(
        server(meta["server"]), selector, Book(**meta["book"]), Map(running), ended,
        next_task=meta["next_task"], wake=meta["wake"], progress=Progress(**meta["progress"]), instant=meta["instant"],
    )  # fmt: skip


def _in_order_of_arrival(last: Ending | None) -> list[Ending]:
    found: list[Ending] = []
    while last is not None:
        found.append(last)
        last = last.before
    return found[::-1]


def _below(arrays: Mapping[str, Array], prefix: str) -> Tree:
    return {n[len(prefix) :]: np.asarray(v) for n, v in arrays.items() if n.startswith(prefix)}
