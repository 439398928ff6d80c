"""A run that goes on, in words: how it stands, which run it repeats, who is at work and what went wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedfleet.app.dashboard.run_view import BACK, LATE, LOST, REFUSED, USED, WASTED, WORKING, Fault, RunView, Turn
from fedfleet.app.dashboard.run_watcher import DAMAGED, FINISHED, RUNNING, RunSummary
from fedfleet.app.terminal.text import size, span

FATES = {
    WORKING: "at work", BACK: "back", USED: "used", LATE: "late", LOST: "lost", REFUSED: "refused", WASTED: "back, not used",
}  # fmt: skip
_MAX_DIFFERENCES = 2  # keys in which a run may differ from the one that it repeats
_MAX_NAMED = 8  # people whom a line names
_SHORTEST = 40  # characters of a value in a sentence
_ENDS = {"rounds": "all rounds are done", "virtual_seconds": "its time is up", "commits": "all models are made"}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class SimilarRun:
    """The finished run that another repeats, and the keys in which they differ: (key, there, here)."""

    run: RunSummary
    differs: tuple[tuple[str, str, str], ...]

    @property
    def description(self) -> str:
        """In what the other is different, from its own side."""
        if not self.differs:
            return "the same spec"
        return ", ".join(f"{key} = {value[:_SHORTEST]}" for key, value, _ in self.differs)


def most_similar_run(run: RunSummary, others: Iterable[RunSummary]) -> SimilarRun | None:
    """The finished run that differs in the fewest keys, in two at most; of several, the newest."""
    best: SimilarRun | None = None
    for other in others:
        if other.name == run.name or other.status != FINISHED or not other.scores or not run.spec_values:
            continue
        if other.served != run.served:  # real and virtual time do not lie side by side
            continue
        # Keys that only one of them has belong to a part that differs, or are younger than the older run.
        keys = sorted(k for k in {*run.spec_values} & {*other.spec_values} if not k.startswith("run."))
        pairs = ((k, other.spec_values[k], run.spec_values[k]) for k in keys)
        differs = tuple(pair for pair in pairs if pair[1] != pair[2])
        if len(differs) <= _MAX_DIFFERENCES and (best is None or len(differs) < len(best.differs)):
            best = SimilarRun(other, differs)
    return best


def status_sentences(run: RunSummary, view: RunView, other: SimilarRun | None) -> tuple[str, str, str]:
    """How a run stands, in three pieces of which the middle one matters most."""
    if run.status == DAMAGED:
        return f"This run cannot be read: {run.fault}.", "", ""
    if not view.rounds:
        first = "It is getting ready; nothing has been asked of anybody yet." if run.status == RUNNING else ""
        return first or "It was stopped before its first round.", "", ""
    return (
        _position_sentence(run, view),
        _accuracy_sentence(view, other),
        f"{_participation_sentence(run, view)} One seed: it describes this run, not the method.",
    )


def _position_sentence(run: RunSummary, view: RunView) -> str:
    number = view.rounds[-1].number + 1
    total = f" of {run.planned_end:,}" if run.planned_end and run.planned_end < 10_000 else ""
    clock = "real" if run.served else "virtual"
    if run.status == RUNNING:
        return f"Round {number:,}{total} after {span(view.time)} of {clock} time"
    if view.ended:
        models = f"{view.commits:,} {'model' if view.commits == 1 else 'models'}"
        return f"Ended after {models} and {span(view.time)} of {clock} time ({_ENDS.get(view.ended, view.ended)})"
    return f"Stopped in round {number:,}{total} after {span(view.time)} of {clock} time"


def _accuracy_sentence(view: RunView, other: SimilarRun | None) -> str:
    if not view.scores:
        return "not judged yet."
    if not view.commits:
        return f"no model yet: the first weights are {percentage(view.scores[-1].accuracy)} accurate."
    first = f"{percentage(view.scores[-1].accuracy)} accurate."
    if other is None or other.run.accuracy is None:
        return first
    other_label, end = f"{other.run.name} ({other.description})", other.run.time
    if view.time < end:
        other_scores = [s for s in other.run.scores if s.time <= view.time]
        return (
            f"{first} At this time {other_label} stood at {percentage(other_scores[-1].accuracy)}."
            if other_scores
            else first
        )
    own_scores = [s for s in view.scores if s.time <= end]
    stood = f", it stood at {percentage(own_scores[-1].accuracy)}" if own_scores else ""
    return f"{first} At {span(end)}, where {other_label} ended at {percentage(other.run.accuracy)}{stood}."


def _participation_sentence(run: RunSummary, view: RunView) -> str:
    n = len(view.in_model)
    text = f"{n:,} of {view.clients:,} {people(view.clients)} {'is' if n == 1 else 'are'} in the model"
    last = view.rounds[-1]
    if run.status != RUNNING or not last.asked or last.ended:
        return f"{text}."
    pending = sum(t.fate == WORKING for t in view.turns[last.first : last.first + last.asked])
    missing = (
        f"; {count_word(pending)} of the {count_word(last.asked)} who were asked "
        f"{'has' if pending == 1 else 'have'} not come back yet"
    )
    return f"{text}{missing if pending else ''}."


def progress(run: RunSummary) -> float | None:
    """How much of what the spec allows is used up, from 0 to 1; None: it does not say."""
    stop = run.table.get("stop", {})
    done = {"rounds": run.rounds, "commits": run.commits, "virtual_seconds": run.time}
    shares = [done[key] / stop[key] for key in done if isinstance(stop.get(key), int | float) and stop[key] > 0]
    return None if not shares else 1.0 if run.status == FINISHED else min(1.0, max(shares))


def figures(view: RunView, online: int | None = None) -> list[tuple[str, str]]:
    """The six numbers that one looks at first, each with what it means; `online`: how many devices a server has now."""
    score = view.scores[-1] if view.scores else None
    finished = sum(view.counts[fate] for fate in (USED, LATE, LOST, REFUSED, WASTED))
    name = "accuracy" if view.commits or score is None else "accuracy of the first weights"
    label = name if score is None else f"{name}, ±{100 * score.margin:.0f} by the size of the test set"
    moved = view.bytes_down + view.bytes_up
    return [
        ("-" if score is None else percentage(score.accuracy, 1), label),
        _online(view, online),
        (f"{view.counts[USED]:,} of {finished:,}", "reports used"),
        (f"{len(view.in_model):,}", f"{people(len(view.in_model))} in the model"),
        (size(moved), "traffic so far"),
        (f"{sum(view.failed.values()):,}", "failed rounds"),
    ]  # fmt: skip


def _online(view: RunView, now: int | None) -> tuple[str, str]:
    if now is not None:
        return f"{now:,} of {view.clients:,}", f"online now, {view.clients - now:,} offline"
    return "-" if view.online is None else f"{view.online:,} of {view.clients:,}", "online when last looked"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One person of the round that goes on: how long, of how long, and in words."""

    client: int
    seconds: float
    fate: int
    words: str


