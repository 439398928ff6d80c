"""A run that goes on, in words: how it stands, which run it repeats, who is at work and what went wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedfleet.app.dashboard.run_view import BACK, LATE, LOST, REFUSED, USED, WASTED, WORKING, Fault, Seen, Turn
from fedfleet.app.dashboard.run_watcher import DAMAGED, FINISHED, RUNNING, Glance
from fedfleet.app.terminal.text import size, span

FATES = {
    WORKING: "at work", BACK: "back", USED: "used", LATE: "late", LOST: "lost", REFUSED: "refused", WASTED: "back, not used",
}  # fmt: skip
_NEAR = 2  # keys in which a run may differ from the one that it repeats
_NAMED = 8  # people whom a line names
_SHORTEST = 40  # characters of a value in a sentence
_ENDS = {"rounds": "all rounds are done", "virtual_seconds": "its time is up", "commits": "all models are made"}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Repeated:
    """The finished run that another repeats, and the keys in which they differ: (key, there, here)."""

    run: Glance
    differs: tuple[tuple[str, str, str], ...]

    @property
    def words(self) -> str:
        """In what the other is different, from its own side."""
        if not self.differs:
            return "the same spec"
        return ", ".join(f"{key} = {there[:_SHORTEST]}" for key, there, _ in self.differs)


def repeated(run: Glance, others: Iterable[Glance]) -> Repeated | None:
    """The finished run that differs in the fewest keys, in two at most; of several, the newest."""
    found: Repeated | None = None
    for other in others:
        if other.name == run.name or other.status != FINISHED or not other.scores or not run.words:
            continue
        if other.served != run.served:  # real and virtual time do not lie side by side
            continue
        # Keys that only one of them has belong to a part that differs, or are younger than the older run.
        keys = sorted(k for k in {*run.words} & {*other.words} if not k.startswith("run."))
        pairs = ((k, other.words[k], run.words[k]) for k in keys)
        differs = tuple(pair for pair in pairs if pair[1] != pair[2])
        if len(differs) <= _NEAR and (found is None or len(differs) < len(found.differs)):
            found = Repeated(other, differs)
    return found


def standing(run: Glance, seen: Seen, other: Repeated | None) -> tuple[str, str, str]:
    """How a run stands, in three pieces of which the middle one matters most."""
    if run.status == DAMAGED:
        return f"This run cannot be read: {run.fault}.", "", ""
    if not seen.rounds:
        first = "It is getting ready; nothing has been asked of anybody yet." if run.status == RUNNING else ""
        return first or "It was stopped before its first round.", "", ""
    return (
        _where(run, seen),
        _how_good(seen, other),
        f"{_who(run, seen)} One seed: it describes this run, not the method.",
    )


def _where(run: Glance, seen: Seen) -> str:
    number = seen.rounds[-1].number + 1
    of = f" of {run.planned:,}" if run.planned and run.planned < 10_000 else ""
    clock = "real" if run.served else "virtual"
    if run.status == RUNNING:
        return f"Round {number:,}{of} after {span(seen.time)} of {clock} time"
    if seen.ended:
        made = f"{seen.commits:,} {'model' if seen.commits == 1 else 'models'}"
        return f"Ended after {made} and {span(seen.time)} of {clock} time ({_ENDS.get(seen.ended, seen.ended)})"
    return f"Stopped in round {number:,}{of} after {span(seen.time)} of {clock} time"


def _how_good(seen: Seen, other: Repeated | None) -> str:
    if not seen.scores:
        return "not judged yet."
    if not seen.commits:
        return f"no model yet: the first weights are {share(seen.scores[-1].accuracy)} accurate."
    first = f"{share(seen.scores[-1].accuracy)} accurate."
    if other is None or other.run.accuracy is None:
        return first
    said, end = f"{other.run.name} ({other.words})", other.run.time
    if seen.time < end:
        theirs = [s for s in other.run.scores if s.time <= seen.time]
        return f"{first} At this time {said} stood at {share(theirs[-1].accuracy)}." if theirs else first
    mine = [s for s in seen.scores if s.time <= end]
    stood = f", it stood at {share(mine[-1].accuracy)}" if mine else ""
    return f"{first} At {span(end)}, where {said} ended at {share(other.run.accuracy)}{stood}."


def _who(run: Glance, seen: Seen) -> str:
    n = len(seen.in_model)
    said = f"{n:,} of {seen.clients:,} {people(seen.clients)} {'is' if n == 1 else 'are'} in the model"
    last = seen.rounds[-1]
    if run.status != RUNNING or not last.asked or last.ended:
        return f"{said}."
    out = sum(t.fate == WORKING for t in seen.turns[last.first : last.first + last.asked])
    gone = f"; {counted(out)} of the {counted(last.asked)} who were asked {'has' if out == 1 else 'have'} not come back yet"
    return f"{said}{gone if out else ''}."


def progress(run: Glance) -> float | None:
    """How much of what the spec allows is used up, from 0 to 1; None: it does not say."""
    stop = run.table.get("stop", {})
    done = {"rounds": run.rounds, "commits": run.commits, "virtual_seconds": run.time}
    shares = [done[key] / stop[key] for key in done if isinstance(stop.get(key), int | float) and stop[key] > 0]
    return None if not shares else 1.0 if run.status == FINISHED else min(1.0, max(shares))


def figures(seen: Seen, online: int | None = None) -> list[tuple[str, str]]:
    """The six numbers that one looks at first, each with what it means; `online`: how many devices a server has now."""
    score = seen.scores[-1] if seen.scores else None
    over = sum(seen.counts[fate] for fate in (USED, LATE, LOST, REFUSED, WASTED))
    what = "accuracy" if seen.commits or score is None else "accuracy of the first weights"
    give = what if score is None else f"{what}, ±{100 * score.give:.0f} by the size of the test set"
    moved = seen.bytes_down + seen.bytes_up
    return [
        ("-" if score is None else share(score.accuracy, 1), give),
        _online(seen, online),
        (f"{seen.counts[USED]:,} of {over:,}", "reports used"),
        (f"{len(seen.in_model):,}", f"{people(len(seen.in_model))} in the model"),
        (size(moved), "traffic so far"),
        (f"{sum(seen.failed.values()):,}", "failed rounds"),
    ]  # fmt: skip


def _online(seen: Seen, now: int | None) -> tuple[str, str]:
    if now is not None:
        return f"{now:,} of {seen.clients:,}", f"online now, {seen.clients - now:,} offline"
    return "-" if seen.online is None else f"{seen.online:,} of {seen.clients:,}", "online when last looked"


@dataclass(frozen=True, slots=True)
class RowNow:
    """One person of the round that goes on: how long, of how long, and in words."""

    client: int
    seconds: float
    fate: int
    words: str


def round_rows(seen: Seen, most: int = 12) -> tuple[float, list[RowNow], int]:
    """Who was asked last: the scale in seconds, a row for each of the first people, and how many more there are."""
    last = seen.round
    if last is None or not last.asked:
        return 0.0, [], 0
    turns = seen.turns[last.first : last.first + last.asked]
    many = len(turns) > most  # then those who are missing are worth more than those who are back
    rows = sorted(
        (_row(turn, seen.time) for turn in turns), key=lambda r: ((r.fate in (BACK, USED)) == many, r.fate, r.seconds)
    )
    scale = max([last.due or 0.0, *(r.seconds for r in rows), 1e-9])
    return scale, rows[:most], max(0, len(rows) - most)


def _row(turn: Turn, now: float) -> RowNow:
    took = turn.seconds if math.isfinite(turn.seconds) else max(0.0, now - turn.sent)
    words = {
        BACK: f"back after {brief(took)}", USED: f"back after {brief(took)}", WORKING: "at work",
        LATE: f"late after {brief(took)}", LOST: turn.reason or "lost", REFUSED: "refused",
        WASTED: "back, not used",
    }  # fmt: skip
    return RowNow(turn.client, took, turn.fate, words[turn.fate])


def fault_summary(seen: Seen) -> str:
    """All that went wrong so far, counted."""
    late = seen.counts[LATE]
    told = {
        "went out of reach": "went out of reach",
        "too slow": "were too slow",
        "no report came": "sent no report in time",
    }
    why = ", ".join(
        f"{n:,} {told[reason]}" for reason, n in sorted(seen.why_late.items(), key=lambda r: [*told].index(r[0]))
    )
    why = f": {why}" if why else ""
    failed = "; ".join(f"{n:,}: {reason}" for reason, n in seen.failed.most_common())
    n = sum(seen.failed.values())
    return (
        f"{late:,} late so far{why}. {seen.counts[LOST]:,} lost, {seen.counts[REFUSED]:,} refused, "
        f"{n:,} failed {'round' if n == 1 else 'rounds'}{f' ({failed})' if failed else ''}."
    )


@dataclass(frozen=True, slots=True)
class Line:
    """Faults of one round that are alike, in words."""

    round: int
    words: str
    grave: bool


def fault_lines(seen: Seen, most: int = 12) -> list[Line]:
    """The latest faults, the newest first; what befell several people in one round alike is one line."""
    alike: dict[tuple[int, str, bool], list[int]] = {}
    for fault in reversed(seen.faults):
        who = alike.setdefault((fault.round, _fault_words(fault, seen), fault.grave), [])
        who += [] if fault.client is None else [fault.client]
    return [Line(round_, f"{_persons(who)}{words}", grave) for (round_, words, grave), who in alike.items()][:most]


def _fault_words(fault: Fault, seen: Seen) -> str:
    """One fault in words; why a task was late is known only after its round."""
    tasks = seen.of_client.get(fault.client, ()) if fault.client is not None else ()
    turn = next((seen.turns[t] for t in reversed(tasks) if seen.turns[t].round == fault.round), None)
    if turn is None or turn.fate != LATE or fault.words != "late":
        return fault.words
    return f"late, given up after {span(turn.seconds)}{f': {turn.reason}' if turn.reason else ''}"


def _persons(who: Sequence[int]) -> str:
    named = ", ".join(map(str, who[:_NAMED]))
    more = f" and {len(who) - _NAMED:,} more" if len(who) > _NAMED else ""
    return f"{'person' if len(who) == 1 else 'persons'} {named}{more} " if who else ""


def history(seen: Seen, client: int) -> list[tuple[int, str, str, str, str]]:
    """What one device did, the latest first: round, when, how long, what came of it, bytes down and up."""
    rows: list[tuple[int, str, str, str, str]] = []
    for task in reversed(seen.of_client.get(client, ())):
        turn = seen.turns[task]
        took = brief(turn.seconds) if math.isfinite(turn.seconds) else "-"
        fate = f"{FATES[turn.fate]}{f': {turn.reason}' if turn.reason else ''}"
        rows.append((turn.round + 1, span(turn.sent), took, fate, f"{size(turn.down)} / {size(turn.up)}"))
    return rows


def state_counts(states: str) -> Mapping[str, int]:
    """How many devices do what, by letter."""
    return {letter: states.count(letter) for letter in "rwxlnuo-"}


def brief(seconds: float) -> str:
    """How long one task took: a real device may well be back at once.

    >>> brief(0.0312), brief(8.04), brief(75.0)
    ('0.031 s', '8 s', '75 s')
    """
    return f"{seconds:.2g} s" if seconds < 10 else span(seconds)


def share(x: float, digits: int = 0) -> str:
    """0.897 as 90 %."""
    return f"{100 * x:.{digits}f} %"


def people(n: int) -> str:
    """The noun that goes with this number."""
    return "person" if n == 1 else "people"


def counted(n: int) -> str:
    """A small number as a word.

    >>> counted(2), counted(12)
    ('two', '12')
    """
    return _NUMBERS[n] if n < len(_NUMBERS) else f"{n:,}"
