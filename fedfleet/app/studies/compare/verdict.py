"""Who is better, and how sure that is: at the end of every run, and at equal time.

100 rounds can be hours for one run and weeks for another, so that the end alone flatters the slow. A winner is named only if it
beats every other arm at both moments, on at least three common seeds, by paired tests with Holm's correction; one seed describes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedfleet.app.studies.compare import verdict_text
from fedfleet.app.studies.compare.arms import draws_of, seed_of
from fedfleet.app.studies.compare.records import (
    LEAST_SEEDS,
    Arm,
    ArmTargetTime,
    ComparedRun,
    Moment,
    Pair,
    Standing,
    Verdict,
    clock_of,
)
from fedfleet.app.studies.compare.run_data import accuracy_at
from fedfleet.app.terminal.value_checks import number
from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.paired_tests import Draws, holm, mean_over, paired_test_over
from fedfleet.measure.statistics.survival import TargetTime, median_time, restricted_mean, target_time

_NORMAL = 1.959964
_DATA_SETTINGS = ("pictures", "samples", "stride", "per_role", "test_users")  # settings of tasks that choose samples, not models


def verdict(arms: Sequence[Arm]) -> Verdict:
    """The verdict on these arms, in one sentence with its uncertainty."""
    each = [drop_repeated_runs(arm) for arm in arms]
    unlike = unlike_data(each)
    when = equal_time(each)
    at_end = moment(each, None, fair=not unlike)
    at_equal = None if when is None else moment(each, when, fair=not unlike)
    wins = {at_end.winner, at_equal.winner if at_equal else None}
    winner = at_end.winner if len(wins) == 1 else None
    sentence = verdict_text.sentence(arms, each, at_end, at_equal, winner, unlike)
    caveats = tuple(verdict_text.caveats(arms, each, at_end, at_equal))
    return Verdict(sentence, at_end, at_equal, winner is not None, winner, caveats)


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


def moment(arms: Sequence[Arm], seconds: float | None, *, fair: bool = True) -> Moment:
    """Standings, the leader against each other arm, and the winner if there is one; `fair`: their accuracies can be compared."""
    standings, clock = tuple(standing(arm, seconds) for arm in arms), clock_of(run for arm in arms for run in arm.runs)
    known = [s for s in standings if s.mean is not None]
    if not fair or not known:
        return Moment(seconds, standings, (), None, None, clock)
    leader = max(known, key=lambda s: s.mean.value if s.mean else 0.0)
    draws = {seed_of(run): draws_of(run) for arm in arms for run in arm.runs}
    tested = min((run.tested for arm in arms for run in arm.runs if run.tested), default=0)
    pairs = _pairs(leader, [s for s in known if s is not leader], draws, 1 / tested if tested else 0.0)
    going_on = seconds is None and any(not run.ended for arm in arms for run in arm.runs)
    won = len(arms) > 1 and not going_on and _leader_wins(leader, standings, pairs)
    return Moment(seconds, standings, pairs, leader.arm, leader.arm if won else None, clock)


def standing(arm: Arm, seconds: float | None) -> Standing:
    """What an arm had reached at a moment; None: at the end of each of its runs."""
    result: dict[str, float] = {}
    draws = list[Draws]()
    for run in arm.runs:
        value = accuracy_at(run, run.end if seconds is None else seconds)
        if value is not None:
            result[seed_of(run)] = value
            draws.append(draws_of(run))
    nothing = all(run.first is None or run.first > (run.end if seconds is None else seconds) for run in arm.runs)
    missing = len(arm.runs) + arm.lost - len(result)
    if not result:
        return Standing(arm.name, None, {}, None, missing, nothing)
    mean = mean_over(list(result.values()), draws, least=0.0, most=1.0)
    tested = min((run.tested for run in arm.runs if run.tested), default=0)
    return Standing(arm.name, mean, result, sampling_error(mean.value, tested) if tested else None, missing, nothing)


def sampling_error(share: float, tested: int) -> float:
    """The test set's own +- (95 %): what another draw of so many samples would change, by Wilson's interval.

    >>> round(sampling_error(0.9, 360), 3)
    0.031
    """
    z = _NORMAL
    return z * math.sqrt(share * (1 - share) / tested + z * z / (4 * tested * tested)) / (1 + z * z / tested)


def _pairs(leader: Standing, others: Sequence[Standing], draws: Mapping[str, Draws], sample: float) -> tuple[Pair, ...]:
    """The leader against each other on common seeds; p corrected for how many there are."""
    result = [paired_test_over(leader.by_seed, other.by_seed, draws, grain=sample) for other in others]
    corrected = holm([None if f is None else f.p for f in result])
    return tuple(Pair(leader.arm, o.arm, f, p) for o, f, p in zip(others, result, corrected, strict=True))


def _leader_wins(leader: Standing, standings: Sequence[Standing], pairs: Sequence[Pair]) -> bool:
    """Does the leader beat every other arm? One without any model or figure is beaten by all; one that lacks some is not."""
    bare = [s for s in standings if s.nothing and s.mean is None]
    if any(s.missing for s in standings if s not in bare):
        return False
    if leader.nothing or min(len(leader.by_seed), *(s.missing for s in bare), LEAST_SEEDS) < LEAST_SEEDS:
        return False
    return all(pair.significant for pair in pairs)


def unlike_data(arms: Sequence[Arm]) -> list[str]:
    """The names of the data if these arms are evaluated on different ones, whose accuracies cannot be compared; else nothing.

    Tasks are named data_model: two models on the same data may well be compared. Where the names of tasks differ, the same size of
    the test set must bear that out, and the same share of lucky guesses on those that one seed drew. Runs of one seed have one test
    set, or cannot be compared either.
    """
    runs = [run for arm in arms for run in arm.runs]
    names = dict.fromkeys(data_name(run) for run in runs)
    test_sets = {(_seed_of_data(run), run.tested, run.metrics.get("chance")) for run in runs if run.tested}
    alike = len({tested for _, tested, _ in test_sets}) <= 1 and len(test_sets) <= len({seed for seed, _, _ in test_sets})
    if len(names) == 1 and (len({run.task for run in runs}) == 1 or alike):
        sizes = [{run.tested for run in runs if run.tested and seed_of(run) == seed} for seed in map(seed_of, runs)]
        odd = next((sorted(result) for result in sizes if len(result) > 1), [])
        return [f"a test set of {n:,} samples" for n in odd]
    return list(names) if len(names) > 1 else list(dict.fromkeys(run.task for run in runs))


def _seed_of_data(run: ComparedRun) -> int:
    """What the test set was drawn by."""
    return int(run.table.get("seeds", {}).get("data", run.seed))


def data_name(run: ComparedRun) -> str:
    """The data on which a run is evaluated, by name."""
    task = run.table["task"]
    if "data" in task:
        return f"own data {task['data']}"
    name = run.task.rsplit("_", 1)[0]
    world: Mapping[str, Any] = run.table.get("world", {})
    chosen = {**{key: task.get(key) for key in _DATA_SETTINGS}, **{key: world.get(key) for key in ("holdout", "unseen")}}
    parts = [f"{key} {value}" for key, value in chosen.items() if value]
    return ", ".join([f"synthetic {name}" if task.get("synthetic") else name, *parts])


_SHARE, _GRID = 0.9, 20  # of the best accuracy, down to a twentieth


def choose_target(arms: Sequence[Arm], standings: Sequence[Standing], requested: float | None) -> float | None:
    """The accuracy to time: as asked, else what all specs stop at if a run got there, else nine tenths of the best mean at the end,
    rounded down to 5 %. None if nothing was evaluated."""
    if requested is not None:
        requested = number("--target", requested)
        if not 0 < requested <= 1:
            raise BadInput(f"--target {requested:g} must be a share above 0 and at most 1, such as 0.8")
        return requested
    runs = [run for arm in arms for run in arm.runs]
    specs = {run.table["stop"].get("target_accuracy") for run in runs}
    common = specs.pop() if len(specs) == 1 else None
    if common is not None and any(time_to(run, common).reached for run in runs):
        return float(common)
    best = max((s.mean.value for s in standings if s.mean), default=None)
    return None if best is None else max(1, math.floor(_SHARE * best * _GRID + 1e-9)) / _GRID


def arm_target_time(arm: Arm, target: float, horizon: float | None) -> ArmTargetTime:
    """The times of an arm's runs to the target together; `horizon`: until when every run was watched."""
    runs = [time_to(run, target) for run in arm.runs]
    times, reached = [r.seconds for r in runs], [r.reached for r in runs]
    watched = horizon is not None and horizon > 0 and all(r.reached or r.seconds >= horizon for r in runs)
    mean = restricted_mean(times, reached, horizon) if watched and horizon else None
    return ArmTargetTime(arm.name, median_time(times, reached), mean, sum(reached), len(runs))


def time_to(run: ComparedRun, target: float) -> TargetTime:
    """When a run first evaluated at the target or better, or its end without that."""
    return target_time(run.seconds, run.accuracy, run.end, target)
