"""All measures of a run in one record, as `metrics.json` holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedfleet.core.events import Event
from fedfleet.measure import accuracy
from fedfleet.measure.budget import budgets, targets
from fedfleet.measure.costs import by_fate, energy, probe_costs, stage_seconds, traffic, wasted_work
from fedfleet.measure.participation import contributions, participation_fairness, staleness_histogram, utilisation
from fedfleet.measure.run_progress import FAILED, Log, read_progress
from fedfleet.measure.run_record import RunRecord, read_record
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.warnings import warnings


def summary(
    log: Sequence[Event], record: RunRecord | None = None, *, score: ScoreInfo | None = None, caveats: Sequence[str] = ()
) -> dict[str, Any]:
    """The measures of a run, ready for JSON. `record` is that of the log, where it has been read already; `score` what the
    score of the task is called and what guessing would reach, where that is known; `caveats` are further warnings."""
    score = ScoreInfo() if score is None else score
    record = read_record(log) if record is None else record
    run, tasks, spent = record.progress, record.tasks.table(), record.tasks.spending()
    clients, seconds = run.clients, run.time
    curve = accuracy.learning_curve(run)
    of_clients = accuracy.client_accuracy(run)
    converged = accuracy.convergence_time(run)
    traffic_totals = traffic(tasks, seconds, record.probes, record.duplicate_bytes)
    took_part = contributions(tasks, clients)
    fairness = participation_fairness(took_part)
    by_participation = accuracy.accuracy_by_participation(run, took_part)
    energy_used = energy(tasks, spent, record.probes, run.costs["grams"])
    return {
        "rounds": run.closed_count,
        "commits": run.commits,
        "rounds_failed": run.failed_rounds,
        "failed_rounds": run.failure_reasons,
        "warnings": [*warnings(record, score), *caveats],
        "stopped_by": run.ended,
        "accuracy": float(curve.accuracy[-1]) if len(curve.accuracy) else None,
        "best_accuracy": float(curve.accuracy.max()) if len(curve.accuracy) else None,
        "chance": score.chance,
        "score": score.to_dict(),
        "test_samples": score.samples,
        "measures": accuracy.last_measures(run),
        "loss": float(curve.loss[-1]) if len(curve.loss) and np.isfinite(curve.loss[-1]) else None,
        "accuracy_clients": of_clients.mean if of_clients else None,
        "accuracy_bottom10": of_clients.bottom10 if of_clients else None,
        "accuracy_worst10_mean": of_clients.worst10_mean if of_clients else None,
        "accuracy_std": of_clients.std if of_clients else None,
        "accuracy_took_part": by_participation.took_part,
        "accuracy_never": by_participation.never,
        "accuracy_unseen": accuracy.unseen_accuracy(run),
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
        "probes": asdict(probe_costs(record.probes)),
        "energy": None if energy_used is None else asdict(energy_used),
        "budgets": budgets(run),
        "targets": targets(run),
        "rebroadcasts": rebroadcasts(run),
        "abandoned_rounds": abandoned_rounds(run),
        "pace_timelines": record.waits,
        "staleness": staleness_histogram(tasks).tolist(),
        "participation": asdict(fairness),
        "reports_rejected": run.counts["rejected"],
        "time_to": accuracy.times_to(curve),
        "curve": accuracy.curve_table(run),
    }


def rebroadcasts(log: Log) -> int:
    """How often clients were asked beyond the first time in a round; policies without rounds do so all the time."""
    return sum(r.waves - 1 for r in read_progress(log).rounds if r.waves)


def abandoned_rounds(log: Log) -> int:
    """Rounds that failed after tasks had been sent in them."""
    return sum(r.outcome == FAILED and r.waves > 0 for r in read_progress(log).rounds)
