"""All measures of a run in one record, as `metrics.json` holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedfleet.core.events import Event, ModelCommitted, ReportRejected, RoundFailed, RunBegan, RunEnded
from fedfleet.measure.accuracy import (
    accuracy_by_participation,
    client_accuracy,
    convergence_time,
    learning_curve,
    unseen_accuracy,
)
from fedfleet.measure.budget import budgets, targets
from fedfleet.measure.curve import curve_table, times_to
from fedfleet.measure.device_work import by_fate, probe_costs, spending, stage_seconds
from fedfleet.measure.energy import energy
from fedfleet.measure.participation import contributions, participation_fairness, staleness_histogram, utilisation
from fedfleet.measure.round_outcomes import abandoned_rounds, rebroadcasts, timelines
from fedfleet.measure.tasks import Tasks, task_table
from fedfleet.measure.traffic import extra_traffic, traffic, wasted_work
from fedfleet.measure.warnings import failed_rounds, warnings


def summary(
    log: Sequence[Event], tasks: Tasks | None = None, *, chance: float | None = None, caveats: Sequence[str] = ()
) -> dict[str, Any]:
    """The measures of a run, ready for JSON. `chance`: what guessing would score on the central test set, where that is known;
    `caveats`: what whoever reads the figures must know beside what the events tell."""
    tasks = task_table(log) if tasks is None else tasks
    clients = next((e.clients for e in log if isinstance(e, RunBegan)), 0)
    seconds = log[-1].time if log else 0.0
    curve = learning_curve(log)
    of_clients = client_accuracy(log)
    converged = convergence_time(log)
    traffic_totals = traffic(tasks, seconds, extra_traffic(log))
    took_part = contributions(tasks, clients)
    fairness = participation_fairness(took_part)
    by_participation = accuracy_by_participation(log, took_part)
    spent = spending(log, len(tasks.fate))
    energy_used = energy(log, tasks, spent)
    committed = sum(isinstance(e, ModelCommitted) for e in log)
    failed = sum(isinstance(e, RoundFailed) for e in log)
    return {
        "rounds": committed + failed,
        "commits": committed,
        "rounds_failed": failed,
        "failed_rounds": failed_rounds(log),
        "warnings": [*warnings(log, chance), *caveats],
        "stopped_by": next((e.reason for e in log if isinstance(e, RunEnded)), None),
        "accuracy": float(curve.accuracy[-1]) if len(curve.accuracy) else None,
        "best_accuracy": float(curve.accuracy.max()) if len(curve.accuracy) else None,
        "chance": chance,
        "loss": float(curve.loss[-1]) if len(curve.loss) and np.isfinite(curve.loss[-1]) else None,
        "accuracy_clients": of_clients.mean if of_clients else None,
        "accuracy_bottom10": of_clients.bottom10 if of_clients else None,
        "accuracy_worst10_mean": of_clients.worst10_mean if of_clients else None,
        "accuracy_std": of_clients.std if of_clients else None,
        "accuracy_took_part": by_participation.took_part,
        "accuracy_never": by_participation.never,
        "accuracy_unseen": unseen_accuracy(log),
        "virtual_seconds": seconds,
        "convergence_seconds": converged,
        "bytes_down": traffic_totals.bytes_down,
        "bytes_up": traffic_totals.bytes_up,
        "bytes_per_second": traffic_totals.bytes_per_second,
        "bytes_wasted": {"down": traffic_totals.wasted_down, "up": traffic_totals.wasted_up},
        "utilisation": asdict(utilisation(tasks, clients, converged or 0.0)),
        "wasted": asdict(wasted_work(tasks)),
        "fates": by_fate(tasks, spent),
        "stage_seconds": stage_seconds(spent),
        "probes": asdict(probe_costs(log)),
        "energy": None if energy_used is None else asdict(energy_used),
        "budgets": budgets(log),
        "targets": targets(log),
        "rebroadcasts": rebroadcasts(log),
        "abandoned_rounds": abandoned_rounds(log),
        "pace_timelines": timelines(log),
        "staleness": staleness_histogram(tasks).tolist(),
        "participation": asdict(fairness),
        "reports_rejected": sum(isinstance(e, ReportRejected) for e in log),
        "time_to": times_to(curve),
        "curve": curve_table(log),
    }
