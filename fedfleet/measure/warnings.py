"""Warnings about a run, to read before its figures: it learnt nothing, failed often, or refused reports; with reason and cure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fedfleet.core.aggregation import TOO_FEW
from fedfleet.core.events import Event
from fedfleet.measure.accuracy import client_accuracy, learning_curve
from fedfleet.measure.failures import clock_text, cure
from fedfleet.measure.goal import article
from fedfleet.measure.run_progress import Log, Progress, read_progress
from fedfleet.measure.run_record import RunRecord, read_record
from fedfleet.measure.score_info import ScoreInfo

ONE_CLASS = "the test set has only one class"
_MIN_GAIN = 0.01  # a run whose accuracy never rose by so much has learnt nothing
_LEAST_R2 = 0.01  # of a regression that explains anything
# What a model without knowledge does, by the kind of task.
_GUESSES = {
    "classification": "always saying the most frequent label", "regression": "predicting the mean (an R2 of 0)",
    "multilabel": "always giving the same labels", "next_token": "always saying the most frequent token",
    "sequence_labels": "always saying the most frequent label",
}  # fmt: skip
_COUNTED = {"next_token": "tokens", "sequence_labels": "places", "multilabel": "labels"}
_DEVIATIONS = 2.0  # an accuracy that lies no farther above chance than this many standard deviations could be chance


# What journals say, and what people read.
_REASON_TEXTS = {"no report could be folded": "no usable update"}


def reason_text(reason: str) -> str:
    """The reason of a failed round as people read it; journals keep the words that they were written with.

    >>> reason_text("no report could be folded")
    'no usable update'
    """
    return _REASON_TEXTS.get(reason, reason)


def failed_rounds(log: Log) -> dict[str, int]:
    """How many rounds failed, by reason, most frequent first."""
    return read_progress(log).failure_reasons


def warnings(log: Sequence[Event] | RunRecord, score: ScoreInfo | None = None) -> list[str]:
    """One sentence for each thing that would mislead a reader who only looks at the figures.

    `score` says what guessing would score on the central test set, where that is known: the journal holds no labels.
    """
    record = log if isinstance(log, RunRecord) else read_record(log)
    return [*_round_warnings(record), *_report_warnings(record.refused), *_learning_warnings(record.progress, score or ScoreInfo())]


def _round_warnings(record: RunRecord) -> list[str]:
    run = record.progress
    failed, rounds = run.failure_reasons, run.closed_count
    if not rounds:  # the run ended before its first round did
        if run.ended is None or run.ended == "target_accuracy":
            return []  # it still goes on, or had nothing to do
        if record.online is not None:
            reason = 'its first round was still waiting for reports; use pace.use = "deadline", or raise stop.virtual_seconds'
        else:
            reason = (
                "the clients that a round needs were never reachable at the same time; lower pace.min_clients and pace.min_share, "
                "change world.states, or raise stop.virtual_seconds"
            )
        return [f"no model was made: the run ended at {clock_text(run.time)} by {run.ended}, and {reason}"]
    if not run.commits:
        return [f"no model was made: all {rounds} rounds failed ({_most_frequent(failed)}); {cure(record.failures)}"]
    if sum(failed.values()) * 2 > rounds:
        return [f"{sum(failed.values())} of {rounds} rounds failed ({_most_frequent(failed)}); {cure(record.failures)}"]
    return []


def _report_warnings(refused: Sequence[tuple[int, str]]) -> list[str]:
    too_few = [one for one in refused if TOO_FEW in one[1]]
    invalid = [one for one in refused if TOO_FEW not in one[1]]
    sentences: list[str] = []
    if invalid:
        sentences.append(
            f"{_refusal_text(invalid)}; lower algorithm.lr (or weaken algorithm.attack, if the spec has one), check the "
            "data of these clients, or raise algorithm.bound if updates are meant to be that large"
        )
    if too_few:  # nothing was wrong with them
        sentences.append(
            f"{_refusal_text(too_few)}; have more reports in a commit by pace.cohort (pace.k) or a longer wait, or lower what "
            "algorithm.fold asks for"
        )
    return sentences


def _refusal_text(refused: Sequence[tuple[int, str]]) -> str:
    reasons = Counter(reason.partition(": ")[2] or reason for _, reason in refused)
    clients = len({client for client, _ in refused})
    return f"{len(refused)} reports of {clients} clients were refused ({_most_frequent(dict(reasons.most_common()))})"


def _learning_warnings(run: Progress, score: ScoreInfo) -> list[str]:
    chance = score.chance
    curve, own = learning_curve(run), client_accuracy(run)
    if len(curve.accuracy) < 2 or not run.commits:
        return []
    if chance == 1.0 and score.kind.percent:
        return [f"{ONE_CLASS}, so {score.name} does not show whether the model has learnt; use test data with more classes"]
    # Clients that keep models of their own may have learnt although the global one has not.
    best, mean = float(curve.accuracy.max()), own.mean if own else 0.0
    start, last = float(curve.accuracy[0]), float(curve.accuracy[-1])
    cause = "check algorithm.lr, the data, and whether enough clients take part"
    if chance is not None:
        total = next(e.total for e in reversed(run.evaluations) if e.total)
        luck = _DEVIATIONS * math.sqrt(chance * (1.0 - chance) / total) if score.kind.percent else _LEAST_R2
        chance_limit = chance + luck
        if max(last, mean) <= chance_limit:
            had_reached = f", although it had reached {score.text(best)}" if best > chance_limit else ""
            ended = f"it ended at {article(score.name)} {score.name} of {score.text(last)}{had_reached}"
            how = "no" if last <= chance else "not clearly"  # few samples cannot tell a small lead from luck
            if not score.kind.percent:
                return [f"the model is {how} better than {_GUESSES[score.kind.name]}: {ended}; {cause}"]
            samples = f"the same {total:,} test {_COUNTED.get(score.kind.name, 'samples')}"
            guess = f"{_GUESSES[score.kind.name]} scores {score.text(chance)} on {samples}"
            return [f"the model is {how} better than chance: {ended}, and {guess}; {cause}"]
    if max(best, mean) < start + _MIN_GAIN:
        return [
            f"nothing was learnt: {score.name} began at {score.text(start)} and never rose above "
            f"{score.text(max(best, mean))}; {cause}"
        ]
    return []


def _most_frequent(reasons: dict[str, int]) -> str:
    """The most frequent reason, and how often."""
    reason, times = next(iter(reasons.items()))
    reason = reason_text(reason)
    if len(reasons) == 1:
        return reason
    return f"most often: {reason}, {times} times" if times > 1 else f"for example: {reason}"
