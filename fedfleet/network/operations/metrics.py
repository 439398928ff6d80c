"""What a server counts, all its figures in one record, and the same as metrics in the text format of Prometheus.

A frontend counts in a mapping and sends it now and then (`ToProcessor.counters`): everything since it was started, or only what
changed. Names are paths: `calls/Hand/OK`, `bytes_up`, `strikes`, `receive_seconds_bucket/0.05`. LEVELS are no counts: they rise and
fall, and go with their process. The sum over processes never falls, although they die and begin again at 0. The server loop makes
a record of figures now and then, and every request gets the newest one. So an answer costs the loop nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fedfleet.core.errors import BadInput
from fedfleet.network.operations.process_memory import ProcessMemory
from fedfleet.network.protocol.frames import PROTOCOL

if TYPE_CHECKING:  # frontends count too, and have no use for the run's progress
    from fedfleet.measure.run_progress import Progress

# The methods and codes of the service; anything else that somebody calls is `other`, so that nobody can make up labels.
METHODS = ("Enrol", "Check", "Fetch", "Hand", "HandStream", "Held", "Leave", "Status")
CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
)
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds in which a report was received
_BUCKETS = {bound: f"receive_seconds_bucket/{bound:g}" for bound in BOUNDS}
OPEN_CALLS, INFLIGHT_BYTES = "open_calls", "in_flight_bytes"
LEVELS = frozenset({OPEN_CALLS, INFLIGHT_BYTES})


def count_call(counters: MutableMapping[str, int], method: str, code: str = "OK") -> None:
    """A call of the service ended so."""
    name = f"calls/{method if method in METHODS else 'other'}/{code if code in CODES else 'other'}"
    counters[name] = counters.get(name, 0) + 1


def count_report(counters: MutableMapping[str, int], seconds: float) -> None:
    """A whole report came in, and took so long; a bucket counts all that took at most so long as it says."""
    counters["receive_seconds_count"] = counters.get("receive_seconds_count", 0) + 1
    for bound, name in _BUCKETS.items():
        if seconds <= bound:
            counters[name] = counters.get(name, 0) + 1


@dataclass(frozen=True, slots=True)
class ProcessCounters:
    """What a process that lives has told so far; `life` tells it from those that were at its place before."""

    life: int
    values: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of all processes: of those that ended, and by place the newest of those that live."""

    ended: Mapping[str, float] = field(default_factory=dict[str, float])
    living: Mapping[int, ProcessCounters] = field(default_factory=dict[int, ProcessCounters])


def update_process(totals: Totals, place: int, life: int, counters: Mapping[str, float]) -> Totals:
    """A process at this place told its counters; another life than before, or a count that fell, is one that began anew.

    >>> one = update_process(Totals(), 0, 1, {"strikes": 3})
    >>> sum_totals(update_process(one, 0, 2, {"strikes": 1}))
    {'strikes': 4.0}
    """
    before = totals.living.get(place, ProcessCounters(life))
    fell = any(counters[n] < v for n, v in before.values.items() if n in counters and n not in LEVELS)
    if before.life != life or fell:
        totals = end_process(totals, place)
        before = ProcessCounters(life)
    current = ProcessCounters(life, {**before.values, **counters})
    return replace(totals, living={**totals.living, place: current})


def end_process(totals: Totals, place: int) -> Totals:
    """The process at this place ended, and whatever it told was heard: its counts stay, its levels go."""
    last = totals.living.get(place)
    if last is None:
        return totals
    counts = {n: v for n, v in last.values.items() if n not in LEVELS}
    counts_of_ended = _add_counts(dict(totals.ended), counts)
    return Totals(counts_of_ended, {p: process for p, process in totals.living.items() if p != place})


def sum_totals(totals: Totals) -> dict[str, float]:
    """All counts and levels together."""
    total = dict(totals.ended)
    for process in totals.living.values():
        total = _add_counts(total, process.values)
    return total


def split(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    """What stands below a prefix, by the rest of the name.

    >>> split({"calls/Hand/OK": 2.0, "strikes": 1.0}, "calls/")
    {'Hand/OK': 2.0}
    """
    return {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}


def buckets_of(values: Mapping[str, float]) -> list[tuple[float, float]]:
    """The histogram of seconds in which reports were received: upper bounds, and how many took at most so long."""
    result = [(bound, values.get(name, 0.0)) for bound, name in _BUCKETS.items()]
    return [*result, (float("inf"), values.get("receive_seconds_count", 0.0))]


def _add_counts(into: dict[str, float], more: Mapping[str, float]) -> dict[str, float]:
    for name, value in more.items():
        into[name] = into.get(name, 0.0) + value
    return into


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
    score: str = "accuracy"  # what the score of the task is called
    counts: Mapping[str, float] = field(default_factory=dict[str, float])
    transmitters: int = 0
    transmitters_up: int = 0
    restarts: int = 0
    draining: bool = False
    max_samples: float | None = None  # of its own that a device's report counts at most; infinite: no limit is known
    clipped: int = 0  # reports that count less than their devices claimed
    memory: Mapping[str, ProcessMemory] = field(default_factory=dict[str, ProcessMemory])  # by process


def figures_of(progress: Progress, run: str, *, run_seconds: float, **known: Any) -> Figures:
    """Figures with what the events of the run say; the server adds what else it knows, by the names of `Figures`."""
    since = None if progress.committed_at is None else max(0.0, run_seconds - progress.committed_at)
    return Figures(
        run, progress.round, progress.version, running=progress.running, arrived=progress.arrived, lost=progress.lost,
        run_seconds=run_seconds, commits=progress.commits, failed_rounds=progress.failed_rounds,
        reports=progress.fates, seconds_since_commit=since, accuracy=progress.accuracy,
        score=progress.score_name, **known,
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
        **({} if figures.score == "accuracy" else {"score": figures.score}),
        "transmitters_up": figures.transmitters_up,
        "draining": figures.draining,
    }
    return json.dumps(table)


def anonymous(figures: Figures) -> Figures:
    """The same without what the run is called and how well it learns: for callers who show no token."""
    return replace(figures, run="", accuracy=None, waiting_for="")


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
        ("fedfleet_round", "The current round.", f.round),
        ("fedfleet_model_version", "The newest model's version.", f.version),
        ("fedfleet_devices_online", "Devices that are connected or about to come back.", f.devices_online),
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
        ("fedfleet_max_samples", "The most samples of its own that a device's report counts.", f.max_samples),
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
        ("fedfleet_strikes", "Uploads that were truncated, garbled or wrongly addressed.", f.counts.get("strikes", 0.0)),
        ("fedfleet_strangers", "Calls without a valid secret.", f.counts.get("strangers", 0.0)),
        ("fedfleet_malformed", "Calls that are not messages of FedFleet.", f.counts.get("malformed", 0.0)),
        ("fedfleet_deferred", "Reports that were told to come again: too much was on its way.", f.counts.get("busy", 0.0)),
        ("fedfleet_clipped_reports", "Reports that count less than their devices claimed, since this process started.", f.clipped),
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
        "fedfleet_process_proportional_bytes", "Memory of a process, shared pages divided by sharers.", labels=["process"]
    )
    for name, memory in f.memory.items():
        resident.add_metric([name], memory.resident)
        if memory.proportional is not None:
            proportional.add_metric([name], memory.proportional)
    yield resident
    yield proportional
