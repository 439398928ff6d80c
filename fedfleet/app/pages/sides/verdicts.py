"""The conclusion of a comparison: a title that is the finding, a verdict for each group, and how sure all of it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from statistics import fmean

from fedfleet.app.pages.html import tight
from fedfleet.app.pages.sides.comparison_words import capital, count, points, spread, time, times, whole
from fedfleet.app.pages.sides.run_looks import Side
from fedfleet.app.pages.sides.run_rows import time_to
from fedfleet.app.pages.sides.standings import foremost, standing
from fedfleet.app.studies.compare.records import Arm, Moment, Verdict
from fedfleet.app.terminal.text import listed

Judged = Mapping[str, tuple[tuple[Arm, ...], Verdict]]  # by group
_FIGURE = re.compile(r"\d+(?:\.\d+)?")
_MOST = 9  # verdicts that are spelt out
SEED = (
    "The number that all chance in a run follows from; another seed draws another fleet, other data and other choices."
)


def headline(judged: Judged) -> str:
    """The finding in one line."""
    if len(judged) == 1:
        ((arms, verdict),) = judged.values()
        return capital(finding(arms, verdict))
    gaps = {group: gap for group, (_, verdict) in judged.items() if (gap := apart(verdict.at_end)) is not None}
    won = {group: verdict.winner for group, (_, verdict) in judged.items() if verdict.winner}
    open_ = [group for group in judged if group not in won]
    if not won:
        return _widest(judged, gaps) if gaps else "Nothing has been tried yet"
    said = [f"on {group} {winner} is best" for group, winner in won.items()]
    return capital("; ".join([*said, *([f"on {listed(open_)} none is surely better"] if open_ else [])]))


def apart(found: Moment) -> float | None:
    """How far the best and the worst arm are apart at a moment; None if fewer than two are known."""
    means = [s.mean.value for s in found.standings if s.mean]
    return max(means) - min(means) if len(means) > 1 else None


def _widest(judged: Judged, gaps: Mapping[str, float]) -> str:
    """Where arms end farthest apart, and how near they are to each other elsewhere."""
    group = max(gaps, key=lambda g: gaps[g])
    end = judged[group][1].at_end
    known = sorted((s for s in end.standings if s.mean), key=lambda s: -(s.mean.value if s.mean else 0.0))
    best, worst = known[0], known[-1]
    rest = [gap for g, gap in gaps.items() if g != group]
    near = f"; elsewhere all end within {max(100 * max(rest), 1):.0f} points of each other" if rest else ""
    return f"On {group} {best.arm} ends at {_value(end, best.arm)} and {worst.arm} at {_value(end, worst.arm)}{near}"


def finding(arms: Sequence[Arm], verdict: Verdict) -> str:
    """What can be said of these arms, in a few words."""
    end, equal = verdict.at_end, verdict.at_equal_time
    if len(arms) == 1:
        values = list(end.standings[0].by_seed.values())
        return (
            f"{count(len(values), 'seed')} of one run end at {spread(values)}"
            if len(values) > 1
            else f"one run ends at {spread(values)}"
            if values
            else "nothing has been tried yet"
        )
    if not end.clock and end.leader is not None:
        return listed([f"{s.arm} ends at {_value(end, s.arm)}" for s in end.standings])
    if end.leader is None or equal is None:
        return (
            "these runs cannot be compared by accuracy"
            if any(s.mean for s in end.standings)
            else "nothing has been tried yet"
        )
    if verdict.winner:
        return f"{verdict.winner} is best, at the end and after {_moment(equal)}"
    if _seeds(end) < 2:
        return f"{end.leader} ends highest, at {_value(end, end.leader)}; one seed does not tell whether it is better"
    if end.leader != equal.leader and equal.leader is not None:
        return f"{equal.leader} is ahead after {_moment(equal)}, {end.leader} at the end; none is surely better"
    return f"{end.leader} is ahead with {_value(end, end.leader)}, but not surely better"


def _moment(found: Moment) -> str:
    return time(found.seconds or 0.0)


def _value(found: Moment, arm: str) -> str:
    return next((points(s.mean.value) for s in found.standings if s.arm == arm and s.mean), "-")


def _seeds(found: Moment) -> int:
    return min((s.mean.n for s in found.standings if s.mean), default=0)


def lead(judged: Judged) -> str:
    """The verdict itself; of several groups, where each stands at the end."""
    if len(judged) == 1:
        ((_, verdict),) = judged.values()
        return verdict.sentence
    return " ".join(_stand(group, verdict) for group, (_, verdict) in judged.items())


def _stand(group: str, verdict: Verdict) -> str:
    """Where the arms of one group stand, at equal time and at the end."""
    equal, end = verdict.at_equal_time, verdict.at_end
    if equal is None and end.leader is not None:
        return f"On {group}, at the end: {listed([_standing(end, s.arm) for s in end.standings])}."
    if equal is None:
        return f"On {group} nothing has been tried yet."
    then = listed([_standing(equal, s.arm) for s in equal.standings])
    ends = listed([_standing(end, s.arm) for s in end.standings])
    later = f", at the end {ends}" if ends != then else ""
    return f"On {group}, after {_moment(equal)}: {then}{later}."


def _standing(found: Moment, arm: str) -> str:
    mine = next(s for s in found.standings if s.arm == arm)
    return f"{arm} {points(mine.mean.value)}" if mine.mean and not mine.nothing else f"{arm} no model yet"


def verdict_list(judged: Judged, sides: Sequence[Side], target: float | None) -> str:
    """A verdict for each group, or where there is one group the facts of each side."""
    items = list[str]()
    if len(judged) == 1:
        for side in foremost(sides, _MOST):
            items.append(_item(side.colour, _brief(side.name), facts(side, target)))
    for group, (arms, verdict) in list(judged.items())[:_MOST] if len(judged) > 1 else ():
        mine = [side for side in sides if side.group == group]
        told = " ".join(f"{capital(side.name)}: {facts(side, target)}" for side in foremost(mine, 3))
        items.append(_item(mine[0].colour, f"{group}: {finding(arms, verdict)}", told))
    whole, which = (len(sides), "that end highest") if len(judged) == 1 else (len(judged), "that come first")
    said = f"The {len(items)} of {whole} {which}; the table below has all."
    more = f'<p class="note">{said}</p>' if whole > len(items) else ""
    return f'<ul class="verdicts">{"".join(items)}</ul>{more}'


def _brief(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:78]}.."


def _item(colour: int, head: str, told: str) -> str:
    return f'<li class="c{colour}"><b>{escape(tight(capital(head)))}</b><span>{escape(tight(told))}</span></li>'


def facts(side: Side, target: float | None) -> str:
    """What a side reached, in what time, and whom it left out."""
    values = standing(side, None)
    if all(one.first is None for one in side.looks):
        return f"No model in {times([one.end for one in side.looks])}."
    if not values:
        return f"No model has been tried in {times([one.end for one in side.looks])}."
    mean = points(fmean(values))
    wide = f" ({spread(values)} over {count(len(values), 'seed')})" if len(values) > 1 else ""
    said = f"{mean}{wide} after {times([one.end for one in side.looks])}"
    to = f"; {points(target)} {_when(time_to(side.looks, target))}" if target else ""
    never = fmean(float((one.used == 0).sum()) for one in side.looks)
    people = len(side.looks[0].used)
    left = (
        "nobody is left out"
        if never < 0.05
        else f"{whole(never)} of {people:,} people never {'takes' if whole(never) == '1' else 'take'} part"
    )
    return f"{said}{to}; {left}." if people else f"{said}{to}."


def _when(said: str) -> str:
    return said if said.startswith("never") else f"in {said}"


def caveat(judged: Judged) -> str:
    """How sure all of this is."""
    fewest = min((_seeds(verdict.at_end) for _, verdict in judged.values()), default=0)
    head = (
        f'One <abbr title="{SEED}">seed</abbr> each, so not very.'
        if fewest < 2
        else f"{capital(count(fewest, 'seed')).replace('seed', f'<abbr title={chr(34)}{SEED}{chr(34)}>seed', 1)}</abbr> each."
    )
    said = widest(c for _, verdict in judged.values() for c in verdict.caveats)
    told = " ".join(escape(f"{capital(c.rstrip('.'))}.") for c in said)
    return f'<p class="aside"><b>How sure? {head}</b> {tight(told)}</p>'


def widest(caveats: Iterable[str]) -> list[str]:
    """Caveats that differ in their figures only are said once, with the largest.

    >>> widest(["up to 2.9 points", "up to 5.1 points", "one seed"])
    ['up to 5.1 points', 'one seed']
    """
    found: dict[str, str] = {}
    for caveat in caveats:
        shape = _FIGURE.sub("#", caveat)
        found[shape] = max(found.get(shape, caveat), caveat, key=lambda c: [float(f) for f in _FIGURE.findall(c)])
    return list(found.values())
