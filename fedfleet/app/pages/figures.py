"""The figures of a run, made from its events alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedfleet.app.pages.svg import COLOURS, Bar, Series, bar_chart, legend, line_chart, time_chart, timeline
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
    return time_chart(series, "accuracy")


def loss_over_commits(log: Sequence[Event]) -> str:
    """Loss on the central test set by commit."""
    curve = learning_curve(log)
    return line_chart([Series("loss", curve.versions.tolist(), curve.loss.tolist(), COLOURS[0])], "commits", "loss")


def who_took_part(tasks: Tasks, clients: int) -> str:
    """Folded reports per client, most first; clients that were asked but never in time have their own colour."""
    counts = contributions(tasks, clients)
    asked = np.bincount(tasks.clients, minlength=clients)
    order = np.argsort(-counts, kind="stable")
    kinds = ["folded" if counts[c] else "asked" if asked[c] else "never" for c in order]
    colour = {"folded": FATE_COLOURS["folded"], "asked": FATE_COLOURS["dropped"], "never": FATE_COLOURS["wasted"]}
    titles = [f"client {c}: {counts[c]} of {asked[c]} tasks entered a model" for c in order]
    picture = bar_chart(
        counts[order].tolist(), "clients, most active first", "reports folded", [colour[k] for k in kinds], titles
    )
    said = (("contributed", "folded"), ("asked, never in time", "asked"), ("never asked", "never"))
    return picture + legend([(name, colour[kind], False) for name, kind in said if kind in kinds])


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
