"""WHERE: the world as sources, pure functions of (clients, time), vectorised. A deployment has no world: reality answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedfleet.core.edges import UserSource
from fedfleet.core.fleet import StateTable
from fedfleet.core.old_names import old_fields, old_symbols
from fedfleet.core.records import Bools, Cost, Floats, Ints, Keys


@dataclass(frozen=True, slots=True)
class DeviceSource:
    """How long work takes: `seconds(clients, cost, start, tasks)`; infinite if a device cannot do it at all.

    `kinds[i]` names client i's kind of device; `tasks` addresses what varies from trip to trip. `memory_mb(clients)`, where it is
    known, is NaN for those of whom it is not. A source made by core.stages's `source_from_stages` says what its seconds go into as
    well.
    """

    seconds: Callable[[Ints, Cost, float, Ints], Floats]
    kinds: Sequence[str]
    memory_mb: Callable[[Ints], Floats] | None = None


@dataclass(frozen=True, slots=True)
class StateSource:
    """Who is reachable: `online(t)` for all clients; `finish(clients, start, seconds)` when that many ready seconds passed.

    `earliest(among, n, start, until)` is the first moment from `start` on, and before `until`, at which `online` says yes for n
    of the clients that the mask `among` names; infinite if there is none. Without it, policies that wait
    for clients look every 20 s.
    `worked(clients, start, until)` is the inverse of `finish`: how many ready seconds passed; without it `finish` is searched.

    What the source says about itself: `always`: every client is reachable at all times and no work is interrupted. `table()`:
    the ready intervals by which clients come and go, if they are periodic and all that decides; by them the Monte-Carlo metrics
    measure it. `warnings` are sentences about its own parameters. A wrapper that changes `online` must say `always` and
    `table` again.
    """

    online: Callable[[float], Bools]
    finish: Callable[[Ints, float, Floats], Floats]
    earliest: Callable[[Bools, int, float, float], float] | None = None
    worked: Callable[[Ints, float, Floats], Floats] | None = None
    always: bool = False
    table: Callable[[], StateTable] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FaultDraws:
    """What befalls tasks, one entry each. A task is lost when `part` of its stage `stage` (a place in STAGES; -1: none) is done, or
    at the time `crash`, whichever is earlier (infinite: never). `noticed`: the server hears at once of what is lost in a stage;
    of a crash it never hears.

    `late` are the seconds between the end of the upload and the arrival of the report; `again` those until it arrives once more
    (infinite: it does not).
    """

    stage: Ints
    part: Floats
    crash: Floats
    noticed: Bools
    late: Floats
    again: Floats


@old_fields(slowed="slowdown", befall="draw")
@dataclass(frozen=True, slots=True)
class FaultSource:
    """What goes wrong, addressed by task or by window of time, never by the bits of a time.

    `slowdown(clients, start, tasks)` are factors on the seconds of work, 1 or more. `draw(clients, start, ends, tasks)` is what
    happens to tasks that would end at `ends`. `away(t)` are the clients that are down, whatever their state says; `back(t)` is the
    next moment after t at which any of them may return (infinite: none does). `silences`: a task can be lost without a word.
    """

    slowdown: Callable[[Ints, float, Ints], Floats]
    draw: Callable[[Ints, float, Floats, Ints], FaultDraws]
    away: Callable[[float], Bools] | None = None
    back: Callable[[float], float] | None = None
    silences: bool = False


@dataclass(frozen=True, slots=True)
class EnergySource:
    """What work draws from batteries: `charges(clients, spent, start)` for seconds by stage, spent from `start` on.

    Named columns, one entry per task: joules, and grams of CO2 where the source knows the grid.
    """

    charges: Callable[[Ints, Mapping[str, Floats], Floats], Mapping[str, Floats]]


Split = Literal["train", "valid", "test"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """Who holds what: `shard(client, split, round)` as row numbers of the dataset; `sizes(round)` of the training shards.

    `testers` are the clients with test samples of their own; `holdout` are the rows of the central test set, `unseen` those of
    people whose samples no client holds.
    """

    shard: Callable[[int, Split, int], Ints]
    sizes: Callable[[int], Ints]
    testers: Ints
    holdout: Ints
    unseen: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class World:
    """Heterogeneity: devices, states, data, and the clients' keys. A deployment has none: reality answers.

    `users` says whose device each client is, where that is known; `faults` what goes wrong (None: nothing), `energy` what work
    draws (None: not known). `free_probes`: looking at clients before picking takes neither time nor bytes.
    """

    keys: Keys
    devices: DeviceSource
    states: StateSource
    data: DataSource
    users: UserSource | None = None
    faults: FaultSource | None = None
    energy: EnergySource | None = None
    free_probes: bool = False


if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, Mishaps="FaultDraws")