def round_rows(view: RunView, most: int = 12) -> tuple[float, list[TaskRow], int]:
    """Who was asked last: the scale in seconds, a row for each of the first people, and how many more there are."""
    last = view.round
    if last is None or not last.asked:
        return 0.0, [], 0
    turns = view.turns[last.first : last.first + last.asked]
    crowded = len(turns) > most  # then those who are missing are worth more than those who are back
    rows = sorted(
        (_row(turn, view.time) for turn in turns),
        key=lambda r: ((r.fate in (BACK, USED)) == crowded, r.fate, r.seconds),
    )
    scale = max([last.due or 0.0, *(r.seconds for r in rows), 1e-9])
    return scale, rows[:most], max(0, len(rows) - most)


def _row(turn: Turn, now: float) -> TaskRow:
    took = turn.seconds if math.isfinite(turn.seconds) else max(0.0, now - turn.sent)
    words = {
        BACK: f"back after {short_duration(took)}", USED: f"back after {short_duration(took)}", WORKING: "at work",
        LATE: f"late after {short_duration(took)}", LOST: turn.reason or "lost", REFUSED: "refused",
        WASTED: "back, not used",
    }  # fmt: skip
    return TaskRow(turn.client, took, turn.fate, words[turn.fate])


def fault_summary(view: RunView) -> str:
    """All that went wrong so far, counted."""
    late = view.counts[LATE]
    phrases = {
        "went out of reach": "went out of reach",
        "too slow": "were too slow",
        "no report came": "sent no report in time",
    }
    why = ", ".join(
        f"{n:,} {phrases[reason]}" for reason, n in sorted(view.why_late.items(), key=lambda r: [*phrases].index(r[0]))
    )
    why = f": {why}" if why else ""
    failed = "; ".join(f"{n:,}: {reason}" for reason, n in view.failed.most_common())
    n = sum(view.failed.values())
    return (
        f"{late:,} late so far{why}. {view.counts[LOST]:,} lost, {view.counts[REFUSED]:,} refused, "
        f"{n:,} failed {'round' if n == 1 else 'rounds'}{f' ({failed})' if failed else ''}."
    )


