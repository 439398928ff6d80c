"""The figures of a run, made from its events alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedfleet.app.pages.columns import ranked_columns, thinned
from fedfleet.app.pages.svg import COLOURS, Bar, Series, legend, line_chart, time_chart, timeline
from fedfleet.core.events import Event, ModelCommitted, RoundFailed
from fedfleet.core.records import FATES
from fedfleet.measure.learning import learning_curve
from fedfleet.measure.participation import contributions
from fedfleet.measure.tasks import Tasks

FATE_COLOURS: dict[str, str] = dict(
    zip(FATES, ("var(--c1)", "var(--c5)", "var(--c6)", "var(--c3)", "var(--c2)"), strict=True)
)


def accuracy_over_time(runs: Sequence[tuple[str, Sequence[Event], str, bool]]) -> str:
    """Accuracy on the central test set against virtual time, one line per run (name, events, colour, dashed)."""
    curves = [(name, learning_curve(log), colour, dashed) for name, log, colour, dashed in runs]
    series = [Series(n, c.seconds.tolist(), c.accuracy.tolist(), colour, dashed) for n, c, colour, dashed in curves]
    return time_chart([thinned(s) for s in series], "accuracy")


def loss_over_commits(log: Sequence[Event]) -> str:
    """Loss on the central test set by commit."""
    curve = learning_curve(log)
    line = Series("loss", curve.versions.tolist(), curve.loss.tolist(), COLOURS[0])
    return line_chart([thinned(line)], "commits", "loss")


def who_took_part(tasks: Tasks, clients: int) -> str:
    """Folded reports per client, most first; clients that were asked but never in time have their own colour."""
    counts = contributions(tasks, clients)
    asked = np.bincount(tasks.clients, minlength=clients)
    said = (("contributed", "folded"), ("asked, never in time", "dropped"), ("never asked", "wasted"))
    kinds = np.where(counts > 0, 0, np.where(asked > 0, 1, 2))
    colours = [FATE_COLOURS[fate] for _, fate in said]
    picture = ranked_columns(
        counts, np.lexsort((kinds, -counts)), "clients, most active first", "reports folded", colours, kinds,
        lambda c: f"client {c}: {counts[c]} of {asked[c]} tasks entered a model",
    )  # fmt: skip
    there = np.unique(kinds).tolist()
    return picture + legend([(name, colours[kind], False) for kind, (name, _) in enumerate(said) if kind in there])


def rounds_timeline(log: Sequence[Event], tasks: Tasks, *, rounds: int = 4, most: int = 22) -> str:
    """Who worked when, over a few rounds from the middle of the run."""
    closed = [e for e in log if isinstance(e, ModelCommitted | RoundFailed)]
    if not closed or not len(tasks.rounds):
        return ""
    busy = np.unique(tasks.rounds)
    chosen = busy[max(0, len(busy) // 2 - rounds // 2) :][:rounds]
    shown = np.flatnonzero(np.isin(tasks.rounds, chosen))
    names, counts = np.unique(tasks.clients[shown], return_counts=True)
    clients = sorted(names[np.argsort(-counts, kind="stable")][:most].tolist())
    row = {c: i for i, c in enumerate(clients)}
    bars = [
        Bar(
            row[c],
            tasks.sent[t],
            tasks.ended[t],
            fate,
            f"client {c}, round {tasks.rounds[t]}: {fate} after {tasks.seconds[t]:,.0f} s",
        )
        for t in shown.tolist()
        if (c := int(tasks.clients[t])) in row and tasks.fate[t] >= 0
        for fate in [FATES[tasks.fate[t]]]
    ]
    marks = [
        (e.time, f"round {e.round}: {f'model {e.version}' if isinstance(e, ModelCommitted) else e.reason}")
        for e in closed
        if e.round in set(chosen.tolist())
    ]
    return timeline(bars, [f"{c}" for c in clients], marks, FATE_COLOURS)
