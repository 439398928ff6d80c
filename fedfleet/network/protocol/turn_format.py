"""What a server asks of an edge, as bytes and back: which devices train in each average, on which rows, for how many steps, and
which samples change device before.

The server plans turns for all edges of a wave together; an edge only carries its turn out, whatever the rule was. A device that
trains on all that it holds is not told rows, so that it may hold samples of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfleet.core.edges import MAX_SYNCS
from fedfleet.core.errors import Refused
from fedfleet.core.json_text import parse_json
from fedfleet.core.records import Ints
from fedfleet.core.tensor_format import pack_tree, unpack_tree

_ALL = -1  # rows of a device that trains on all that it holds


@dataclass(frozen=True, slots=True)
class EdgeSync:
    """One average: places of the edge's devices, the rows of each (None: all that it holds), and the steps (0: as usual).

    An `exchange` is no average: these devices give these rows away.
    """

    slots: Ints
    rows: tuple[Ints | None, ...]
    steps: int = 0
    exchange: bool = False


@dataclass(frozen=True, slots=True)
class EdgeTurn:
    """The turn of one edge. `task` is the server's number of it, by which devices draw their batches.

    `weight` replaces the devices' own weights at the server; `samples` are those on the edge's devices as the server knows them,
    and `stats` what the rule says of this turn. If samples change device, the first of `syncs` is the exchange, and `gets` says by
    place which rows come to a device.
    """

    task: int
    syncs: tuple[EdgeSync, ...]
    samples: int = 0
    weight: float | None = None
    stats: Mapping[str, float] = field(default_factory=dict[str, float])
    gets: Mapping[int, Ints] = field(default_factory=dict[int, Ints])

    @property
    def exchanges(self) -> int:
        """How many of its syncs are exchanges: one or none."""
        return int(self.syncs[0].exchange)

    @property
    def forwards(self) -> bool:
        """Does the exact sum of its reports go up? With several averages the last model does, as a difference."""
        return len(self.syncs) - self.exchanges == 1 and self.weight is None


def turn_to_bytes(turn: EdgeTurn) -> bytes:
    """A turn as it travels."""
    head = {
        "task": turn.task, "samples": turn.samples, "weight": turn.weight,
        "steps": [sync.steps for sync in turn.syncs], "exchange": bool(turn.exchanges),
        "stats": {n: v for n, v in turn.stats.items() if math.isfinite(v)},
    }  # fmt: skip
    rows = [rows for sync in turn.syncs for rows in sync.rows]
    columns = {
        "devices": np.array([len(sync.slots) for sync in turn.syncs], np.int64),
        "slots": np.concatenate([sync.slots for sync in turn.syncs]).astype(np.int64),
        "counts": np.array([_ALL if some is None else len(some) for some in rows], np.int64),
        "rows": np.concatenate([np.zeros(0, np.int64), *(some for some in rows if some is not None)]).astype(np.uint32),
    }
    columns |= {f"gets/{place}": rows.astype(np.uint32) for place, rows in turn.gets.items()}
    text: Any = np.frombuffer(json.dumps(head, sort_keys=True, allow_nan=False).encode(), np.uint8)
    return pack_tree({**columns, "head": text})


def turn_from_bytes(data: bytes, slots: int) -> EdgeTurn:
    """The inverse of `turn_to_bytes`, for an edge with so many places; `Refused` if it cannot be carried out."""
    try:
        tree = unpack_tree(data)
        head = parse_json(tree["head"].tobytes())
        devices, places, counts, rows = (tree[name].astype(np.int64) for name in ("devices", "slots", "counts", "rows"))
        steps = [int(n) for n in head["steps"]]
        known = np.maximum(counts, 0)
        if not len(devices) == len(steps) or devices.sum() != len(places) or len(places) != len(counts) or known.sum() != len(rows):
            raise Refused("the turn that the server sent contradicts itself")
        pieces = np.split(rows, np.cumsum(known)[:-1]) if len(known) else []
        of_device = [None if count < 0 else piece for count, piece in zip(counts.tolist(), pieces, strict=True)]
        ends = np.cumsum(devices).tolist()
        syncs = [
            EdgeSync(places[end - n : end], tuple(of_device[end - n : end]), step, exchange=k == 0 and head["exchange"] is True)
            for k, (end, n, step) in enumerate(zip(ends, devices.tolist(), steps, strict=True))
        ]
        gets = {int(name.removeprefix("gets/")): rows.astype(np.int64) for name, rows in tree.items() if name.startswith("gets/")}
        weight = None if head["weight"] is None else float(head["weight"])
        stats = {str(name): float(value) for name, value in head["stats"].items()}
        turn = EdgeTurn(int(head["task"]), tuple(syncs), int(head["samples"]), weight, stats, gets)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refused(f"the turn that the server sent cannot be read ({type(error).__name__}: {error})") from None
    _check(turn, slots)
    return turn


def _check(turn: EdgeTurn, slots: int) -> None:
    averages = len(turn.syncs) - turn.exchanges if turn.syncs else 0
    if not 0 < averages <= MAX_SYNCS or turn.task < 0:
        raise Refused(f"a turn has 1 to {MAX_SYNCS} averages, and the server sent {averages}")
    if turn.exchanges:
        given = np.concatenate([np.zeros(0, np.int64) if some is None else some for some in turn.syncs[0].rows])
        got = np.concatenate([np.zeros(0, np.int64), *turn.gets.values()])
        if len(np.unique(given)) != len(given) or not np.array_equal(np.sort(given), np.sort(got)):
            raise Refused("the server lets devices get other samples than devices give")
    if not all(0 <= place < slots for place in turn.gets) or bool(turn.gets) != bool(turn.exchanges):
        raise Refused("the server lets samples change device without an exchange, or to a device that this edge does not have")
    for sync in turn.syncs:
        places = sync.slots
        if not len(places) or (np.diff(places) <= 0).any() or places[0] < 0 or places[-1] >= slots or sync.steps < 0:
            raise Refused(f"the server asks for devices that this edge does not have: it has places for {slots}")
