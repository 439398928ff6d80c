"""A comparison in words: the verdict in one sentence, and the warnings that belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedfleet.app.studies.compare.arms import draws_of, quote, seed_of
from fedfleet.app.studies.compare.records import Arm, Moment, Pair, Standing, clock_of
from fedfleet.app.terminal.text import join_words, percent, span
from fedfleet.measure.statistics.paired_tests import shared_parts

_NAMED = 4  # arms that are named in a sentence
_NO_LEAD = 0.0005  # a smaller difference is 0.0 points
_REPEAT = "repeat the runs with the same three or more seeds"


def sentence(
    arms: Sequence[Arm], each: Sequence[Arm], at_end: Moment, at_equal: Moment | None, winner: str | None, unlike: Sequence[str]
) -> str:
    """The verdict. `each` are the arms with one run of every seed."""
    if unlike:
        return (
            f"These runs cannot be compared: they are evaluated on different data ({_name_list(unlike)}), and accuracies on "
            "different test sets say nothing about each other."
        )
    if not at_end.clock and at_end.leader is not None:
        return _two_clocks_sentence(each, at_end)
    if at_equal is None:
        return "There is nothing to compare: none of these runs has made a model and evaluated it."
    if len(arms) == 1:
        return _one_arm_sentence(arms[0], each[0], at_end)
    if sum(s.mean is not None for s in at_end.standings) == 1:
        return _one_accuracy_sentence(at_end, winner)
    fewest = _fewest_common_seeds(at_end)
    if fewest < 2:
        return _description(at_end, at_equal, fewest)
    clauses = _clauses(at_end, at_equal)
    if winner is not None:
        return f"The winner is {quote(winner)}: {clauses}."
    return f"{_no_winner(at_end, at_equal, fewest)}: {clauses}."


def _one_arm_sentence(arm: Arm, one: Arm, at_end: Moment) -> str:
    """Of runs that differ in seeds only, or in nothing."""
    if len(one.runs) == 1:
        names = " and ".join(run.name for run in arm.runs[:2])
        same = len({run.digest for run in arm.runs}) == 1
        reason = (
            "their journals are equal"
            if same
            else "they have not run equally long"
            if _has_open_runs(arm)
            else f"their journals differ, as real time does; {_models_clause(arm)}"
            if any(run.served for run in arm.runs)
            else "yet their journals differ, so one of them was changed or was made by other code"
        )
        return f"There is nothing to compare: {names} are runs of one spec with one seed, and {reason}."
    result = at_end.standings[0]
    assert result.mean is not None
    values = sorted(result.by_seed.values())
    return (
        f"These runs differ in seeds only, so there is nothing to compare: {percent(result.mean.value)} at the end"
        f"{_interval_text(result)}, from {percent(values[0])} to {percent(values[-1])} over {len(values)} seeds."
    )


def _models_clause(arm: Arm) -> str:
    """Whether runs of one spec and seed ended with the same model."""
    return "they end with the same model" if len({run.model for run in arm.runs}) == 1 else "so do their models"


def _two_clocks_sentence(each: Sequence[Arm], at_end: Moment) -> str:
    """Of runs of which some were served over a network and others simulated: what they reached, but not in what time."""
    reason = "real and virtual time cannot be compared"
    if len(each) != 2 or len(each[0].keys) != 1:
        how = "some runs were served over a network, others simulated"
        return f"At the end {_ranking(at_end.standings)}; {how}: {reason}, so no winner is named."
    pairs = [(a, b) for a in each[0].runs for b in each[1].runs if seed_of(a) == seed_of(b) and a.ended and b.ended and a.model]
    first = f"Served and simulated, {'this spec ends' if len(pairs) < 2 else 'the runs of each seed end'} with"
    if pairs and all(a.model == b.model for a, b in pairs):
        times = " and ".join(f"{span(arm.runs[0].end)} of {clock_of(arm.runs)} time" for arm in each)
        accuracy = next(_accuracy(s) for s in at_end.standings if s.mean)
        return f"{first} the same model, bit for bit: {percent(accuracy)}, after {times}."
    if pairs:
        return f"{first} different models: at the end {_ranking(at_end.standings)}; {reason}."
    return f"At the end {_ranking(at_end.standings)}; {reason}."


def _one_accuracy_sentence(at_end: Moment, winner: str | None) -> str:
    """One arm alone has accuracies."""
    known = next(s for s in at_end.standings if s.mean is not None)
    others = _arm_list([s.arm for s in at_end.standings if s.mean is None])
    bare = all(s.nothing for s in at_end.standings if s.mean is None)
    result_clause = f"reached {percent(_accuracy(known))}{_interval_text(known)}"
    what = "made no model" if bare else "evaluated no model"
    if winner is not None:
        return f"The winner is {quote(known.arm)}: it {result_clause} over {len(known.by_seed)} seeds, and {others} {what}."
    return f"No winner is named: {quote(known.arm)} {result_clause}, and {others} {what}; {_REPEAT} before you choose."


def _description(at_end: Moment, at_equal: Moment, common: int) -> str:
    """One common seed, or none: what was seen, without a winner."""
    later = "" if _same_standings(at_end, at_equal) else f", and {_equal_time_phrase(at_equal)} {_ranking(at_equal.standings)}"
    head = f"at the end and at equal {at_equal.clock} time" if _same_standings(at_end, at_equal) else "at the end"
    errors = [s.test for s in at_end.standings if s.test is not None]
    test = f" (the test set alone makes ±{100 * max(errors):.1f} points, other seeds often far more)" if errors else ""
    why = "one common seed cannot show a winner" if common else "without common seeds no winner can be named"
    return f"{_capitalise(head)} {_ranking(at_end.standings)}{later}; {why}{test}: {_REPEAT}."


def _no_winner(at_end: Moment, at_equal: Moment, fewest: int) -> str:
    """Why there is none, before the figures."""
    ends, same = at_end.winner, at_equal.winner
    lost = [s.arm for s in at_end.standings if s.missing and not (s.nothing and s.mean is None)]
    if lost:
        return f"No winner, since some runs of {_arm_list(lost)} have no model"
    if ends and same:
        return "No winner, since the best arm changes with time"
    if ends or same:
        when = "at the end" if ends else f"at equal {at_equal.clock} time"
        return f"No winner, since {quote(ends or same or '')} is significantly better {when} only"
    if fewest == 2:
        return "No winner, since two common seeds are too few"
    return "No statistically significant winner"


def _clauses(at_end: Moment, at_equal: Moment) -> str:
    if _same_standings(at_end, at_equal):
        return f"at the end and at equal {at_equal.clock} time {_lead_clause(at_end)}"
    return f"at the end {_lead_clause(at_end)}; {_equal_time_phrase(at_equal)} {_lead_clause(at_equal)}"


def _lead_clause(result: Moment) -> str:
    """The best arm and its distance to one other: the least certain of those not beaten significantly, else the closest."""
    if result.leader is None:
        return "no arm has a model yet"
    pairs = [p for p in result.pairs if p.paired is not None]
    bare = [s.arm for s in result.standings if s.nothing]
    unknown = [s.arm for s in result.standings if s.mean is None and not s.nothing]
    more = f", and {_arm_list(bare)} had no model yet" if bare else ""
    more += f", and of {_arm_list(unknown)} no accuracy is known" if unknown else ""
    if not pairs:
        first = next(s for s in result.standings if s.arm == result.leader)
        return f"{quote(result.leader)} has {percent(_accuracy(first))}{_interval_text(first)}{more}"
    near = min(pairs, key=lambda p: p.paired.difference if p.paired else 0.0)
    doubts = [p for p in pairs if not p.significant]
    if doubts:
        near = max(doubts, key=lambda p: (2.0 if p.p is None else p.p, -(p.paired.difference if p.paired else 0.0)))
    if near.paired and near.paired.difference == near.paired.low == near.paired.high == 0:
        return f"{quote(near.leader)} and {quote(near.other)} are equal on each of {near.paired.n} common {near.paired.unit}{more}"
    rest = f", the {'least certain' if doubts else 'closest'} of {len(result.pairs)} others" if len(result.pairs) > 1 else ""
    return f"{_pair_clause(near, rest)}{more}"


def _pair_clause(pair: Pair, rest: str) -> str:
    """The leader has the best mean over its own seeds; on the common ones it may be level, or behind."""
    gap, leader, other = (pair.paired.difference if pair.paired else 0.0, quote(pair.leader), f"{quote(pair.other)}{rest}")
    uncertainty = uncertainty_text(pair)
    if abs(gap) < _NO_LEAD:
        return f"{leader} and {other} are level, {_points(gap)} apart{uncertainty}"
    if gap < 0:
        behind = f"{leader} has the best mean over all its seeds, but on the common ones is {_points(-gap)} behind {other}"
        return f"{behind}{uncertainty_text(_reverse_pair(pair))}"
    return f"{leader} is best, {_points(gap)} ahead of {other}{uncertainty}"


def _reverse_pair(pair: Pair) -> Pair:
    """The same pair seen from the other arm."""
    result = pair.paired
    if result is None:
        return pair
    low, high = None if result.high is None else -result.high, None if result.low is None else -result.low
    return replace(pair, paired=replace(result, difference=-result.difference, low=low, high=high))


def _points(difference: float) -> str:
    return f"{100 * difference:.1f} points".replace("-0.0", "0.0")


def uncertainty_text(pair: Pair) -> str:
    """How sure a paired difference is, in brackets behind it."""
    result = pair.paired
    if result is None:
        return " (without common seeds)"
    if pair.p is None:
        return " (one common seed)"
    p = "p < 0.001" if pair.p < 0.001 else f"p = {pair.p:.2g}"
    verdict = "" if pair.significant else ", not significant"
    if result.low is None or result.high is None:
        return f" (the same on each of {result.n} common {result.unit}, {p}{verdict})"
    interval = f"95 % interval {100 * result.low:.1f} to {100 * result.high:.1f}"
    return f" ({interval}, {p}, {result.n} common {result.unit}{verdict})"


def _ranking(standings: Sequence[Standing]) -> str:
    """Arms from the best down, with their accuracies."""
    known = sorted((s for s in standings if s.mean), key=lambda s: -_accuracy(s))
    parts = [f"{quote(s.arm)} {'' if i else 'has '}{percent(_accuracy(s))}{_first_weights_note(s)}" for i, s in enumerate(known)]
    parts += [f"{quote(s.arm)} {'no model yet' if s.nothing else 'no evaluation yet'}" for s in standings if s.mean is None]
    return _name_list(parts)


def caveats(arms: Sequence[Arm], each: Sequence[Arm], at_end: Moment, at_equal: Moment | None) -> list[str]:
    """What readers of the figures must know."""
    runs = [run for arm in arms for run in arm.runs]
    unfinished = [f"{r.name} ({span(r.end)})" for r in runs if not r.ended]
    without_model = [r.name for r in runs if r.first is None]
    unevaluated = [r.name for r in runs if r.first is not None and not len(r.accuracy)]
    messages = []
    if unfinished:
        messages.append(f"unfinished, included up to their last event: {_name_list(unfinished)}")
    if without_model:
        messages.append(f"made no model: {_name_list(without_model)}")
    if unevaluated:
        messages.append(f"made models but evaluated none: {_name_list(unevaluated)}")
    own = [r.name for r in runs if any("read accuracy_clients" in w for w in r.metrics.get("warnings", ()))]
    if own:
        messages.append(
            f"parts of the model stay with each client, so accuracy is of a model that no client uses: {_name_list(own)}"
        )
    served = [r.name for r in runs if r.served]
    if served:
        messages.append(f"served over a network, so their time is real, not virtual: {_name_list(served)}")
    messages += _repeat_caveats(arms, each)
    sizes = sorted({r.tested for r in runs if r.tested})
    if len(sizes) > 1:
        messages.append(f"the test sets differ in size: {_name_list([f'{n:,}' for n in sizes])} samples")
    messages += _seed_caveats(each) if len(each) > 1 else []
    messages += _shared_draw_caveats(each)
    messages += _confounding_caveats(arms)
    messages += _test_set_caveats(at_end)
    if at_equal is not None and len(at_end.pairs) > 1 and any(pair.p is not None for pair in at_end.pairs):
        messages.append(f"p values are corrected by Holm's method for {len(at_end.pairs)} comparisons with the best arm")
    return messages


def _repeat_caveats(arms: Sequence[Arm], each: Sequence[Arm]) -> list[str]:
    """Runs of a spec and seed that another run has too."""
    used = {run.out for arm in each for run in arm.runs}
    extra = [run for arm in arms for run in arm.runs if run.out not in used]
    return [f"same spec and seed as another run, counted once: {_name_list([run.name for run in extra])}"] if extra else []


def _seed_caveats(each: Sequence[Arm]) -> list[str]:
    """Seeds that not all arms have, of which a pair cannot be made."""
    sets = [{seed_of(run) for run in arm.runs} for arm in each]
    common = set[str].intersection(*sets)
    odd = sorted(set[str].union(*sets) - common)
    return [f"not every arm has the seeds {_name_list(odd)}; differences use common seeds only"] if odd else []


def _shared_draw_caveats(each: Sequence[Arm]) -> list[str]:
    """Runs of an arm that are drawn from the same fleet, data or training."""
    parts = {part: len(groups) for arm in each for part, groups in shared_parts([draws_of(run) for run in arm.runs]).items()}
    return [f"runs share {part}: the tests count {n} {part}, not every run" for part, n in parts.items()]


def _confounding_caveats(arms: Sequence[Arm]) -> list[str]:
    """Arms that differ in fleet or data and in how they train: which of the two made a difference is unknown."""
    keys = [key for key in (arms[0].keys if arms else {}) if len({repr(arm.keys.get(key)) for arm in arms}) > 1]
    world, rest = [k for k in keys if k.startswith("world.")], [k for k in keys if not k.startswith("world.")]
    both = any(
        any(a.keys.get(k) != b.keys.get(k) for k in world) and any(a.keys.get(k) != b.keys.get(k) for k in rest)
        for i, a in enumerate(arms)
        for b in arms[:i]
    )
    if not both:
        return []
    return [
        f"some arms differ in fleet or data ({_name_list(world)}) and in {_name_list(rest)} at once: the cause of a "
        "difference is unknown"
    ]


def _test_set_caveats(at_end: Moment) -> list[str]:
    """The sampling error of the test set, and the uncertainty over seeds."""
    tests = [s.test for s in at_end.standings if s.test is not None]
    spreads = [
        (s.mean.high - s.mean.low) / 2 for s in at_end.standings if s.mean and s.mean.high is not None and s.mean.low is not None
    ]
    if not tests or not spreads:  # of one seed the verdict itself says it
        return []
    seeds = f", the uncertainty of the mean over seeds up to ±{100 * max(spreads):.1f}"
    return [f"the sampling error of the test set is up to ±{100 * max(tests):.1f} points (95 %){seeds}"]


def _accuracy(result: Standing) -> float:
    return 0.0 if result.mean is None else result.mean.value


def _first_weights_note(result: Standing) -> str:
    return " (the first weights, no model yet)" if result.nothing else ""


def _fewest_common_seeds(result: Moment) -> int:
    """Common seeds of the pair that has fewest."""
    return min((p.paired.n if p.paired else 0 for p in result.pairs), default=0)


def _same_standings(at_end: Moment, at_equal: Moment) -> bool:
    return at_end.standings == at_equal.standings


def _equal_time_phrase(result: Moment) -> str:
    return f"after {span(result.seconds or 0.0)} of {result.clock} time (when the shortest run ends)"


def _interval_text(result: Standing) -> str:
    mean = result.mean
    if mean is None or mean.low is None or mean.high is None:
        return ""
    return f" (95 % interval {100 * mean.low:.1f} to {100 * mean.high:.1f} %)"


def _has_open_runs(arm: Arm) -> bool:
    return not all(run.ended for run in arm.runs)


def _name_list(words: Sequence[str]) -> str:
    return join_words(words, _NAMED)


def _arm_list(arms: Sequence[str]) -> str:
    return join_words([quote(arm) for arm in arms], _NAMED)


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
