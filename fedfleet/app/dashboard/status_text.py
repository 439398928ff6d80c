"""A run in words while it goes on: how it stands, which run it repeats, which devices train and what went wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fedfleet.app.dashboard import run_view
from fedfleet.app.dashboard.run_view import BACK, LATE, LOST, REFUSED, USED, WASTED, WORKING, Turn, client_turns
from fedfleet.app.dashboard.run_watcher import DAMAGED, FINISHED, PRUNED, RUNNING, RunSummary
from fedfleet.app.pages.report.number_words import as_people
from fedfleet.app.terminal.text import size, span
from fedfleet.measure.measure_info import main_measure
from fedfleet.measure.run_record import Fault, RunRecord
from fedfleet.measure.score_info import ScoreInfo, score_of_measures

FATES = {WORKING: "training", BACK: "back", USED: "used", LATE: "late", LOST: "lost", REFUSED: "refused", WASTED: "back, not used"}
_MAX_DIFFERENCES = 2  # keys in which a run may differ from the one that it repeats
_MAX_NAMED = 8  # clients that a line names
_SHORTEST = 40  # characters of a value in a sentence
_ENDS = {"rounds": "all rounds are done", "virtual_seconds": "its time is up", "commits": "all models are made",
         "target": "its target is reached", "target_accuracy": "its target is reached"}  # fmt: skip
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class SimilarRun:
    """The finished run that another repeats, by its `title`, and the keys in which they differ: (key, there, here)."""

    run: RunSummary
    differs: tuple[tuple[str, str, str], ...]
    title: str

    @property
    def description(self) -> str:
        """In what the other is different, from its own side."""
        if not self.differs:
            return "the same spec"
        return ", ".join(f"{key} = {value[:_SHORTEST]}" for key, value, _ in self.differs)


def most_similar_run(
    run: RunSummary, others: Iterable[RunSummary], title: Callable[[RunSummary], str] = lambda run: run.name
) -> SimilarRun | None:
    """The finished run that differs in the fewest keys, in two at most; of several, the newest."""
    best: SimilarRun | None = None
    for other in others:
        if other.name == run.name or other.status != FINISHED or not other.scores or not run.spec_values:
            continue
        if other.served != run.served:  # real and virtual time do not lie side by side
            continue
        if run.scores and other.score.kind != run.score.kind:  # nor do an accuracy and an R2
            continue
        # Keys that only one of them has belong to a part that differs, or are younger than the older run.
        keys = sorted(k for k in {*run.spec_values} & {*other.spec_values} if not k.startswith("run."))
        pairs = ((k, other.spec_values[k], run.spec_values[k]) for k in keys)
        differs = tuple(pair for pair in pairs if pair[1] != pair[2])
        if len(differs) <= _MAX_DIFFERENCES and (best is None or len(differs) < len(best.differs)):
            best = SimilarRun(other, differs, title(other))
    return best


def status_sentences(run: RunSummary, record: RunRecord, other: SimilarRun | None) -> tuple[str, str, str]:
    """How a run stands, in three pieces of which the middle one matters most."""
    if run.status == DAMAGED:
        return f"This run cannot be read: {run.fault}.", "", ""
    if not record.progress.rounds:
        first = "It is getting ready; no client has been asked yet." if run.status == RUNNING else ""
        return first or "It was stopped before its first round.", "", ""
    return (
        _position_sentence(run, record),
        _accuracy_sentence(record, other),
        f"{_participation_sentence(run, record)} One seed: it describes this run, not the method.",
    )


def _position_sentence(run: RunSummary, record: RunRecord) -> str:
    number = record.progress.rounds[-1].number + 1
    total = f" of {run.planned_end:,}" if run.planned_end and run.planned_end < 10_000 else ""
    clock = "real" if run.served else "virtual"
    if run.status == RUNNING:
        return f"Round {number:,}{total} after {span(record.progress.time)} of {clock} time"
    ended = record.progress.ended
    if ended:
        models = f"{record.progress.commits:,} {'model' if record.progress.commits == 1 else 'models'}"
        return f"Ended after {models} and {span(record.progress.time)} of {clock} time ({_ENDS.get(ended, ended)})"
    why = " by its search, since other trials did better," if run.status == PRUNED else ""
    return f"Stopped{why} in round {number:,}{total} after {span(record.progress.time)} of {clock} time"


def _accuracy_sentence(record: RunRecord, other: SimilarRun | None) -> str:
    if not record.progress.evaluations:
        return "not evaluated yet."
    last = record.progress.evaluations[-1]
    score = score_of_measures(last.measures)
    is_accuracy, shown = score.counts_answers, score_text(score, last.accuracy)
    if not record.progress.commits:
        return f"no model yet: the first weights {f'are {shown} accurate' if is_accuracy else f'have {score.name} {shown}'}."
    first = f"{shown} accurate." if is_accuracy else f"{score.name} {shown}{_main_measure_text(last.measures, score)}."
    if other is None or other.run.accuracy is None:
        return first
    other_label, end = f"{other.title} ({other.description})", other.run.time
    if record.progress.time < end:
        other_scores = [s for s in other.run.scores if s.time <= record.progress.time]
        return (
            f"{first} At this time {other_label} stood at {score_text(score, other_scores[-1].accuracy)}."
            if other_scores
            else first
        )
    own_scores = [s for s in record.progress.evaluations if s.time <= end]
    stood = f", it stood at {score_text(score, own_scores[-1].accuracy)}" if own_scores else ""
    return f"{first} At {span(end)}, where {other_label} ended at {score_text(score, other.run.accuracy)}{stood}."


def _main_measure_text(measures: Mapping[str, float], score: ScoreInfo) -> str:
    """The main measure beside the score, in brackets."""
    info = main_measure(score)
    known = info is not None and math.isfinite(measures.get(info.name, math.nan))
    return f" ({info.label} {info.text(measures[info.name])})" if info is not None and known else ""


def _participation_sentence(run: RunSummary, record: RunRecord) -> str:
    n, clients = len(run_view.clients_in_model(record)), record.progress.clients
    text = f"{n:,} of {clients:,} {clients_word(clients)} {'has' if n == 1 else 'have'} contributed to the model"
    last = record.progress.rounds[-1]
    if run.status != RUNNING or not last.asked or last.outcome:
        return f"{text}."
    pending = sum(turn.fate == WORKING for turn in run_view.current_turns(record))
    verb = "has" if pending == 1 else "have"
    missing = f"; {count_word(pending)} of the {count_word(last.asked)} that were asked {verb} not reported yet"
    return f"{text}{missing if pending else ''}."


def progress(run: RunSummary) -> float | None:
    """How much of what the spec allows is used up, from 0 to 1; None: it does not say."""
    stop = run.table.get("stop", {})
    done = {"rounds": run.rounds, "commits": run.commits, "virtual_seconds": run.time}
    shares = [done[key] / stop[key] for key in done if isinstance(stop.get(key), int | float) and stop[key] > 0]
    return None if not shares else 1.0 if run.status == FINISHED else min(1.0, max(shares))


def figures(record: RunRecord, online: int | None = None) -> list[tuple[str, str]]:
    """The six numbers that one looks at first, each with what it means; `online`: how many devices a server has now."""
    progress, score = record.progress, record.progress.evaluations[-1] if record.progress.evaluations else None
    counts, contributed = run_view.fate_counts(record), len(run_view.clients_in_model(record))
    finished = sum(counts[fate] for fate in (USED, LATE, LOST, REFUSED, WASTED))
    shown = score_of_measures(score.measures if score else ())
    name = shown.name if progress.commits or score is None else f"{shown.name} of the first weights"
    label = f"{name}, ±{100 * score.margin:.0f} by the size of the test set" if score and shown.counts_answers else name
    if score and not shown.counts_answers:
        label += _main_measure_text(score.measures, shown)
    there, when = record.online if online is None else online, "online at the last check"
    return [
        ("-" if score is None else score_text(shown, score.accuracy, 1), label),
        (
            "-" if there is None else f"{there:,} of {progress.clients:,}",
            when if online is None else f"online now, {progress.clients - online:,} offline",
        ),
        (f"{counts[USED]:,} of {finished:,}", "reports used"),
        (f"{contributed:,}", f"{clients_word(contributed)} that contributed"),
        (size(run_view.bytes_moved(record)), "traffic so far"),
        (f"{progress.failed_rounds:,}", "failed rounds"),
    ]


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One client of the current round: its time so far, and its state in words."""

    client: int
    seconds: float
    fate: int
    words: str


