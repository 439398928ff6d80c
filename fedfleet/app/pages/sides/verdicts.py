"""The conclusion of a comparison: a title that is the finding, a verdict for each group, and how sure all of it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from statistics import fmean

from fedfleet.app.pages.html import bind_units
from fedfleet.app.pages.sides.accuracy_figures import accuracies_at, highest_sides
from fedfleet.app.pages.sides.comparison_words import (
    capitalise,
    count_words,
    mean_count,
    score_range,
    time_range,
    time_text,
)
from fedfleet.app.pages.sides.page_runs import Side
from fedfleet.app.pages.sides.run_rows import time_to
from fedfleet.app.studies.compare.arms import quote
from fedfleet.app.studies.compare.recommendation_text import without_tradeoffs
from fedfleet.app.studies.compare.records import Arm, Moment, Verdict, score_of_runs
from fedfleet.app.terminal.text import join_words
from fedfleet.measure.goal import Target, target_text
from fedfleet.measure.score_info import ScoreInfo

GroupVerdicts = Mapping[str, tuple[tuple[Arm, ...], Verdict]]  # by group
_FIGURE = re.compile(r"\d+(?:\.\d+)?")
_MOST = 9  # verdicts that are spelt out
SEED = "The number that all chance in a run follows from; another seed draws another fleet, other data and other choices."


def headline(verdicts: GroupVerdicts) -> str:
    """The finding in one line: what to use, and how much better it is."""
    if len(verdicts) == 1:
        ((arms, verdict),) = verdicts.values()
        return capitalise(finding(arms, verdict))
    found = {group: verdict.recommendation for group, (_, verdict) in verdicts.items() if verdict.recommendation.arm}
    if not any(one.decided for one in found.values()):
        gaps = {group: gap for group, (_, verdict) in verdicts.items() if (gap := accuracy_gap(verdict.at_end)) is not None}
        return _widest_gap_sentence(verdicts, gaps) if gaps else "No model has been evaluated yet"
    parts = [
        f"on {quote(group)} use {quote(one.arm or '')}{'' if one.decided else ' for now (not decided yet)'}"
        for group, one in found.items()
    ]
    return capitalise("; ".join(parts))


def accuracy_gap(result: Moment) -> float | None:
    """How far the best and the worst arm are apart at a moment; None if fewer than two are known."""
    means = [s.mean.value for s in result.standings if s.mean]
    return max(means) - min(means) if len(means) > 1 else None


def _widest_gap_sentence(verdicts: GroupVerdicts, gaps: Mapping[str, float]) -> str:
    """Where arms end farthest apart, and how near they are to each other elsewhere."""
    group = max(gaps, key=lambda g: gaps[g])
    end = verdicts[group][1].at_end
    known = sorted((s for s in end.standings if s.mean), key=lambda s: -(s.mean.value if s.mean else 0.0))
    best, worst = known[0], known[-1]
    rest, score = [gap for g, gap in gaps.items() if g != group], _score(verdicts[group][0])
    near = ""
    if rest:
        widest = f"{max(100 * max(rest), 1):.0f} points" if score.kind.percent else score.difference(max(rest), sign=False)
        near = f"; elsewhere all arms end within {widest} of each other"
    high, low = _accuracy_text(end, best.arm, score), _accuracy_text(end, worst.arm, score)
    return f"On {quote(group)}, {quote(best.arm)} ends at {high} and {quote(worst.arm)} at {low}{near}"


def finding(arms: Sequence[Arm], verdict: Verdict) -> str:
    """The conclusion on these arms, in a few words."""
    end, equal, score = verdict.at_end, verdict.at_equal_time, _score(arms)
    if len(arms) == 1:
        values = list(end.standings[0].by_seed.values())
        return (
            f"{count_words(len(values), 'seed')} of one run end at {score_range(score, values)}"
            if len(values) > 1
            else f"one run ends at {score_range(score, values)}"
            if values
            else "no model has been evaluated yet"
        )
    if not end.clock and end.leader is not None:
        return join_words([f"{quote(s.arm)} ends at {_accuracy_text(end, s.arm, score)}" for s in end.standings])
    if verdict.recommendation.arm is not None:
        return verdict.recommendation.title
    compared = any(s.mean for s in end.standings) and equal is not None
    return f"these runs cannot be compared by {score.name}" if compared else "no model has been evaluated yet"


def _moment_text(result: Moment) -> str:
    return time_text(result.seconds or 0.0)


def _score(arms: Sequence[Arm]) -> ScoreInfo:
    """What the score of these arms is called."""
    return score_of_runs(run for arm in arms for run in arm.runs)


def _accuracy_text(result: Moment, arm: str, score: ScoreInfo) -> str:
    return next((score.brief(s.mean.value) for s in result.standings if s.arm == arm and s.mean), "-")


def _seed_count(result: Moment) -> int:
    return min((s.mean.n for s in result.standings if s.mean), default=0)


def lead(verdicts: GroupVerdicts) -> str:
    """The verdict itself, its trade-offs apart; of several groups, the verdict on each."""
    if len(verdicts) == 1:
        ((_, verdict),) = verdicts.values()
        return without_tradeoffs(verdict.recommendation)
    return " ".join(_group_sentence(group, verdict) for group, (_, verdict) in verdicts.items())


def tradeoffs(verdicts: GroupVerdicts) -> str:
    """What speaks against the arm that is recommended; nothing where several groups are compared, which have it in their items."""
    if len(verdicts) != 1:
        return ""
    ((_, verdict),) = verdicts.values()
    items = [capitalise(one) for one in verdict.recommendation.tradeoffs]
    text = " ".join(f"{one}." for one in items)
    return f'<p class="aside"><b>Trade-off:</b> {escape(bind_units(text))}</p>' if items else ""


def _group_sentence(group: str, verdict: Verdict) -> str:
    """The verdict on one group."""
    sentence = without_tradeoffs(verdict.recommendation)
    return f"On {quote(group)}: {sentence[:1].lower()}{sentence[1:]}" if sentence else ""


def verdict_list(verdicts: GroupVerdicts, sides: Sequence[Side], target: Target | None) -> str:
    """A verdict for each group, or where there is one group the facts of each side."""
    items = list[str]()
    if len(verdicts) == 1:
        for side in highest_sides(sides, _MOST):
            items.append(verdict_item(side.colour, _shorten(side.name), side_facts(side, target)))
    for group, (arms, verdict) in list(verdicts.items())[:_MOST] if len(verdicts) > 1 else ():
        group_sides = [side for side in sides if side.group == group]
        text = " ".join(f"{quote(side.name)}: {side_facts(side, target)}" for side in highest_sides(group_sides, 3))
        items.append(verdict_item(group_sides[0].colour, f"{quote(group)}: {finding(arms, verdict)}", text))
    total, which = (len(sides), "that end highest") if len(verdicts) == 1 else (len(verdicts), "that come first")
    note = f"The {len(items)} of {total} {which}; the table below has all."
    more = f'<p class="note">{note}</p>' if total > len(items) else ""
    return f'<ul class="verdicts">{"".join(items)}</ul>{more}'


def _shorten(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:78]}.."


def verdict_item(colour: int, head: str, text: str) -> str:
    return f'<li class="c{colour}"><b>{escape(bind_units(capitalise(head)))}</b><span>{escape(bind_units(text))}</span></li>'


def side_facts(side: Side, target: Target | None) -> str:
    """What a side reached, in what time, and how many clients it excluded."""
    values = accuracies_at(side, None)
    if all(one.first is None for one in side.runs):
        return f"No model in {time_range([one.end for one in side.runs])}."
    if not values:
        return f"No model was evaluated in {time_range([one.end for one in side.runs])}."
    score = side.score
    mean = score.brief(fmean(values)) if score.kind.percent else f"{score.name} {score.brief(fmean(values))}"
    range_note = f" ({score_range(score, values)} over {count_words(len(values), 'seed')})" if len(values) > 1 else ""
    text = f"{mean}{range_note} after {time_range([one.end for one in side.runs])}"
    goal = "" if target is None else score.brief(target) if isinstance(target, float) else target_text(target, score)
    to = f"; {goal} {_when_phrase(time_to(side.runs, target))}" if target else ""
    never = fmean(float((one.used == 0).sum()) for one in side.runs)
    people = len(side.runs[0].used)
    left = (
        "all clients take part"
        if never < 0.05
        else f"{mean_count(never)} of {people:,} clients never {'takes' if mean_count(never) == '1' else 'take'} part"
    )
    return f"{text}{to}; {left}." if people else f"{text}{to}."


def _when_phrase(text: str) -> str:
    return text if text.startswith("never") else f"in {text}"


def caveat(verdicts: GroupVerdicts) -> str:
    """How sure all of this is."""
    fewest = min((_seed_count(verdict.at_end) for _, verdict in verdicts.values()), default=0)
    head = (
        f'One <abbr title="{SEED}">seed</abbr> each, so not very.'
        if fewest < 2
        else f"{capitalise(count_words(fewest, 'seed')).replace('seed', f'<abbr title={chr(34)}{SEED}{chr(34)}>seed', 1)}</abbr> each."
    )
    messages = merge_caveats(c for _, verdict in verdicts.values() for c in verdict.caveats)
    text = " ".join(escape(f"{capitalise(c.rstrip('.'))}.") for c in messages)
    return f'<p class="aside"><b>How sure? {head}</b> {bind_units(text)}</p>'


def merge_caveats(caveats: Iterable[str]) -> list[str]:
    """Caveats that differ in their figures only are merged, with the largest.

    >>> merge_caveats(["up to 2.9 points", "up to 5.1 points", "one seed"])
    ['up to 5.1 points', 'one seed']
    """
    result: dict[str, str] = {}
    for caveat in caveats:
        shape = _FIGURE.sub("#", caveat)
        result[shape] = max(result.get(shape, caveat), caveat, key=lambda c: [float(f) for f in _FIGURE.findall(c)])
    return list(result.values())
