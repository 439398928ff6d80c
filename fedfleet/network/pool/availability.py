"""Who is offline at which moment, by the states of the simulation, and who crashes, by its faults. A second is a second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.records import Bools, Ints
from fedfleet.core.sources import World


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since the last look: clients that come online or go offline, and clients that crash, which are offline too."""

    online: Ints
    offline: Ints
    crashed: Ints


class Availability:
    """The states and faults of a world as changes from look to look. It remembers the last look."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._online: Bools = np.ones(len(world.keys), np.bool_)
        self._away: Bools = np.zeros(len(world.keys), np.bool_)

    @property
    def constant(self) -> bool:
        """Whether nothing ever changes."""
        faults = self._world.faults
        return self._world.states.always and (faults is None or faults.away is None)

    def look(self, seconds: float) -> Changes:
        """What changed until so many seconds after the beginning of the run. At the beginning everyone counts as online and up."""
        online = np.asarray(self._world.states.online(seconds), np.bool_)
        faults = self._world.faults
        away = np.zeros(len(online), np.bool_) if faults is None or faults.away is None else faults.away(seconds)
        online = online & ~away
        changes = Changes(
            np.flatnonzero(online & ~self._online), np.flatnonzero(self._online & ~online), np.flatnonzero(away & ~self._away)
        )
        self._online, self._away = online.copy(), np.array(away)
        return changes
