"""All figures of a server in one record, and the same as metrics in the text format of Prometheus.

The server loop makes a record now and then, and every request gets the newest one. So an answer costs the loop nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.measure.run_progress import Progress
from fedfleet.network.operations.counters import INFLIGHT_BYTES, OPEN_CALLS, buckets_of, split
from fedfleet.network.operations.process_memory import ProcessMemory
from fedfleet.network.protocol.frames import PROTOCOL

# What a server does when it waits for no one; anything else in `Figures.waiting_for` is what it waits for.
MAKING, EVALUATING, PAUSE = "making model", "evaluating model", "pausing between rounds"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a server could say about itself at one moment. `counts` are the summed counters of all its processes."""

    run: str
    round: int = 0
    version: int = 0
    devices_online: int = 0
    declared: int = 0
    enrolled: int = 0
    running: int = 0  # tasks that are out
    arrived: int = 0  # reports that are here and not folded yet
    lost: int = 0  # tasks of this round that will not come back
    waiting_for: str = ""
    uptime_seconds: float = 0.0
    run_seconds: float = 0.0  # of the run's clock, which goes on where a killed server left off
    commits: int = 0
    failed_rounds: int = 0
    reports: Mapping[str, int] = field(default_factory=dict[str, int])  # by fate
    seconds_since_commit: float | None = None
    accuracy: float | None = None
    counts: Mapping[str, float] = field(default_factory=dict[str, float])
    transmitters: int = 0
    transmitters_up: int = 0
    restarts: int = 0
    draining: bool = False
    memory: Mapping[str, ProcessMemory] = field(default_factory=dict[str, ProcessMemory])  # by process


def figures_of(progress: Progress, run: str, *, run_seconds: float, **known: Any) -> Figures:
    """Figures with what the events of the run say; the server adds what else it knows, by the names of `Figures`."""
    since = None if progress.committed_at is None else max(0.0, run_seconds - progress.committed_at)
    return Figures(
        run, progress.round, progress.version, running=progress.running, arrived=progress.arrived, lost=progress.lost,
        run_seconds=run_seconds, commits=progress.commits, failed_rounds=progress.failed_rounds,
        reports=progress.fates, seconds_since_commit=since, accuracy=progress.accuracy, **known,
    )  # fmt: skip


def activity_text(waiting_for: str) -> str:
    """What a server is doing, for people.

    >>> activity_text("evaluating model 14"), activity_text("devices: 2 of 5 are here")
    ('evaluating model 14', 'waiting for devices: 2 of 5 are here')
    """
    return waiting_for if waiting_for.startswith((MAKING, EVALUATING, PAUSE)) else f"waiting for {waiting_for}"


def status_json(figures: Figures) -> str:
    """What `Fleet/Status` answers: the contract of `fedfleet status`, and some more; never a secret."""
    table = {
        "run": figures.run,
        "round": figures.round,
        "version": figures.version,
        "devices_online": figures.devices_online,
        "running": figures.running,
        "waiting_for": figures.waiting_for,
        "uptime_seconds": round(figures.uptime_seconds, 3),
        "declared": figures.declared,
        "enrolled": figures.enrolled,
        "arrived": figures.arrived,
        "commits": figures.commits,
        "failed_rounds": figures.failed_rounds,
        "reports": dict(figures.reports),
        "accuracy": figures.accuracy,
        "transmitters_up": figures.transmitters_up,
        "draining": figures.draining,
    }
    return json.dumps(table)


def exposition(figures: Figures) -> bytes:
    """The figures in the text format of Prometheus."""
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import generate_latest
    except ImportError:
        raise BadInput("metrics need prometheus-client, which is not installed; install fedfleet[server]") from None
    registry = CollectorRegistry()
    registry.register(Collector(lambda: figures))
    return generate_latest(registry)


class Collector:
    """A collector of prometheus-client over figures, for programs with a registry of their own."""

    def __init__(self, read: Callable[[], Figures]) -> None:
        self.read = read

    def describe(self) -> list[Any]:
        """Nothing: else it would be collected once more just to learn the names."""
        return []

    def collect(self) -> Iterator[Any]:
        """All families of metrics."""
        figures = self.read()
        yield from _gauges(figures)
        yield from _counters(figures)
        yield _histogram(figures)
        yield from _processes(figures)


