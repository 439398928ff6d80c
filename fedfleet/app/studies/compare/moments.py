"""What arms had reached at a moment, and which of them leads: the values by seed, and their tests as a blocked design."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedfleet.app.studies.compare.arms import draws_of, seed_of
from fedfleet.app.studies.compare.criteria import Criterion, Yardstick, criterion_of, has_model
from fedfleet.app.studies.compare.records import (
    LEAST_SEEDS,
    Arm,
    ComparedRun,
    Moment,
    Pair,
    Standing,
    clock_of,
    score_of_runs,
)
from fedfleet.measure.statistics.blocked_design import BlockedDesign, Contrast, best_against_others
from fedfleet.measure.statistics.looks import level_of_look
from fedfleet.measure.statistics.means import Mean
from fedfleet.measure.statistics.paired_tests import mean_over

_NORMAL = 1.959964


@dataclass(frozen=True, slots=True)
class Scores:
    """The values of arms by an aim. `values`: by arm and seed, of runs that have one; `without` counts an arm's runs that did not
    get there (no model by then, target not reached), `missing` those of which nothing is known. `design` has the tests; None:
    nothing to test.
    """

    values: Mapping[str, Mapping[str, float]]
    without: Mapping[str, int]
    missing: Mapping[str, int]
    design: BlockedDesign | None

    @property
    def contenders(self) -> list[str]:
        """Arms of which every run got there; all arms with values, if there is none."""
        known = [arm for arm, values in self.values.items() if values]
        return [arm for arm in known if not self.without[arm]] or known


def drop_repeated_runs(arm: Arm) -> Arm:
    """The arm with one run of each seed: a seed that was run twice is still one observation."""
    first: dict[str, ComparedRun] = {}
    for run in arm.runs:
        first.setdefault(seed_of(run), run)
    return replace(arm, runs=tuple(first.values()))


def equal_time(arms: Sequence[Arm]) -> float | None:
    """The end of the shortest run; runs that made no model, or evaluated none, do not count. None: there is no such moment, for
    one where some runs have real time and others virtual time."""
    if not clock_of(run for arm in arms for run in arm.runs):
        return None
    return min((run.end for arm in arms for run in arm.runs if run.first is not None and len(run.accuracy)), default=None)


def scores(arms: Sequence[Arm], criterion: Criterion, by: Yardstick, *, baseline: str | None = None, look: int = 1) -> Scores:
    """The values of these arms, one run of each seed, and the tests of the best against the others.

    Arms of which some runs did not get there are not in the pooled design, since such runs are no residuals of it; each is tested
    against the best by itself.
    """
    values, without, missing = dict[str, dict[str, float]](), dict[str, int](), dict[str, int]()
    for arm in arms:
        known = {seed_of(run): criterion.value(run, by) for run in arm.runs}
        values[arm.name] = {seed: value for seed, value in known.items() if value is not None}
        without[arm.name] = sum(not _got_there(criterion, run, known[seed_of(run)], by) for run in arm.runs)
        unknown = sum(value is None for value in known.values()) - (without[arm.name] if criterion.is_cost else 0)
        missing[arm.name] = arm.lost + max(0, unknown)
    result = Scores(values, without, missing, None)
    if not result.contenders:
        return result
    points = {arm: {seed: criterion.score(value) for seed, value in mine.items()} for arm, mine in values.items()}
    draws = {seed_of(run): draws_of(run) for arm in arms for run in arm.runs}
    tested = min((run.tested for arm in arms for run in arm.runs if run.tested), default=0)
    counts = criterion.name == "accuracy" and criterion.score_info.counts_answers
    grain = 1 / tested if tested and counts else 0.0
    level = level_of_look(look)
    known = {arm: mine for arm, mine in points.items() if mine}
    design = best_against_others(
        known, draws, grain=grain, level=level, baseline=baseline, apart=known.keys() - {*result.contenders}
    )
    return replace(result, design=design)


def _got_there(criterion: Criterion, run: ComparedRun, value: float | None, by: Yardstick) -> bool:
    """Whether the run has a value of its own, and not that of its first weights; what is not known is not held against it."""
    if criterion.is_cost:
        return value is not None
    return has_model(run, by.seconds)


def moment(arms: Sequence[Arm], seconds: float | None, *, fair: bool = True, baseline: str | None = None, look: int = 1) -> Moment:
    """Standings, the leader against each other arm, and the winner if there is one; `fair`: their accuracies can be compared."""
    criterion = criterion_of("accuracy", score_of_runs(run for arm in arms for run in arm.runs))
    result = scores(arms, criterion, Yardstick(seconds), baseline=baseline, look=look)
    standings, clock = tuple(standing(arm, result) for arm in arms), clock_of(run for arm in arms for run in arm.runs)
    if not fair or result.design is None:
        return Moment(seconds, standings, (), None, None, clock)
    pairs = pairs_of(result.design.contrasts)
    going_on = seconds is None and any(not run.ended for arm in arms for run in arm.runs)
    leader = result.design.arm
    won = len(arms) > 1 and not going_on and leader_wins(leader, standings, pairs)
    return Moment(seconds, standings, pairs, leader, leader if won else None, clock)


def pairs_of(contrasts: Sequence[Contrast]) -> tuple[Pair, ...]:
    """Contrasts as pairs of a comparison."""
    return tuple(Pair(one.arm, one.other, one.paired, one.p) for one in contrasts)


def standing(arm: Arm, result: Scores) -> Standing:
    """What an arm had reached at the moment of these scores."""
    values = result.values[arm.name]
    without = result.without[arm.name]
    nothing = without == len(arm.runs)
    if not values:
        return Standing(arm.name, None, {}, None, result.missing[arm.name], nothing, without)
    mean = mean_of_arm(arm, values)
    tested = min((run.tested for run in arm.runs if run.tested), default=0)
    error = sampling_error(mean.value, tested) if tested and score_of_runs(arm.runs).counts_answers else None
    return Standing(arm.name, mean, values, error, result.missing[arm.name], nothing, without)


def mean_of_arm(arm: Arm, values: Mapping[str, float]) -> Mean:
    """The mean of an arm's scores with its interval; runs that share a fleet, data or training count as one."""
    draws = [draws_of(run) for run in arm.runs if seed_of(run) in values]
    return mean_over(
        [values[seed_of(run)] for run in arm.runs if seed_of(run) in values], draws, least=score_of_runs(arm.runs).least, most=1.0
    )


def sampling_error(share: float, tested: int) -> float:
    """The test set's own +- (95 %): what another draw of so many samples would change, by Wilson's interval.

    >>> round(sampling_error(0.9, 360), 3)
    0.031
    """
    z = _NORMAL
    return z * math.sqrt(share * (1 - share) / tested + z * z / (4 * tested * tested)) / (1 + z * z / tested)


def leader_wins(leader: str, standings: Sequence[Standing], pairs: Sequence[Pair]) -> bool:
    """Does the leader beat every other arm? One without any model is beaten by all; one of which a result is not known, by none."""
    by_arm = {s.arm: s for s in standings}
    mine = by_arm[leader]
    others = {pair.other: pair for pair in pairs}
    if mine.without or mine.missing or len(mine.by_seed) < LEAST_SEEDS:
        return False
    return all(_is_beaten(s, others.get(s.arm)) for s in standings if s is not mine)


def _is_beaten(other: Standing, pair: Pair | None) -> bool:
    """Whether an arm without any model was run often enough, or the leader is significantly better."""
    if other.nothing:
        return other.without >= LEAST_SEEDS
    return not other.missing and pair is not None and pair.significant
