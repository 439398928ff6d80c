"""A comparison in words: why no arm can be recommended, and the warnings that belong to a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from fedfleet.app.studies.compare.arms import draws_of, quote, seed_of
from fedfleet.app.studies.compare.records import Arm, Moment, Recommendation, Standing, clock_of, score_of_runs
from fedfleet.app.terminal.text import join_words, span
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.statistics.blocked_design import INCOMPLETE, POOLED, UNEQUAL
from fedfleet.measure.statistics.paired_tests import shared_parts

_UNLIKE_TIMES = 2.0  # times that one arm may take longer than another before a word is said
_NAMED = 4  # arms that are named in a sentence
_ALONE = "an arm of which some runs made no model is tested by itself (paired t test)"
_METHODS = {
    POOLED: "differences are computed over the seeds that all arms have (blocked design, one residual variance for all arms)",
    UNEQUAL: "the arms vary unequally from seed to seed, so each pair is tested by itself (paired t tests, Holm's correction)",
    INCOMPLETE: "too few seeds are common to all arms, so each pair is tested by itself (paired t tests, Holm's correction)",
}


def reason_for_none(
    arms: Sequence[Arm], each: Sequence[Arm], at_end: Moment, at_equal: Moment | None, unlike: Sequence[str]
) -> str:
    """Why no arm can be recommended, with the figures; empty if one can. `each` are the arms with one run of every seed."""
    if unlike:
        return (
            f"These runs cannot be compared: they are evaluated on different data ({_name_list(unlike)}), and {_plural(each)} on "
            "different test sets say nothing about each other."
        )
    if not at_end.clock and at_end.leader is not None:
        return _two_clocks_sentence(each, at_end)
    if at_equal is None:
        return "There is nothing to compare: none of these runs has made a model and evaluated it."
    return _one_arm_sentence(arms[0], each[0], at_end) if len(arms) == 1 else ""


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
    result, score = at_end.standings[0], score_of_runs(one.runs)
    assert result.mean is not None
    values = sorted(result.by_seed.values())
    return (
        f"These runs differ in seeds only, so there is nothing to compare: {score.named(result.mean.value)} at the end"
        f"{_interval_text(result, score)}, from {score.text(values[0])} to {score.text(values[-1])} over {len(values)} seeds."
    )


def _models_clause(arm: Arm) -> str:
    """Whether runs of one spec and seed ended with the same model."""
    return "they end with the same model" if len({run.model for run in arm.runs}) == 1 else "so do their models"


def _two_clocks_sentence(each: Sequence[Arm], at_end: Moment) -> str:
    """Of runs of which some were served over a network and others simulated: what they reached, but not in what time."""
    reason, score = "real and virtual time cannot be compared", score_of_runs(run for arm in each for run in arm.runs)
    if len(each) != 2 or len(each[0].keys) != 1:
        how = "some runs were served over a network, others simulated"
        return f"At the end {_ranking(at_end.standings, score)}; {how}: {reason}, so no winner is named."
    pairs = [(a, b) for a in each[0].runs for b in each[1].runs if seed_of(a) == seed_of(b) and a.ended and b.ended and a.model]
    first = f"Served and simulated, {'this spec ends' if len(pairs) < 2 else 'the runs of each seed end'} with"
    if pairs and all(a.model == b.model for a, b in pairs):
        times = " and ".join(f"{span(arm.runs[0].end)} of {clock_of(arm.runs)} time" for arm in each)
        accuracy = next(_accuracy(s) for s in at_end.standings if s.mean)
        return f"{first} the same model, bit for bit: {score.named(accuracy)}, after {times}."
    if pairs:
        return f"{first} different models: at the end {_ranking(at_end.standings, score)}; {reason}."
    return f"At the end {_ranking(at_end.standings, score)}; {reason}."


def _plural(arms: Sequence[Arm]) -> str:
    """What is compared: accuracies, or the scores of other kinds of tasks."""
    return "accuracies" if all(run.score.counts_answers for arm in arms for run in arm.runs) else "scores"


def _ranking(standings: Sequence[Standing], score: ScoreInfo) -> str:
    """Arms from the best down, with their scores."""
    known = sorted((s for s in standings if s.mean), key=lambda s: -_accuracy(s))
    parts = [
        f"{quote(s.arm)} {'' if i else 'has '}{score.named(_accuracy(s))}{_first_weights_note(s)}" for i, s in enumerate(known)
    ]
    parts += [f"{quote(s.arm)} {'no model yet' if s.nothing else 'no evaluation yet'}" for s in standings if s.mean is None]
    return _name_list(parts)


def caveats(arms: Sequence[Arm], each: Sequence[Arm], at_end: Moment, at_equal: Moment | None, found: Recommendation) -> list[str]:
    """What readers of the figures must know."""
    runs = [run for arm in arms for run in arm.runs]
    unfinished = [f"{r.name} ({span(r.end)})" for r in runs if not r.ended]
    without_model = [r.name for r in runs if r.first is None]
    unevaluated = [r.name for r in runs if r.first is not None and not len(r.accuracy)]
    messages = []
    if unfinished:
        messages.append(f"unfinished, included up to their last event: {_name_list(unfinished)}")
    if without_model:
        name = score_of_runs(runs).name
        counted = f"their {name} counts as that of the first weights, or of chance"
        messages.append(f"made no model: {_name_list(without_model)}; {counted}")
    if unevaluated:
        messages.append(f"made models but evaluated none: {_name_list(unevaluated)}")
    own = [r.name for r in runs if any("read accuracy_clients" in w for w in r.metrics.get("warnings", ()))]
    if own:
        messages.append(
            f"parts of the model stay with each client, so {score_of_runs(runs).name} is of a model that no client uses: "
            f"{_name_list(own)}"
        )
    served = [r.name for r in runs if r.served]
    if served:
        messages.append(f"served over a network, so their time is real, not virtual: {_name_list(served)}")
    messages += _unequal_time_caveats(each)
    messages += _repeat_caveats(arms, each)
    sizes = sorted({r.tested for r in runs if r.tested})
    if len(sizes) > 1:
        messages.append(f"the test sets differ in size: {_name_list([f'{n:,}' for n in sizes])} samples")
    messages += _seed_caveats(each) if len(each) > 1 else []
    messages += _shared_draw_caveats(each)
    messages += _confounding_caveats(arms)
    messages += _test_set_caveats(at_end)
    if at_equal is not None and any(pair.p is not None for pair in at_end.pairs):
        how = _METHODS[found.method or POOLED] + (f"; {_ALONE}" if found.failures else "")
        valid = f"intervals and p stay valid for {len(each)} arms, and if these are compared again after more seeds"
        messages.append(f"{how}; {valid}")
    return messages


def _unequal_time_caveats(each: Sequence[Arm]) -> list[str]:
    """Why arms end at different moments, where nothing but a number of rounds stopped their runs."""
    runs = [run for arm in each for run in arm.runs]
    if len(each) < 2 or any(run.metrics.get("stopped_by") != "rounds" or run.served for run in runs):
        return []
    ends = [max(run.end for run in arm.runs) for arm in each]
    if max(ends) < _UNLIKE_TIMES * min(ends):
        return []
    return [
        f"all runs stopped after a number of rounds (stop.rounds), which take the arms from {span(min(ends))} to "
        f"{span(max(ends))}; with stop.virtual_seconds all arms get the same time"
    ]


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


def _interval_text(result: Standing, score: ScoreInfo) -> str:
    mean = result.mean
    if mean is None or mean.low is None or mean.high is None:
        return ""
    if not score.kind.percent:
        return f" (95 % interval {score.text(mean.low)} to {score.text(mean.high)})"
    return f" (95 % interval {100 * mean.low:.1f} to {100 * mean.high:.1f} %)"


def _has_open_runs(arm: Arm) -> bool:
    return not all(run.ended for run in arm.runs)


def _name_list(words: Sequence[str]) -> str:
    return join_words(words, _NAMED)


def _arm_list(arms: Sequence[str]) -> str:
    return join_words([quote(arm) for arm in arms], _NAMED)
