"""Warnings about a run, to read before its figures: it learnt nothing, failed often, or refused reports; with reason and cure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedfleet.core.aggregation import TOO_FEW
from fedfleet.core.events import Event
from fedfleet.core.records import Ints
from fedfleet.measure.accuracy import client_accuracy, learning_curve
from fedfleet.measure.failures import clock_text, cure
from fedfleet.measure.run_progress import Log, Progress, read_progress
from fedfleet.measure.run_record import RunRecord, read_record

ONE_CLASS = "the test set has only one class"
_MIN_GAIN = 0.01  # a run whose accuracy never rose by so much has learnt nothing
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


def chance_level(labels: Ints) -> float | None:
    """The accuracy of always predicting the most frequent of these labels: never less than one in as many classes."""
    return float(np.unique(labels, return_counts=True)[1].max() / labels.size) if labels.size else None


def warnings(log: Sequence[Event] | RunRecord, chance: float | None = None) -> list[str]:
    """One sentence for each thing that would mislead a reader who only looks at the figures.

    `chance` is what guessing would score on the central test set, where that is known: the journal holds no labels.
    """
    record = log if isinstance(log, RunRecord) else read_record(log)
    return [*_round_warnings(record), *_report_warnings(record.refused), *_learning_warnings(record.progress, chance)]


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


def _learning_warnings(run: Progress, chance: float | None) -> list[str]:
    curve, own = learning_curve(run), client_accuracy(run)
    if len(curve.accuracy) < 2 or not run.commits:
        return []
    if chance == 1.0:
        return [f"{ONE_CLASS}, so accuracy does not show whether the model has learnt; use test data with more classes"]
    # Clients that keep models of their own may have learnt although the global one has not.
    best, mean = float(curve.accuracy.max()), own.mean if own else 0.0
    start, last = float(curve.accuracy[0]), float(curve.accuracy[-1])
    cause = "is algorithm.lr right, is the data, and do enough clients take part?"
    if chance is not None:
        total = next(e.total for e in reversed(run.evaluations) if e.total)
        chance_limit = chance + _DEVIATIONS * math.sqrt(chance * (1.0 - chance) / total)
        if max(last, mean) <= chance_limit:
            had_reached = f", although it had reached {100 * best:.1f} %" if best > chance_limit else ""
            how = "no" if last <= chance else "not clearly"  # few samples cannot tell a small lead from luck
            return [
                f"the model is {how} better than chance: it ended at an accuracy of {100 * last:.1f} "
                f"%{had_reached}, and always saying "
                f"the most frequent label scores {100 * chance:.1f} % on the same {total:,} test samples; {cause}"
            ]
    if max(best, mean) < start + _MIN_GAIN:
        return [
            f"nothing was learnt: accuracy began at {100 * start:.1f} % and never rose above {100 * max(best, mean):.1f} %; {cause}"
        ]
    return []


def _most_frequent(reasons: dict[str, int]) -> str:
    """The most frequent reason, and how often."""
    reason, times = next(iter(reasons.items()))
    reason = reason_text(reason)
    if len(reasons) == 1:
        return reason
    return f"most often: {reason}, {times} times" if times > 1 else f"for example: {reason}"
