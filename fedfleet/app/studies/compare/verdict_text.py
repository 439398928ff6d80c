"""What a comparison says in words: the verdict in one sentence, and what whoever reads it must know beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedfleet.app.studies.compare.arms import draws_of, seed_of
from fedfleet.app.studies.compare.records import Arm, Moment, Pair, Standing, clock_of
from fedfleet.app.studies.compare.significance import clear
from fedfleet.app.terminal.text import listed, percent, span
from fedfleet.measure.statistics.clusters import shared

_NAMED = 4  # arms that are named in a sentence
_NO_LEAD = 0.0005  # a smaller difference is 0.0 points
_REPEAT = "repeat them with the same three or more seeds"


def sentence(
    arms: Sequence[Arm],
    each: Sequence[Arm],
    at_end: Moment,
    at_equal: Moment | None,
    winner: str | None,
    unlike: Sequence[str],
) -> str:
    """The verdict. `each` are the arms with one run of every seed."""
    if unlike:
        return (
            f"These runs cannot be compared: they are judged on unlike data ({_listed(list(unlike))}), and accuracies on different "
            "test sets say nothing about each other."
        )
    if not at_end.clock and at_end.leader is not None:
        return _two_clocks(each, at_end)
    if at_equal is None:
        return "There is nothing to judge: none of these runs has made a model and evaluated it."
    if len(arms) == 1:
        return _alone(arms[0], each[0], at_end)
    if sum(s.mean is not None for s in at_end.standings) == 1:
        return _only(at_end, winner)
    fewest = _fewest(at_end)
    if fewest < 2:
        return _described(at_end, at_equal, fewest)
    clauses = _clauses(at_end, at_equal)
    if winner is not None:
        return f"The winner is {winner}: {clauses}."
    return f"{_no_winner(at_end, at_equal, fewest)}: {clauses}."


def _alone(arm: Arm, one: Arm, at_end: Moment) -> str:
    """Of runs that differ in seeds only, or in nothing."""
    if len(one.runs) == 1:
        names = " and ".join(run.name for run in arm.runs[:2])
        same = len({run.digest for run in arm.runs}) == 1
        told = (
            "their journals are equal"
            if same
            else "they are not equally far"
            if _going_on(arm)
            else f"their journals differ as real clocks do; {_models(arm)}"
            if any(run.served for run in arm.runs)
            else "yet their journals differ, so one of them was changed or made by other code"
        )
        return f"There is nothing to compare: {names} are runs of one spec with one seed, and {told}."
    found = at_end.standings[0]
    assert found.mean is not None
    values = sorted(found.by_seed.values())
    return (
        f"These runs differ in seeds only, so there is nothing to compare: {percent(found.mean.value)} at the end"
        f"{_between(found)}, from {percent(values[0])} to {percent(values[-1])} over {len(values)} seeds."
    )


def _models(arm: Arm) -> str:
    """Whether runs of one spec and seed ended with the same model."""
    return "they end with the same model" if len({run.model for run in arm.runs}) == 1 else "so do their models"


def _two_clocks(each: Sequence[Arm], at_end: Moment) -> str:
    """Of runs of which some were served over a network and others simulated: what they reached, but not in what time."""
    apart = "real and virtual time are not compared"
    if len(each) != 2 or len(each[0].keys) != 1:
        return (
            f"At the end {_ranked(at_end.standings)}; some were served over a network, others simulated: {apart}, and no winner is "
            "named."
        )
    pairs = [
        (a, b)
        for a in each[0].runs
        for b in each[1].runs
        if seed_of(a) == seed_of(b) and a.ended and b.ended and a.model
    ]
    first = f"Served and simulated, {'this spec ends' if len(pairs) < 2 else 'the runs of each seed end'} with"
    if pairs and all(a.model == b.model for a, b in pairs):
        took = " and ".join(f"{span(arm.runs[0].end)} of {clock_of(arm.runs)} time" for arm in each)
        reached = next(_value(s) for s in at_end.standings if s.mean)
        return f"{first} the same model, bit for bit: {percent(reached)}, after {took}."
    if pairs:
        return f"{first} different models: at the end {_ranked(at_end.standings)}. Real devices come when they come; {apart}."
    return f"At the end {_ranked(at_end.standings)}; {apart}."


def _only(at_end: Moment, winner: str | None) -> str:
    """One arm alone has accuracies."""
    there = next(s for s in at_end.standings if s.mean is not None)
    others = _listed([s.arm for s in at_end.standings if s.mean is None])
    bare = all(s.nothing for s in at_end.standings if s.mean is None)
    reached = f"reached {percent(_value(there))}{_between(there)}"
    what = "made no model" if bare else "evaluated no model"
    if winner is not None:
        return f"The winner is {there.arm}: it {reached} over {len(there.by_seed)} seeds, and {others} {what} at all."
    return f"No winner is named: {there.arm} {reached}, and {others} {what}; {_REPEAT} before you choose."


def _described(at_end: Moment, at_equal: Moment, common: int) -> str:
    """One common seed, or none: what was seen, without a winner."""
    later = "" if _alike(at_end, at_equal) else f", and {_at(at_equal)} {_ranked(at_equal.standings)}"
    head = f"at the end and at equal {at_equal.clock} time alike" if _alike(at_end, at_equal) else "at the end"
    errors = [s.test for s in at_end.standings if s.test is not None]
    test = (
        f" (the test set alone makes it ±{100 * max(errors):.1f} points, other seeds often far more)" if errors else ""
    )
    why = "one common seed is not enough to name a winner" if common else "without common seeds no winner can be named"
    return f"{_capital(head)} {_ranked(at_end.standings)}{later}; {why}{test}: {_REPEAT}."


def _no_winner(at_end: Moment, at_equal: Moment, fewest: int) -> str:
    """Why there is none, before the figures."""
    ends, same = at_end.winner, at_equal.winner
    lost = [s.arm for s in at_end.standings if s.missing and not (s.nothing and s.mean is None)]
    if lost:
        return f"No winner can be named, since not all runs of {_listed(lost)} have a model"
    if ends and same:
        return "No winner, for it depends on the time"
    if ends or same:
        return f"No winner, since {ends or same} is ahead {'at the end' if ends else f'at equal {at_equal.clock} time'} only"
    if fewest == 2:
        return "No winner can be named from two common seeds"
    return "No winner can be named"


def _clauses(at_end: Moment, at_equal: Moment) -> str:
    if _alike(at_end, at_equal):
        return f"at the end and at equal {at_equal.clock} time alike {_lead(at_end)}"
    return f"at the end {_lead(at_end)}; {_at(at_equal)} {_lead(at_equal)}"


def _lead(found: Moment) -> str:
    """Who leads whom by how much: of those that it does not surely beat the least sure, else the nearest."""
    if found.leader is None:
        return "nobody has a model yet"
    pairs = [p for p in found.pairs if p.paired is not None]
    bare = [s.arm for s in found.standings if s.nothing]
    unknown = [s.arm for s in found.standings if s.mean is None and not s.nothing]
    more = f", and {_listed(bare)} had no model yet" if bare else ""
    more += f", and of {_listed(unknown)} nothing is known" if unknown else ""
    if not pairs:
        first = next(s for s in found.standings if s.arm == found.leader)
        return f"{found.leader} has {percent(_value(first))}{_between(first)}{more}"
    near = min(pairs, key=lambda p: p.paired.difference if p.paired else 0.0)
    doubts = [p for p in pairs if not clear(p)]
    if doubts:
        near = max(doubts, key=lambda p: (2.0 if p.p is None else p.p, -(p.paired.difference if p.paired else 0.0)))
    if near.paired and near.paired.difference == near.paired.low == near.paired.high == 0:
        return f"{near.leader} and {near.other} are equal on each of {near.paired.n} common {near.paired.unit}{more}"
    rest = f", {'the least sure' if doubts else 'nearest'} of {len(found.pairs)}," if len(found.pairs) > 1 else ""
    return f"{_leads(near, rest)}{more}"


def _leads(pair: Pair, rest: str) -> str:
    """The leader has the best mean over its own seeds; on the common ones it may be level, or behind."""
    gap = pair.paired.difference if pair.paired else 0.0
    if abs(gap) < _NO_LEAD:
        return f"{pair.leader} and {pair.other}{rest} are level, {points(pair)} apart"
    if gap < 0:
        behind = f"{pair.leader} has the best mean of all its seeds, but on the common ones is behind"
        return f"{behind} {pair.other}{rest} by {points(_turned(pair))}"
    return f"{pair.leader} leads {pair.other}{rest} by {points(pair)}"


def _turned(pair: Pair) -> Pair:
    """The same pair seen from the other arm."""
    found = pair.paired
    if found is None:
        return pair
    low, high = None if found.high is None else -found.high, None if found.low is None else -found.low
    return replace(pair, paired=replace(found, difference=-found.difference, low=low, high=high))


def points(pair: Pair) -> str:
    """A paired difference with its uncertainty."""
    found = pair.paired
    if found is None:
        return "an unknown difference, without common seeds"
    said = f"{100 * found.difference:.1f} points".replace("-0.0", "0.0")
    if pair.p is None:
        return f"{said} (one common seed)"
    p = "p < 0.001" if pair.p < 0.001 else f"p = {pair.p:.2g}"
    if found.low is None or found.high is None:
        return f"{said} (the same on each of {found.n} common {found.unit}, {p})"
    return f"{said} (95 % interval {100 * found.low:.1f} to {100 * found.high:.1f}, {p}, {found.n} common {found.unit})"


def _ranked(standings: Sequence[Standing]) -> str:
    """Arms from the best down, with their accuracies."""
    known = sorted((s for s in standings if s.mean), key=lambda s: -_value(s))
    said = [f"{s.arm} {'' if i else 'has '}{percent(_value(s))}{_bare(s)}" for i, s in enumerate(known)]
    said += [f"{s.arm} {'no model yet' if s.nothing else 'no evaluation yet'}" for s in standings if s.mean is None]
    return _listed(said)


def caveats(arms: Sequence[Arm], each: Sequence[Arm], at_end: Moment, at_equal: Moment | None) -> list[str]:
    """What whoever reads the figures must know beside them."""
    runs = [run for arm in arms for run in arm.runs]
    going = [f"{r.name} ({span(r.end)})" for r in runs if not r.ended]
    bare = [r.name for r in runs if r.first is None]
    silent = [r.name for r in runs if r.first is not None and not len(r.accuracy)]
    said = []
    if going:
        said.append(f"not ended, counted as far as the journal goes: {_listed(going)}")
    if bare:
        said.append(f"made no model: {_listed(bare)}")
    if silent:
        said.append(f"made models and evaluated none: {_listed(silent)}")
    own = [r.name for r in runs if any("read accuracy_clients" in w for w in r.metrics.get("warnings", ()))]
    if own:
        said.append(
            f"parts of the model stay with each client, and accuracy is of a model that nobody uses: {_listed(own)}"
        )
    served = [r.name for r in runs if r.served]
    if served:
        said.append(f"served over a network, so that time is real there and not virtual: {_listed(served)}")
    said += _repeated(arms, each)
    sizes = sorted({r.tested for r in runs if r.tested})
    if len(sizes) > 1:
        said.append(f"the test sets differ in size: {_listed([f'{n:,}' for n in sizes])} samples")
    said += _seeds(each) if len(each) > 1 else []
    said += _shared(each)
    said += _entangled(arms)
    said += _noise(at_end)
    if at_equal is not None and len(at_end.pairs) > 1 and any(pair.p is not None for pair in at_end.pairs):
        said.append(f"p values are Holm's, for {len(at_end.pairs)} comparisons with the arm that leads")
    return said


def _repeated(arms: Sequence[Arm], each: Sequence[Arm]) -> list[str]:
    """Runs of a spec and seed that another run has too."""
    counted = {run.out for arm in each for run in arm.runs}
    left = [run for arm in arms for run in arm.runs if run.out not in counted]
    return (
        [f"the same spec and seed as another run, counted once: {_listed([run.name for run in left])}"] if left else []
    )


def _seeds(each: Sequence[Arm]) -> list[str]:
    """Seeds that not all arms have, of which a pair cannot be made."""
    sets = [{seed_of(run) for run in arm.runs} for arm in each]
    common = set[str].intersection(*sets)
    odd = sorted(set[str].union(*sets) - common)
    return [f"not every arm has the seeds {_listed(odd)}; differences are of common seeds only"] if odd else []


def _shared(each: Sequence[Arm]) -> list[str]:
    """Runs of an arm that are drawn from the same fleet, data or training."""
    parts = {part: len(groups) for arm in each for part, groups in shared([draws_of(run) for run in arm.runs]).items()}
    return [f"runs share {part}, so that {n} {part} count and not every run by itself" for part, n in parts.items()]


def _entangled(arms: Sequence[Arm]) -> list[str]:
    """Arms that differ in what they are tried on and in how they train: nobody knows which of the two made a difference."""
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
        f"some arms differ in fleet or data ({_listed(world)}) and in {_listed(rest)} at once: which of them tells is not known"
    ]


def _noise(at_end: Moment) -> list[str]:
    """The test set's own uncertainty beside that of the seeds."""
    tests = [s.test for s in at_end.standings if s.test is not None]
    spreads = [
        (s.mean.high - s.mean.low) / 2
        for s in at_end.standings
        if s.mean and s.mean.high is not None and s.mean.low is not None
    ]
    if not tests or not spreads:  # of one seed the verdict itself says it
        return []
    seeds = f", that of the mean over seeds up to ±{100 * max(spreads):.1f}"
    return [f"the test set's own uncertainty is up to ±{100 * max(tests):.1f} points (95 %){seeds}"]


def _value(found: Standing) -> float:
    return 0.0 if found.mean is None else found.mean.value


def _bare(found: Standing) -> str:
    return " (the first weights, no model yet)" if found.nothing else ""


def _fewest(found: Moment) -> int:
    """Common seeds of the pair that has fewest."""
    return min((p.paired.n if p.paired else 0 for p in found.pairs), default=0)


def _alike(at_end: Moment, at_equal: Moment) -> bool:
    return at_end.standings == at_equal.standings


def _at(found: Moment) -> str:
    return f"at equal {found.clock} time ({span(found.seconds or 0.0)}, when the shortest run ends)"


def _between(found: Standing) -> str:
    mean = found.mean
    if mean is None or mean.low is None or mean.high is None:
        return ""
    return f" (95 % interval {100 * mean.low:.1f} to {100 * mean.high:.1f} %)"


def _going_on(arm: Arm) -> bool:
    return not all(run.ended for run in arm.runs)


def _listed(words: Sequence[str]) -> str:
    return listed(words, _NAMED)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
