"""A recommendation in words: what to use, how much better it is and how sure that is, what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from fedfleet.app.studies.compare.arms import quote
from fedfleet.app.studies.compare.criteria import CRITERIA, Criterion, Yardstick
from fedfleet.app.studies.compare.records import LEAST_SEEDS, Recommendation
from fedfleet.app.terminal.text import join_words, size, span
from fedfleet.measure.goal import article, target_text
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.statistics.looks import MOST_SEEDS

if TYPE_CHECKING:
    from fedfleet.app.studies.compare.recommendation import ArmFacts

SEEDS = 5  # that a first study should have
_TRADEOFF = "Trade-off"
_NAMED = 3  # arms that a sentence names
_NO_LEAD = 0.0005  # a smaller difference is 0.0 points
_NOTICED = 0.05  # the share of clients by which one arm leaves out noticeably fewer
_ALIKE = 0.02  # accuracies at the end that differ by less are alike
_TIMES = 2.0  # traffic that is worth a word


def nothing_to_recommend(criterion: Criterion, by: Yardstick, arms: int) -> str:
    """Why there is no arm to recommend."""
    if arms < 2:
        return "There is one arm only, so there is nothing to choose."
    if criterion.info.name not in ("accuracy", "accuracy_bottom10"):
        return f"There is nothing to recommend by {criterion.info.label}: it is known of no arm; choose another --aim."
    if not criterion.is_cost:
        return "There is nothing to recommend: none of these runs has made a model and evaluated it."
    if by.target is None:
        return "There is nothing to recommend: no run was evaluated."
    cure = "; choose a lower --target" if criterion.name != "joules" else "; choose a lower --target, and a fleet with world.energy"
    reached = target_text(by.target, criterion.score_info)
    return f"There is nothing to recommend by {criterion.name}: no run is known to have reached {reached}{cure}."


def typical(criterion: Criterion, values: Sequence[float]) -> float:
    """One figure for an arm: the mean, of costs the median."""
    return median(values) if criterion.is_cost else fmean(values)


def with_words(
    result: Recommendation,
    criterion: Criterion,
    by: Yardstick,
    clock: str,
    facts: Mapping[str, ArmFacts],
    equals: Sequence[str],
    leader: str,
) -> Recommendation:
    """The record with its sentence and its title."""
    assert result.arm is not None
    reach = _reach_clause(result, criterion, by, clock)
    if result.equal_within is not None:
        main, title = _equal_sentence(result, criterion, facts, equals, leader, reach)
    elif result.decided:
        main = f"Use {quote(result.arm)}: it {reach}{_ahead_clause(result, criterion)}."
        title = f"Use {quote(result.arm)}{_title_clause(result, criterion)}"
    elif result.seeds < 2:
        main, title = _one_seed_sentence(result, reach, criterion)
    else:
        main = f"Use {quote(result.arm)} for now: it {reach}{_ahead_clause(result, criterion)}. {_undecided_sentence(result)}"
        title = f"Use {quote(result.arm)} for now{_title_clause(result, criterion)}; not decided yet"
    failed = f" {result.failures}." if result.failures else ""
    against = f" {_TRADEOFF}: {'; '.join(result.tradeoffs)}." if result.tradeoffs else ""
    return replace(result, sentence=f"{main}{failed}{against}", title=title)


def without_tradeoffs(result: Recommendation) -> str:
    """The sentence alone, where the trade-offs stand beside it."""
    return result.sentence.partition(f" {_TRADEOFF}: ")[0] if result.tradeoffs else result.sentence


def _reach_clause(result: Recommendation, criterion: Criterion, by: Yardstick, clock: str) -> str:
    value = result.value if result.value is not None else 0.0
    shown = criterion.unit(value)
    after = f" after {span(by.seconds)} of {clock} time" if by.seconds is not None else ""
    info, plain = criterion.info, criterion.score_info.counts_answers
    goal = target_text(by.target or 0.0, criterion.score_info)
    match criterion.name:
        case "accuracy":
            named = shown if plain else f"{article(info.label)} {info.label} of {shown}"
            return f"reaches {named}{after}" if by.seconds is not None else f"ends at {named}"
        case "fairness":
            at_least = shown if plain else f"{article(info.label)} {criterion.score_info.name} of {shown}"
            return f"gives nine in ten clients at least {at_least}"
        case "time":
            return f"reaches {goal} after {shown} of {clock} time"
        case "bytes" | "joules":
            return f"reaches {goal} with {shown}"
        case _:
            return f"has {article(info.label)} {info.label} of {shown}{after or ' at the end'}"


def difference_text(criterion: Criterion, difference: float) -> str:
    """How much more or less than another: in points, or as a share of the cost.

    >>> from fedfleet.app.studies.compare.criteria import CRITERIA
    >>> difference_text(CRITERIA["accuracy"], 0.041), difference_text(CRITERIA["time"], -0.5)
    ('4.1 points more', '50 % more time')
    """
    if criterion.is_cost:
        less = criterion.less if difference >= 0 else criterion.less.replace("less", "more")
        return f"{100 * abs(difference):.0f} % {less}"
    if criterion.info.is_score:
        return f"{criterion.info.difference(abs(difference), sign=False)} {'more' if difference >= 0 else 'less'}"
    return f"{criterion.info.difference(abs(difference), sign=False)} {_direction(criterion, difference)}"


def _direction(criterion: Criterion, difference: float) -> str:
    """Where the arm with a positive difference, which is the better one, lies."""
    return "lower" if (difference >= 0) == criterion.info.lower else "higher"


def interval_text(criterion: Criterion, low: float, high: float) -> str:
    """The interval of such a difference."""
    if criterion.is_cost:
        return f"{100 * low:.0f} to {100 * high:.0f} %"
    if criterion.info.percent:
        return f"{_points(low)} to {_points(high)}"
    return " to ".join(criterion.info.difference(end, sign=False) for end in (low, high))


def _points(share: float) -> str:
    return f"{100 * share:.1f}".replace("-0.0", "0.0") if abs(share) < _NO_LEAD else f"{100 * share:.1f}"


def _ahead_clause(result: Recommendation, criterion: Criterion) -> str:
    """The distance to the arm that is hardest to tell apart, with its uncertainty."""
    if result.against is None or result.difference is None:
        return ""
    others = len(result.pairs)
    which = f", the {'closest' if result.decided else 'hardest to tell apart'} of {others} others" if others > 1 else ""
    other = f"{quote(result.against)}{which}"
    if _is_level(result, criterion):
        return f", as {other} does{uncertainty(result, criterion)}"
    return f", {difference_text(criterion, result.difference)} than {other}{uncertainty(result, criterion)}"


def uncertainty(result: Recommendation, criterion: Criterion) -> str:
    """How sure the difference is, in brackets behind it."""
    if result.low is None or result.high is None:
        return f" (the same on each of {result.seeds} common {result.unit})" if result.seeds > 1 else ""
    return f" (95 % interval {interval_text(criterion, result.low, result.high)}, {result.seeds} {result.unit})"


def _title_clause(result: Recommendation, criterion: Criterion) -> str:
    if result.against is None or result.difference is None:
        return ""
    what = {"accuracy": "more accurate", "fairness": "more for the worst tenth of clients"}.get(criterion.name, "")
    if _is_level(result, criterion):
        return f": level with {quote(result.against)}"
    gap = criterion.info.difference(abs(result.difference), sign=False)
    if not criterion.is_cost and not (criterion.info.is_score and criterion.score_info.counts_answers):
        return f": {criterion.info.label} {gap} {_direction(criterion, result.difference)} than {quote(result.against)}"
    amount = f"{gap} {what}" if what else difference_text(criterion, result.difference)
    sign = amount if result.difference > 0 or not what else amount.replace("more", "less")
    return f": {sign} than {quote(result.against)}"


def _is_level(result: Recommendation, criterion: Criterion) -> bool:
    """Is the difference too small to be shown?"""
    limit = (
        _NO_LEAD if criterion.is_cost or criterion.info.percent or criterion.info.is_score else _NO_LEAD * abs(result.value or 0.0)
    )
    return result.difference is not None and abs(result.difference) < limit


def _undecided_sentence(result: Recommendation) -> str:
    """What would decide, instead of a shrug."""
    if result.unit == "seeds" and 0 < result.seeds < LEAST_SEEDS:
        few = f"This is not decided yet: {result.seeds} seeds are too few"
        return f"{few}; about {result.more_seeds} more would decide it (80 % power)." if result.more_seeds else f"{few}."
    if result.more_seeds:
        more = f"{result.more_seeds} more {result.unit if result.more_seeds > 1 else result.unit.removesuffix('s')}"
        return f"This is not decided yet: about {more} would decide it (80 % power)."
    if result.low is not None and result.difference is not None and result.low <= 0:
        return f"This is not decided: more than {MOST_SEEDS} {result.unit} would be needed to decide so small a difference."
    return "This is not decided yet, because not every run of every arm has a result."


def _one_seed_sentence(result: Recommendation, reach: str, criterion: Criterion) -> tuple[str, str]:
    """One common seed, or none: who is ahead, and what to run."""
    assert result.arm is not None
    behind = ""
    if result.difference is not None and result.against is not None:
        behind = f", {difference_text(criterion, result.difference)} than {quote(result.against)}"
    why = "one common seed cannot show a difference" if result.seeds == 1 else "without common seeds no difference can be shown"
    run = f"run every arm with the same {SEEDS} seeds (seeds = {SEEDS} in a study, or seed=1 to seed={SEEDS} with fedfleet run)"
    return f"{quote(result.arm)} is ahead: it {reach}{behind}. But {why}: {run}.", f"{quote(result.arm)} is ahead, but {why}"


def _equal_sentence(
    result: Recommendation,
    criterion: Criterion,
    facts: Mapping[str, ArmFacts],
    equals: Sequence[str],
    leader: str,
    reach: str,
) -> tuple[str, str]:
    """Arms that are equal for practice: the reason for the one is then what it costs."""
    assert result.arm is not None and result.equal_within is not None
    within = (
        f"{100 * result.equal_within:.0f} %" if criterion.is_cost else criterion.info.difference(result.equal_within, sign=False)
    )
    others = join_words([quote(arm) for arm in dict.fromkeys((leader, *equals)) if arm != result.arm], _NAMED)
    reason, short = _reasons(facts[result.arm], facts[result.against or leader])
    head = f"Use {quote(result.arm)}" if reason else f"Use {quote(result.arm)} or {others}"
    equal = f"{others} {'is' if len(equals) < 2 else 'are'} equal to it within {within}{uncertainty(result, criterion)}"
    main = f"{head}: {'it' if reason else quote(result.arm)} {reach}, and {equal}{reason}."
    return main, f"{head}: equal within {within}{short}"


def _reasons(one: ArmFacts, other: ArmFacts) -> tuple[str, str]:
    """Why to take `one` of two equal arms: said of the other in the sentence, and of this one in the title."""
    # Means over seeds may differ by less than one client, which is no reason.
    if one.never is not None and other.never is not None and (fewer := round(other.never - one.never)) > 0:
        return (
            f", but {quote(other.name)} leaves out {fewer} more of {one.clients or 'all'} clients",
            f", and leaves out {fewer} client{'s' if fewer > 1 else ''} fewer",
        )
    if one.end < other.end:
        return (
            f", but takes {span(other.end)}, not {span(one.end)}",
            f", and takes less time ({span(one.end)}, not {span(other.end)})",
        )
    if one.traffic is not None and other.traffic is not None and one.traffic < other.traffic:
        mine, theirs = size(one.traffic), size(other.traffic)
        return f", but {quote(other.name)} sends {theirs}, not {mine}", f", and sends less ({mine}, not {theirs})"
    return "", ""


def failures(without: Mapping[str, int], runs: Mapping[str, int], criterion: Criterion, by: Yardstick) -> str:
    """Arms of which runs did not get there, with how many; their means count those runs at the first weights, or chance."""
    failed = [arm for arm, count in without.items() if count]
    if not failed:
        return ""
    counts = [f"{without[arm]} of {runs[arm]} runs of {quote(arm)}" for arm in failed]
    partly = not criterion.is_cost and any(without[arm] < runs[arm] for arm in failed)
    counted = "; such a run counts with its first weights" if partly else ""
    return f"{join_words(counts, _NAMED)} {criterion.failure(by)}{counted}"


def left_out(
    chosen: str, facts: Mapping[str, ArmFacts], points: Mapping[str, float], criterion: Criterion = CRITERIA["accuracy"]
) -> str:
    """How many clients the arm leaves out, and which arm leaves out fewest; `points`: the arms by the aim, more is better."""
    mine = facts[chosen]
    known = [one for one in facts.values() if one.never is not None and one.failed < one.runs]
    if mine.never is None or not known:
        return ""
    least = min(known, key=lambda one: (one.never or 0.0, -points.get(one.name, 0.0)))
    gap = mine.never - (least.never or 0.0)
    if gap < max(1.0, _NOTICED * (mine.clients or 0)):
        return ""
    of = f" of {mine.clients:,}" if mine.clients else ""
    fewest = f"{least.never:.0f}" if least.never and least.never >= 0.5 else "none"
    behind = ""
    if chosen in points and least.name in points:
        distance = points[chosen] - points[least.name]
        amount = criterion.info.difference(abs(distance), sign=False)
        what = "" if criterion.info.percent else f" in {criterion.info.label}"
        behind = f" and is {amount} {'behind' if distance >= 0 else 'ahead'}{what}"
    return f"it leaves out {mine.never:.0f}{of} clients, {quote(least.name)} leaves out {fewest}{behind}"


def better_at_the_end(chosen: str, facts: Mapping[str, ArmFacts], score: ScoreInfo = ScoreInfo()) -> str:  # noqa: B008 (a frozen record)
    """Which arm ends higher, given its time: the soonest of those that end about as high as the best."""
    mine = facts[chosen]
    known = [one for one in facts.values() if one.accuracy is not None]
    highest = max((one.accuracy for one in known if one.accuracy is not None), default=0.0)
    if mine.accuracy is None or highest < mine.accuracy + _ALIKE:
        return ""
    best = min((one for one in known if (one.accuracy or 0.0) >= highest - _ALIKE), key=lambda one: one.end)
    end = f"ends at {score.named(best.accuracy or 0.0)} after {span(best.end)}"
    return f"{quote(best.name)} {end}, {quote(chosen)} at {score.named(mine.accuracy)} after {span(mine.end)}"


def traffic_of_others(chosen: str, facts: Mapping[str, ArmFacts]) -> str:
    """Which arm moves far fewer bytes in a whole run."""
    mine = facts[chosen]
    known = [one for one in facts.values() if one.traffic and one.failed < one.runs]
    least = min(known, key=lambda one: one.traffic or 0.0, default=mine)
    if least is mine or not mine.traffic or not least.traffic or mine.traffic < _TIMES * least.traffic:
        return ""
    return f"its runs move {size(mine.traffic)}, those of {quote(least.name)} {size(least.traffic)}"