def round_rows(record: RunRecord, most: int = 12) -> tuple[float, list[TaskRow], int]:
    """The tasks of the current round: the scale in seconds, a row for each of the first, and how many more there are."""
    last = run_view.current_round(record)
    if last is None or not last.asked:
        return 0.0, [], 0
    turns = run_view.current_turns(record)
    rows = list[TaskRow]()
    for turn in turns:
        took = turn.seconds if math.isfinite(turn.seconds) else max(0.0, record.progress.time - turn.sent)
        after = f"after {short_duration(took)}"
        words = {BACK: f"back {after}", USED: f"back {after}", LATE: f"late {after}", LOST: turn.reason or "lost"}
        rows.append(TaskRow(turn.client, took, turn.fate, words.get(turn.fate, FATES[turn.fate])))
    # Of many tasks those that are missing matter more than those that are back.
    rows.sort(key=lambda r: ((r.fate in (BACK, USED)) == (len(turns) > most), r.fate, r.seconds))
    scale = max([last.due or 0.0, *(r.seconds for r in rows), 1e-9])
    return scale, rows[:most], max(0, len(rows) - most)


def fault_summary(record: RunRecord) -> str:
    """All that went wrong so far, counted."""
    counts = run_view.fate_counts(record)
    phrases = {
        run_view.OUT_OF_REACH: "went out of reach",
        run_view.TOO_SLOW: "were too slow",
        run_view.NO_REPORT: "sent no report in time",
    }
    why = ", ".join(f"{n:,} {phrases[reason]}" for reason, n in run_view.lateness_counts(record).items())
    why = f": {why}" if why else ""
    failed = "; ".join(f"{n:,}: {as_people(reason)}" for reason, n in record.progress.failure_reasons.items())
    n = record.progress.failed_rounds
    return (
        f"{counts[LATE]:,} late so far{why}. {counts[LOST]:,} lost, {counts[REFUSED]:,} refused, "
        f"{n:,} failed {'round' if n == 1 else 'rounds'}{f' ({failed})' if failed else ''}."
    )