@dataclass(frozen=True, slots=True)
class FaultLine:
    """Faults of one round that are alike, in words."""

    round: int
    words: str
    grave: bool


def fault_lines(view: RunView, most: int = 12) -> list[FaultLine]:
    """The latest faults, the newest first; what befell several people in one round alike is one line."""
    groups: dict[tuple[int, str, bool], list[int]] = {}
    for fault in reversed(view.faults):
        clients = groups.setdefault((fault.round, _fault_words(fault, view), fault.grave), [])
        clients += [] if fault.client is None else [fault.client]
    return [FaultLine(round_, f"{_person_list(who)}{words}", grave) for (round_, words, grave), who in groups.items()][
        :most
    ]


def _fault_words(fault: Fault, view: RunView) -> str:
    """One fault in words; why a task was late is known only after its round."""
    tasks = view.client_tasks.get(fault.client, ()) if fault.client is not None else ()
    turn = next((view.turns[t] for t in reversed(tasks) if view.turns[t].round == fault.round), None)
    if turn is None or turn.fate != LATE or fault.words != "late":
        return fault.words
    return f"late, given up after {span(turn.seconds)}{f': {turn.reason}' if turn.reason else ''}"


def _person_list(clients: Sequence[int]) -> str:
    names = ", ".join(map(str, clients[:_MAX_NAMED]))
    more = f" and {len(clients) - _MAX_NAMED:,} more" if len(clients) > _MAX_NAMED else ""
    return f"{'person' if len(clients) == 1 else 'persons'} {names}{more} " if clients else ""


def device_history(view: RunView, client: int) -> list[tuple[int, str, str, str, str]]:
    """What one device did, the latest first: round, when, how long, what came of it, bytes down and up."""
    rows: list[tuple[int, str, str, str, str]] = []
    for task in reversed(view.client_tasks.get(client, ())):
        turn = view.turns[task]
        took = short_duration(turn.seconds) if math.isfinite(turn.seconds) else "-"
        fate = f"{FATES[turn.fate]}{f': {turn.reason}' if turn.reason else ''}"
        rows.append((turn.round + 1, span(turn.sent), took, fate, f"{size(turn.down)} / {size(turn.up)}"))
    return rows


def state_counts(states: str) -> Mapping[str, int]:
    """How many devices do what, by letter."""
    return {letter: states.count(letter) for letter in "rwxlnuo-"}


def short_duration(seconds: float) -> str:
    """How long one task took: a real device may well be back at once.

    >>> short_duration(0.0312), short_duration(8.04), short_duration(75.0)
    ('0.031 s', '8 s', '75 s')
    """
    return f"{seconds:.2g} s" if seconds < 10 else span(seconds)


def percentage(x: float, digits: int = 0) -> str:
    """0.897 as 90 %."""
    return f"{100 * x:.{digits}f} %"


def people(n: int) -> str:
    """The noun that goes with this number."""
    return "person" if n == 1 else "people"


def count_word(n: int) -> str:
    """A small number as a word.

    >>> count_word(2), count_word(12)
    ('two', '12')
    """
    return _NUMBERS[n] if n < len(_NUMBERS) else f"{n:,}"
