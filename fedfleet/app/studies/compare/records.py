"""The records of a comparison: runs, arms, what they reached at two moments, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.core.records import Floats
from fedfleet.measure.statistics.means import Mean
from fedfleet.measure.statistics.paired_tests import PairedResult

VIRTUAL, REAL = "virtual", "real"
LEAST_SEEDS = 3  # with two, equal differences by chance look certain
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run, finished or not. Accuracy is a step: from seconds[i] on it is accuracy[i], until the next evaluation."""

    name: str  # short, and no other run of the comparison has it
    out: Path
    table: Mapping[str, Any]  # the resolved spec
    seed: int
    metrics: Mapping[str, Any]  # as metrics.json has them; of an unfinished run, of its journal so far
    seconds: Floats
    accuracy: Floats
    ended: bool
    end: float  # seconds of its last event, virtual ones unless it was served
    first: float | None  # seconds of its first model; None: it made none
    tested: int  # samples in the central test set; 0: it was never asked
    digest: str  # of the journal
    served: bool = False  # over a network, so that its seconds are real ones
    model: str = ""  # the name of its last model, which is the hash of its content

    @property
    def task(self) -> str:
        """The name of what it trains."""
        return str(self.table["task"]["use"])


def clock_of(runs: Iterable[ComparedRun]) -> str:
    """Which time passes in these runs, virtual or real; empty if both do, which cannot be compared."""
    result = {REAL if run.served else VIRTUAL for run in runs}
    return result.pop() if len(result) == 1 else ""


@dataclass(frozen=True, slots=True)
class Arm:
    """Runs whose specs differ in seeds only. `keys`: the values of the keys in which arms differ; their words are the name.

    `lost` counts further runs of it that made no model or could not be finished: leaving them out would flatter the arm.
    """

    name: str
    keys: Mapping[str, Any]
    runs: tuple[ComparedRun, ...]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What an arm had reached at a moment: its mean over seeds, each seed's accuracy, and the test set's own +- of one run.

    `missing` counts runs of which no accuracy is known at that moment; mean and test are None if that is all of them. `nothing`:
    not one of its runs had made a model by then, so that its accuracy is that of the first weights.
    """

    arm: str
    mean: Mean | None
    by_seed: Mapping[str, float]
    test: float | None
    missing: int
    nothing: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """The arm that leads against another on common seeds; `p` is corrected by Holm. None: they have no seed in common."""

    leader: str
    other: str
    paired: PairedResult | None
    p: float | None

    @property
    def significant(self) -> bool:
        """Is the difference one that chance does not explain? One that is the same on all seeds has no interval."""
        result = self.paired
        if result is None or result.n < LEAST_SEEDS or self.p is None:
            return False
        return (result.difference if result.low is None else result.low) > 0 and self.p < LEVEL


@dataclass(frozen=True, slots=True)
class Moment:
    """The verdict on the arms at one moment; `seconds` is None at the end of each, `leader` has the best mean.

    `clock` is what passes in all runs: virtual or real time; empty where some were served and others simulated.
    """

    seconds: float | None
    standings: tuple[Standing, ...]
    pairs: tuple[Pair, ...]
    leader: str | None
    winner: str | None
    clock: str = VIRTUAL


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence with its uncertainty; there is a winner only if it wins at the end and at equal time alike."""

    sentence: str
    at_end: Moment
    at_equal_time: Moment | None  # None: no moment is common to all
    sure: bool
    winner: str | None
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmTargetTime:
    """How long an arm took to reach the target: Kaplan and Meier's median (None: fewer than half got there), the mean restricted to
    the equal time, and how many of its runs got there."""

    arm: str
    median: float | None
    restricted: Mean | None
    reached: int
    runs: int
