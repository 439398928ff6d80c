"""Which arm to use, by an aim, how sure that is, and what it costs.

Pages, tables and the command line ask here, so that one comparison has one answer:

    >>> import numpy as np
    >>> from pathlib import Path
    >>> from fedfleet.app.studies.compare.records import Arm, ComparedRun
    >>> def run(name, seed, ends):
    ...     table, metrics = {"seed": seed, "task": {"use": "digits_mlp"}, "stop": {}}, {"participation": {"never": 0}}
    ...     at, curve = np.array([60.0, 3600.0]), np.array([0.1, ends])
    ...     return ComparedRun(name, Path(name), table, seed, metrics, at, curve, True, 3600.0, 60.0, 400, "digest")
    >>> arms = [
    ...     Arm("wait", {}, tuple(run(f"wait {seed}", seed, 0.9 + seed / 100) for seed in (1, 2, 3))),
    ...     Arm("hurry", {}, tuple(run(f"hurry {seed}", seed, 0.6 + seed / 90) for seed in (1, 2, 3))),
    ... ]
    >>> found = recommend(arms)  # by accuracy at equal time; aim="time", at=7200.0 and baseline="hurry" ask for something else
    >>> found.arm, found.decided, round(found.difference, 3), found.more_seeds
    ('wait', True, 0.298, None)
    >>> print(found.sentence.replace(", ", ",\\n"))
    Use 'wait': it reaches 92.0 % after 60.0 min of virtual time,
    29.8 points more than 'hurry' (95 % interval 29.1 to 30.5,
    3 seeds).
    >>> found.title
    "Use 'wait': 29.8 points more accurate than 'hurry'"

`asdict(found)` is what JSON answers have under `recommendation`. The arms need no keys; runs of one seed are compared with each
other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from fedfleet.app.studies.compare import recommendation_text as text
from fedfleet.app.studies.compare.criteria import Criterion, Yardstick, accuracy_in_hand, check_aim, criterion_of
from fedfleet.app.studies.compare.moments import Scores, drop_repeated_runs, equal_time, moment, pairs_of, scores
from fedfleet.app.studies.compare.records import LEAST_SEEDS, Arm, Pair, Recommendation, clock_of, score_of_runs
from fedfleet.app.studies.compare.target_times import choose_target
from fedfleet.measure.goal import Target
from fedfleet.measure.statistics.blocked_design import POOLED
from fedfleet.measure.statistics.looks import level_of_look, seeds_to_decide
from fedfleet.measure.statistics.paired_tests import PairedResult
from fedfleet.measure.statistics.simultaneous_tests import dunnett_quantile, range_quantile


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """What an arm costs and leaves out, as far as its runs say: means over them. `failed` of `runs` made no model at all."""

    name: str
    accuracy: float | None  # at the end
    end: float
    traffic: float | None
    never: float | None
    clients: int | None
    failed: int
    runs: int


def recommend(
    arms: Sequence[Arm],
    *,
    aim: str = "accuracy",
    at: float | None = None,
    target: Target | None = None,
    baseline: str | None = None,
    look: int = 1,
) -> Recommendation:
    """The arm to use. `at`: seconds after which accuracy is compared (default: when the shortest run ends); `target`: the score, or
    the limit of another measure, to which time, bytes and joules are counted; `look`: how often these arms have been compared,
    each time with more seeds."""
    each = [drop_repeated_runs(arm) for arm in arms]
    score = score_of_runs(run for arm in each for run in arm.runs)
    criterion = criterion_of(check_aim(aim), score)
    when = equal_time(each) if at is None else at
    goal = choose_target(each, moment(each, None).standings, target) if criterion.is_cost else None
    by = Yardstick(when if criterion.at_equal_time else None, goal)
    result = scores(each, criterion, by, baseline=baseline, look=look)
    if when is None or result.design is None or len(arms) < 2:
        return Recommendation(None, criterion.name, text.nothing_to_recommend(criterion, by, len(arms)))
    facts = {arm.name: arm_facts(arm) for arm in each}
    clock = clock_of(run for arm in each for run in arm.runs)
    return _Choice(each, criterion, by, result, facts, clock, look, baseline).recommendation()


def arm_facts(arm: Arm) -> ArmFacts:
    """The means of an arm over its runs."""
    runs = arm.runs
    never = [float(run.metrics["participation"]["never"]) for run in runs if "participation" in run.metrics]
    clients = [int(run.table["world"]["clients"]) for run in runs if run.table.get("world", {}).get("clients")]
    ends = [value for run in runs if (value := accuracy_in_hand(run, None)) is not None]
    known = all("bytes_up" in run.metrics for run in runs)
    return ArmFacts(
        arm.name,
        fmean(ends) if ends else None,
        fmean(run.end for run in runs) if runs else 0.0,
        fmean(float(run.metrics["bytes_up"] + run.metrics["bytes_down"]) for run in runs) if known and runs else None,
        fmean(never) if never else None,
        max(clients, default=None),
        sum(run.first is None for run in runs),
        len(runs),
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """The arms by one aim, and what follows."""

    arms: Sequence[Arm]
    criterion: Criterion
    by: Yardstick
    result: Scores
    facts: Mapping[str, ArmFacts]
    clock: str
    look: int
    baseline: str | None

    def recommendation(self) -> Recommendation:
        """The best arm, or of equal ones the cheapest; with the pair that is hardest to tell apart."""
        assert self.result.design is not None
        pairs = pairs_of(self.result.design.contrasts)
        leader = self.result.design.arm
        equals = [pair for pair in pairs if self._is_equal(pair)]
        doubts = [
            pair for pair in pairs if not pair.significant and pair not in equals and not self._is_beaten_without_test(pair.other)
        ]
        whole = not self.result.missing[leader] and not any(self.result.missing.values())
        complete = self.by.seconds is not None or all(run.ended for arm in self.arms for run in arm.runs)
        decided = not doubts and whole and complete and self._beats_all_untested(leader, pairs)
        chosen = self._preferred([leader, *(pair.other for pair in equals)]) if equals and decided else leader
        quoted = self._quoted(pairs, doubts, equals, chosen)
        result = Recommendation(
            arm=chosen,
            aim=self.criterion.name,
            sentence="",
            value=text.typical(self.criterion, list(self.result.values[chosen].values())),
            decided=decided,
            equal_within=max((self._width(pair) for pair in equals), default=None) if decided else None,
            method=self.result.design.method,
            look=self.look,
            pairs=tuple(self._in_units(pair) for pair in pairs),
            seeds=len(self.result.values[chosen]),
        )
        if quoted is not None and quoted.paired is None:
            result = replace(result, against=quoted.other, seeds=0)
        elif quoted is not None and quoted.paired is not None:
            shown, paired = self._in_units(quoted), quoted.paired
            assert shown.paired is not None
            more = None if decided else self._more_seeds(quoted, paired)
            result = replace(
                result, against=quoted.other if chosen == leader else leader,
                difference=shown.paired.difference, low=shown.paired.low, high=shown.paired.high,
                p=quoted.p, seeds=paired.n, unit=paired.unit, more_seeds=more,
            )  # fmt: skip
            if chosen != leader:
                result = replace(
                    result, difference=-shown.paired.difference,
                    low=None if shown.paired.high is None else -shown.paired.high,
                    high=None if shown.paired.low is None else -shown.paired.low,
                )  # fmt: skip
        runs = {arm.name: len(arm.runs) for arm in self.arms}
        failed = text.failures(self.result.without, runs, self.criterion, self.by)
        result = replace(result, failures=failed, tradeoffs=tuple(self._tradeoffs(chosen)))
        return text.with_words(result, self.criterion, self.by, self.clock, self.facts, [pair.other for pair in equals], leader)

    def _is_equal(self, pair: Pair) -> bool:
        """Whether the interval leaves room for a small difference only, on seeds enough, and the difference is not significant."""
        result = pair.paired
        if result is None or result.n < LEAST_SEEDS or pair.significant or result.low is None:
            return False
        typical = text.typical(self.criterion, list(self.result.values[pair.leader].values()))
        return self._width(pair) <= self.criterion.margin(typical)

    def _width(self, pair: Pair) -> float:
        result = self._in_units(pair).paired
        assert result is not None and result.low is not None and result.high is not None
        return max(abs(result.low), abs(result.high))

    def _in_units(self, pair: Pair) -> Pair:
        """The pair with its difference as people know it."""
        result, of = pair.paired, self.criterion.difference
        if result is None or not self.criterion.is_cost:
            return pair
        low, high = (None if end is None else of(end) for end in (result.low, result.high))
        return replace(pair, paired=PairedResult(of(result.difference), low, high, result.p, result.n, result.unit))

    def _is_beaten_without_test(self, arm: str) -> bool:
        """An arm of which no run got there, tried often enough."""
        runs = next(one.runs for one in self.arms if one.name == arm)
        return self.result.without[arm] == len(runs) >= LEAST_SEEDS

    def _beats_all_untested(self, leader: str, pairs: Sequence[Pair]) -> bool:
        """Arms without any value are in no pair: they must have been tried often enough, as the leader itself."""
        tested = {leader, *(pair.other for pair in pairs)}
        rest = [arm.name for arm in self.arms if arm.name not in tested]
        return (
            len(self.result.values[leader]) >= LEAST_SEEDS
            and not self.result.without[leader]
            and all(map(self._is_beaten_without_test, rest))
        )

    def _preferred(self, equal: Sequence[str]) -> str:
        """Of equal arms the one that leaves out fewest clients, then the one that ends first, then the one that sends least."""

        def key(arm: str) -> tuple[float, float, float]:
            one = self.facts[arm]
            return (round(one.never or 0.0), one.end, one.traffic or 0.0)

        return min(equal, key=key)

    def _quoted(self, pairs: Sequence[Pair], doubts: Sequence[Pair], equals: Sequence[Pair], chosen: str) -> Pair | None:
        """The pair that decides: the least certain of those in doubt, else the closest, first of all to the arm that is
        recommended."""
        tried = [pair for pair in pairs if not self._is_beaten_without_test(pair.other)]
        known = [pair for pair in tried if pair.paired is not None]
        if own := [pair for pair in known if pair.other == chosen]:
            return own[0]
        contenders = [pair for pair in known if not self.result.without[pair.other]]
        if unsure := [pair for pair in doubts if pair.paired is not None]:
            among = [pair for pair in unsure if pair in contenders] or unsure
            return max(among, key=lambda pair: (2.0 if pair.p is None else pair.p, -_gap(pair)))
        return min(equals or contenders or known, key=_gap, default=next(iter(tried), None))

    def _more_seeds(self, pair: Pair, result: PairedResult) -> int | None:
        """How many more seeds would decide if the difference is as it looks, looking once more."""
        design = self.result.design
        assert design is not None
        if result.n < 2 or result.difference <= 0 or result.low is None or result.high is None:
            return None
        arms, is_contender = len(self.result.contenders), pair.other in self.result.contenders
        pooled = design.method == POOLED and is_contender and result.unit == "seeds"
        freedom, count = ((arms - 1) * (result.n - 1), arms) if pooled else (result.n - 1, 2)
        span = 2 + [one.other for one in design.contrasts].index(pair.other) if pooled else 2
        near = (
            (lambda level, df: dunnett_quantile(level, arms - 1, df))
            if pooled and self.baseline in (pair.leader, pair.other)
            else (lambda level, df: range_quantile(level, span, df))
        )
        reach = min(result.difference - result.low, result.high - result.difference)
        error = reach / near(level_of_look(self.look), freedom)
        sd = error * (result.n / 2) ** 0.5
        seeds = seeds_to_decide(result.difference, sd, result.n, count, level_of_look(self.look + 1), near)
        return None if seeds is None else max(seeds, LEAST_SEEDS) - result.n

    def _tradeoffs(self, chosen: str) -> list[str]:
        """What speaks against the arm, and for another."""
        points = {arm: self.criterion.score(fmean(v.values())) for arm, v in self.result.values.items() if v}
        rivals = {arm: self.facts[arm] for arm in self.result.contenders}
        found = [
            text.left_out(chosen, self.facts, points if not self.criterion.is_cost else {}, self.criterion),
            text.better_at_the_end(chosen, self.facts, self.criterion.score_info)
            if self.by.seconds is not None or self.criterion.is_cost
            else "",
            text.traffic_of_others(chosen, rivals) if self.criterion.name != "bytes" else "",
        ]
        return [one for one in found if one]


def _gap(pair: Pair) -> float:
    return pair.paired.difference if pair.paired else 0.0
