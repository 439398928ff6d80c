"""The error band: how far predictions were off on fleets that were trained to find out, by how much had been learnt.

band.json is made by `python -m studies.predict --split development --band FILE` and says how.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from fedfleet.core.records import Floats

_FILE = Path(__file__).with_name("band.json")


@dataclass(frozen=True, slots=True)
class Band:
    """How far below and above a prediction nine of ten trained runs lay, as a share of all that can be learnt.

    `progress` is where on the way from the untrained to the ideal model that was; between these places it is interpolated.
    """

    progress: Floats
    below: Floats
    above: Floats
    note: str

    def margins_at(self, progress: Floats) -> tuple[Floats, Floats]:
        """The band at these places."""
        return np.interp(progress, self.progress, self.below), np.interp(progress, self.progress, self.above)


@cache
def band() -> Band:
    """The band that comes with this version."""
    table = json.loads(_FILE.read_text(encoding="utf-8"))
    columns = (np.array(table[name], np.float64) for name in ("progress", "below", "above"))
    return Band(*columns, note=str(table["said"]))