def _gauges(f: Figures) -> Iterator[Any]:
    from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

    yield InfoMetricFamily("fedfleet_run", "The run that is served.", value={"run": f.run, "protocol": str(PROTOCOL)})
    gauges: list[tuple[str, str, float | None]] = [
        ("fedfleet_round", "The round that is under way.", f.round),
        ("fedfleet_model_version", "The newest model's version.", f.version),
        ("fedfleet_devices_online", "Devices that are on the line or about to come back.", f.devices_online),
        ("fedfleet_devices_declared", "Devices that the server was told to wait for.", f.declared),
        ("fedfleet_devices_enrolled", "Devices that have enrolled.", f.enrolled),
        ("fedfleet_tasks_running", "Tasks that are out with devices.", f.running),
        ("fedfleet_reports_waiting", "Reports that are here and not folded yet.", f.arrived),
        ("fedfleet_uptime_seconds", "Since this server process was started.", f.uptime_seconds),
        ("fedfleet_run_seconds", "Of the run's clock, which goes on where a killed server left off.", f.run_seconds),
        ("fedfleet_seconds_since_commit", "Of the run's clock, since the newest model.", f.seconds_since_commit),
        ("fedfleet_accuracy", "Of the newest model that was evaluated.", f.accuracy),
        ("fedfleet_transmitters", "Transmitter processes that there should be.", f.transmitters),
        ("fedfleet_transmitters_up", "Transmitter processes that are up.", f.transmitters_up),
        ("fedfleet_open_calls", "Calls of devices that are open.", f.counts.get(OPEN_CALLS, 0.0)),
        ("fedfleet_inflight_bytes", "Bytes of reports that are being received.", f.counts.get(INFLIGHT_BYTES, 0.0)),
        ("fedfleet_draining", "1 while the server finishes what is under way and stops.", float(f.draining)),
    ]
    for name, meaning, value in gauges:
        if value is not None and math.isfinite(value):
            yield GaugeMetricFamily(name, meaning, value=value)


def _counters(f: Figures) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily

    plain = [
        ("fedfleet_commits", "Models made.", f.commits),
        ("fedfleet_failed_rounds", "Rounds that ended without a model.", f.failed_rounds),
        ("fedfleet_transmitter_restarts", "Transmitters that died and were started again.", f.restarts),
        (
            "fedfleet_strikes",
            "Uploads that were truncated, garbled or wrongly addressed.",
            f.counts.get("strikes", 0.0),
        ),
        ("fedfleet_strangers", "Calls without a secret that holds.", f.counts.get("strangers", 0.0)),
        ("fedfleet_malformed", "Calls that are no message of FedFleet.", f.counts.get("malformed", 0.0)),
        (
            "fedfleet_deferred",
            "Reports that were told to come again: too much was on its way.",
            f.counts.get("busy", 0.0),
        ),
        ("fedfleet_snapshots", "Snapshots of partial sums written.", f.counts.get("snapshots", 0.0)),
    ]
    for name, meaning, value in plain:
        yield CounterMetricFamily(name, meaning, value=value)
    reports = CounterMetricFamily("fedfleet_reports", "What became of tasks and their reports.", labels=["fate"])
    for fate, number in f.reports.items():
        reports.add_metric([fate], number)
    yield reports
    byte_counts = CounterMetricFamily("fedfleet_bytes", "Payload bytes from and to devices.", labels=["direction"])
    for direction in ("up", "down"):
        byte_counts.add_metric([direction], f.counts.get(f"bytes_{direction}", 0.0))
    yield byte_counts
    calls = CounterMetricFamily("fedfleet_calls", "Calls of devices that ended.", labels=["method", "code"])
    for name, number in sorted(split(f.counts, "calls/").items()):
        method, _, code = name.partition("/")
        calls.add_metric([method, code or "OK"], number)
    yield calls


def _histogram(f: Figures) -> Any:
    from prometheus_client.core import HistogramMetricFamily

    buckets = [("+Inf" if math.isinf(bound) else f"{bound:g}", number) for bound, number in buckets_of(f.counts)]
    return HistogramMetricFamily(
        "fedfleet_receive_seconds",
        "From a whole report to its receipt: checked, granted, and safe on the disk.",
        buckets=buckets,
        sum_value=f.counts.get("receive_seconds_sum", 0.0),
    )


def _processes(f: Figures) -> Iterator[Any]:
    from prometheus_client.core import GaugeMetricFamily

    resident = GaugeMetricFamily("fedfleet_process_resident_bytes", "Memory of a process.", labels=["process"])
    proportional = GaugeMetricFamily(
        "fedfleet_process_proportional_bytes",
        "Memory of a process, shared pages divided by sharers.",
        labels=["process"],
    )
    for name, memory in f.memory.items():
        resident.add_metric([name], memory.resident)
        if memory.proportional is not None:
            proportional.add_metric([name], memory.proportional)
    yield resident
    yield proportional