@dataclass(frozen=True, slots=True)
class FaultLine:
    """Faults of one round that are alike, in words."""

    round: int
    words: str
    grave: bool


def fault_lines(record: RunRecord, most: int = 12) -> list[FaultLine]:
    """The latest faults, the newest first; faults of one round that are alike share a line."""
    groups: dict[tuple[int, str, bool], list[int]] = {}
    late_clients = {fault.client for fault in record.faults if fault.kind == "late" and fault.client is not None}
    late = {(turn.round, turn.client): turn for client in late_clients for turn in client_turns(record, client)}
    for fault in reversed(record.faults):
        turn = late.get((fault.round, fault.client)) if fault.client is not None else None
        grave = fault.kind in ("lost", "failed")
        clients = groups.setdefault((fault.round, _fault_words(fault, turn), grave), [])
        clients += [] if fault.client is None else [fault.client]
    lines = list[FaultLine]()
    for (round_, words, grave), who in list(groups.items())[:most]:
        more = f" and {len(who) - _MAX_NAMED:,} more" if len(who) > _MAX_NAMED else ""
        names = f"{clients_word(len(who))} {', '.join(map(str, who[:_MAX_NAMED]))}{more} " if who else ""
        lines.append(FaultLine(round_, f"{names}{words}", grave))
    return lines


def _fault_words(fault: Fault, turn: Turn | None) -> str:
    """One fault in words; why a task was late is known only after its round."""
    if fault.kind == "late":
        if turn is None or turn.fate != LATE:
            return "late"
        return f"late, given up after {span(turn.seconds)}{f': {turn.reason}' if turn.reason else ''}"
    what = {"lost": "lost", "refused": "its report was refused", "failed": "the round failed"}[fault.kind]
    return f"{what}: {as_people(fault.reason) if fault.kind == 'failed' else fault.reason}"


def device_history(record: RunRecord, client: int) -> list[tuple[int, str, str, str, str]]:
    """What one device did, the latest first: round, when, how long, what came of it, bytes down and up."""
    rows: list[tuple[int, str, str, str, str]] = []
    for turn in reversed(client_turns(record, client)):
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


def score_text(score: ScoreInfo, value: float, digits: int = 0) -> str:
    """A score: percentages as such, R2 as a number.

    >>> from fedfleet.core.kinds import KINDS
    >>> score_text(ScoreInfo(), 0.897), score_text(ScoreInfo(KINDS["regression"]), 0.4123)
    ('90 %', '0.412')
    """
    return percentage(value, digits) if score.kind.percent else score.text(value)


def clients_word(n: int) -> str:
    """The noun that goes with this number."""
    return "client" if n == 1 else "clients"


def count_word(n: int) -> str:
    """A small number as a word.

    >>> count_word(2), count_word(12)
    ('two', '12')
    """
    return _NUMBERS[n] if n < len(_NUMBERS) else f"{n:,}"
