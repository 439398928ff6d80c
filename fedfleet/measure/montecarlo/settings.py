"""What the six metrics can be asked with, and where the paper and its released code differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable
from fedfleet.core.records import Floats

Semantics = Literal["paper", "released"]
# ViT-B/16 with two classes in fp32, in the units of the released code: KiB of parameters over kB/s of speed.
_MOST_EMPTY = 1e8  # rounds; they take some seconds
VIT_KB = 85800194 * 4 / 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of the metrics. `t_cost` says over which constant costs the state metrics average.

    `is_released` follows the published program: whole seconds of availability, no compute term, the grids 10, 20, .. deadline
    (StatMC-R) and 0, 10, .. 240 (StatMC-T), and a t_break that never changes inside the simulation. `paper` follows the
    text: exact intervals, 3 x samples x seconds per sample, and the midpoint rule with 12 points on (0, deadline).
    In both, success is elapsed <= deadline, t_break passes once a round and is never compared with the deadline, and
    trips count selected clients.
    """

    k: int = 20
    rounds: int = 3000
    trips: int = 10000
    deadline: float = 120.0
    ready_share: float = 0.8
    t_cost: float | Literal["uniform", "deadline"] = "uniform"
    semantics: Semantics = "paper"
    size_kb: float = VIT_KB
    samples: float = 1.0
    t_break_asked: float = 20.0

    @property
    def is_released(self) -> bool:
        """Does it follow the published program?"""
        return self.semantics == "released"

    @property
    def t_break(self) -> float:
        """The pause that passes in the simulation; the released program passes 20 seconds whatever it is told."""
        return 20.0 if self.is_released else self.t_break_asked

    def clients(self, devices: DeviceTable | None, states: StateTable | None) -> int:
        """How many clients the tables hold; both must agree."""
        n = len(devices) if devices is not None else len(states) if states is not None else 0
        if devices is not None and states is not None and len(states) != n:
            raise BadInput(f"{n} devices and {len(states)} states: row i of each is client i, so give the same number of both")
        if n < 1:
            raise BadInput("there is no client to measure; give a devices file, a states file, or both")
        if self.k > n:
            raise BadInput(f"clients-k: {self.k} clients a round cannot be chosen from a fleet of {n}")
        return n

    def most_empty_rounds(self, states: StateTable | None) -> int:
        """So many rounds in a row without anyone ready mean that nobody ever will be again.

        Rounds begin every t_break seconds then; where both are whole seconds, a trace looks the same to them after at most as many
        rounds as its period has seconds. Shorter pauses need more rounds to see all of it; at some point it is enough.
        """
        if states is None:
            return 1
        return math.ceil(min(float(states.traces.period.max()) / min(self.t_break, 1.0), _MOST_EMPTY)) + 1

    def s_ideal(self, n: int) -> float:
        """How often each client would take part if all were alike and always there."""
        return self.k * self.rounds / n

    def compute_seconds(self, seconds_per_sample: float) -> float:
        """The compute term of Eq. (3), which the released program leaves out."""
        return 0.0 if self.is_released else TRAINING_PASSES * self.samples * seconds_per_sample

    def costs(self, *, by_deadline: bool) -> Floats:
        """The constant costs over which a state metric is averaged."""
        match self.t_cost:
            case "deadline":
                return np.array([self.deadline])
            case "uniform":
                if not self.is_released:
                    return np.array([(i + 0.5) * self.deadline / 12 for i in range(12)])
                return np.arange(10.0, self.deadline + 10.0, 10.0) if by_deadline else np.arange(0.0, 241.0, 10.0)
            case seconds:
                return np.array([float(seconds)])
