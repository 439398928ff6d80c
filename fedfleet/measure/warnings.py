"""What a person must hear about a run before its figures: that it learnt nothing, failed often, or refused reports, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fedfleet.core.events import Event, ModelCommitted, ReportRejected, RoundFailed
from fedfleet.measure.learning import client_accuracy, learning_curve

_LEARNT = 0.01  # a run whose accuracy never rose by so much has learnt nothing


def failed_rounds(log: Sequence[Event]) -> dict[str, int]:
    """How many rounds failed, by reason, most frequent first."""
    return dict(Counter(e.reason for e in log if isinstance(e, RoundFailed)).most_common())


def warnings(log: Sequence[Event]) -> list[str]:
    """One sentence for each thing that would mislead whoever only reads the figures."""
    commits = sum(isinstance(e, ModelCommitted) for e in log)
    failed, refused = failed_rounds(log), [e for e in log if isinstance(e, ReportRejected)]
    rounds = commits + sum(failed.values())
    found: list[str] = []
    if rounds and not commits:
        found.append(f"no model was made: all {rounds} rounds failed ({_most(failed)})")
    elif sum(failed.values()) * 2 > rounds:
        found.append(f"{sum(failed.values())} of {rounds} rounds failed ({_most(failed)})")
    if refused:
        why = Counter(e.reason.partition(": ")[2] or e.reason for e in refused)
        clients = len({e.client for e in refused})
        found.append(f"{len(refused)} reports of {clients} clients were refused ({_most(dict(why.most_common()))})")
    curve, own = learning_curve(log), client_accuracy(log)
    if commits and len(curve.accuracy) > 1:
        # Clients that keep models of their own may have learnt although the global one has not.
        top, start = max(float(curve.accuracy.max()), own.mean if own else 0.0), float(curve.accuracy[0])
        best, first = 100 * top, 100 * start
        if top >= start + _LEARNT:
            return found
        found.append(
            f"nothing was learnt: accuracy began at {first:.1f} % and never rose above {best:.1f} %; "
            "is the learning rate right, and do enough clients take part?"
        )
    return found


def _most(reasons: dict[str, int]) -> str:
    """The most frequent reason, and how often."""
    reason, times = next(iter(reasons.items()))
    return f"most often: {reason}, {times} times" if len(reasons) > 1 else reason
