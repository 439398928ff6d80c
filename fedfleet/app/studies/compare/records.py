"""The records of a comparison: runs, arms, what they reached at two moments, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.records import Floats
from fedfleet.measure.score_info import ScoreInfo, score_info_of
from fedfleet.measure.statistics.means import Mean
from fedfleet.measure.statistics.paired_tests import PairedResult

VIRTUAL, REAL = "virtual", "real"
LEAST_SEEDS = 3  # with two, equal differences by chance look certain
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run, finished or not. Accuracy, which is the score of whatever kind of task, is a step: from seconds[i] on it is
    accuracy[i], until the next evaluation; so are the other `measures`, NaN where one was not computed."""

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
    traffic: Floats = field(default_factory=lambda: np.empty(0))  # bytes until each evaluation, both directions; empty: not known
    joules: Floats = field(default_factory=lambda: np.empty(0))  # of all devices until each evaluation; empty: not known
    measures: Mapping[str, Floats] = field(default_factory=dict[str, Floats])

    @property
    def score(self) -> ScoreInfo:
        """What its score is called, and how it is read."""
        return score_info_of(self.metrics)

    @property
    def task(self) -> str:
        """The name of what it trains."""
        return str(self.table["task"]["use"])


def score_of_runs(runs: Iterable[ComparedRun]) -> ScoreInfo:
    """What the score of these runs is called: that of the first."""
    return next((run.score for run in runs), ScoreInfo())


def clock_of(runs: Iterable[ComparedRun]) -> str:
    """Which time passes in these runs, virtual or real; empty if both do, which cannot be compared."""
    result = {REAL if run.served else VIRTUAL for run in runs}
    return result.pop() if len(result) == 1 else ""


@dataclass(frozen=True, slots=True)
class Arm:
    """Runs whose specs differ in seeds only. `keys`: the values of the keys in which arms differ; their words are the name.

    `lost` counts further runs of it that could not be finished, so that their result is not known.
    """

    name: str
    keys: Mapping[str, Any]
    runs: tuple[ComparedRun, ...]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What an arm had reached at a moment: its mean over seeds, each seed's accuracy, and the test set's own +- of one run.

    A run that had no model by then counts with its first weights, or with chance where those were not evaluated: that is what a
    user would hold. `without` counts such runs; `nothing`: that is all of them. `missing` counts runs of which no accuracy is
    known at that moment; mean and test are None if that is all of them.
    """

    arm: str
    mean: Mean | None
    by_seed: Mapping[str, float]
    test: float | None
    missing: int
    nothing: bool
    without: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """The arm that leads against another on common seeds; None: they have no seed in common.

    The interval and `p` are corrected for the number of arms and of looks; `paired.p` is not.
    """

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
class Recommendation:
    """Which arm to use, by an aim, and how sure that is. `sentence` says all of it, `title` the gist in a line.

    `difference` is how far `arm` is ahead of `against`, the arm that is hardest to tell from it, with its 95 % interval and p,
    corrected for the number of arms and of looks: in accuracy (0.04 are 4 points), in another measure (positive: better, also
    where less is better), or as the share of a cost that is saved.
    `decided`: the arm is significantly better than every other, or equal to some within `equal_within` and better than the rest.
    If not, `more_seeds` says how many further seeds would decide with 80 % power (None: not known, or more than a study could
    have). `arm` is None where there is nothing to recommend; then the sentence says why.
    """

    arm: str | None
    aim: str
    sentence: str
    title: str = ""
    value: float | None = None
    against: str | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    seeds: int = 0
    unit: str = "seeds"
    decided: bool = False
    equal_within: float | None = None
    more_seeds: int | None = None
    failures: str = ""
    tradeoffs: tuple[str, ...] = ()
    method: str = ""
    look: int = 1
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence with its uncertainty. `winner` is the arm that is recommended, if it is surely better than every other by the
    aim; `sure` if there is one. The two moments say who leads at the end of every run and at equal time."""

    sentence: str
    at_end: Moment
    at_equal_time: Moment | None  # None: no moment is common to all
    sure: bool
    winner: str | None
    caveats: tuple[str, ...]
    recommendation: Recommendation


@dataclass(frozen=True, slots=True)
class ArmTargetTime:
    """How long an arm took to reach the target: Kaplan and Meier's median (None: fewer than half got there), the mean restricted to
    the equal time, and how many of its runs got there."""

    arm: str
    median: float | None
    restricted: Mean | None
    reached: int
    runs: int
