"""Stress runs: a server with its own processes, load generators, and raw gRPC of the same bytes before and after.

Rounds are timed by the server's own journal. The first is listed and left out of the rates, as in FS-REAL's protocol: in it
channels open, kernels are compiled and everyone enrols. A series of runs adds one more mechanism of the server at every step, or
goes from few clients to many.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors.child_process import Child
from fedfleet.network.protocol.frames import INLINE_BYTES
from fedfleet.network.security.certificates import CertificateRequest, make_certificates, utc_now
from fedfleet.network.stress.channels import HTTP
from fedfleet.network.stress.load_generator import Load
from fedfleet.network.stress.meters import Usage, UsageSampler, merge
from fedfleet.network.stress.raw_grpc import Raw, RawRate, raw_rates
from fedfleet.network.stress.stress_plan import Dummy, check_bytes

_GENERATOR = "fedfleet.network.stress.load_generator"
_HOST = "fedfleet.network.stress.stress_server"
_STARTING = 120.0  # seconds within which a process must be ready
_ENDING = 60.0
_SLOWEST = 5e6  # bytes a second and direction that any machine should move: slower, and the run counts as stuck
_CHANNELS = 8
_ROOM = 1.25  # of the server for payloads on their way, against what the generators send at once
_MOST_WAITING = 4096  # calls that a fleet leaves open for the server to answer when there is work


class Keys(NamedTuple):
    """Files of a server's certificate and key, and of the authority that its devices trust ("": no TLS)."""

    certificate: str = ""
    key: str = ""
    ca: str = ""


@dataclass(frozen=True, slots=True)
class Stress:
    """What is asked of a stress run; `transmitters`, `in_flight` 0: as fits the machine and the payload."""

    dummy: Dummy
    transmitters: int = -1  # 0: the server is one process
    generators: int = 1
    in_flight: int = 0
    durable: bool = True
    encode_once: bool = True
    streaming: bool = True
    tls: bool = False
    raw: bool = True
    http: bool = False  # devices call over HTTP
    host: str = _HOST

    def with_defaults(self) -> Stress:
        """The same with every number chosen."""
        cores = os.cpu_count() or 1
        most = 256 if self.dummy.payload_bytes <= INLINE_BYTES else 48
        return replace(
            self, transmitters=max(1, cores // 2) if self.transmitters < 0 else self.transmitters, in_flight=self.in_flight or most
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a stress run gave: when each model was made (seconds since the start), the load's tallies, costs, raw rates."""

    stress: Stress
    committed: list[float]
    tallies: list[dict[str, Any]]
    usage: Usage
    raw: dict[str, RawRate]


def run_stress(options: Stress) -> Outcome:
    """Carry out a stress run."""
    stress = options.with_defaults()
    _check(stress)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fedfleet-stress-", ignore_cleanup_errors=True))
        keys = _make_keys(folder) if stress.tls else Keys()
        before = _raw(stress, keys)
        host = stack.enter_context(Child(stress.host, server_settings(stress, folder, keys)))
        server = host.answer(_STARTING)
        watch = stack.enter_context(UsageSampler(host.pid))
        loads = [stack.enter_context(Child(_GENERATOR, asdict(load))) for load in loads_of(stress, server, keys.ca)]
        for load in loads:
            load.answer(_STARTING)
        for load in loads:
            load.tell({"go": True})
        committed = host.answer(_time_limit(stress))["committed"]
        usage = watch.close()
        for load in loads:
            load.ask_to_end()
        tallies = [load.answer(_ENDING)["tally"] for load in loads]
        host.close()
        after = _raw(stress, keys)
    if len(committed) < stress.dummy.rounds:
        raise RunFailed(f"stress: {len(committed)} of {stress.dummy.rounds} rounds made a model; {_failure_text(tallies)}")
    return Outcome(stress, committed, tallies, usage, {form: _mean_rate(before[form], after[form]) for form in before})


def _mean_rate(before: RawRate, after: RawRate) -> RawRate:
    return RawRate((before.per_second + after.per_second) / 2, (before.cpu_ms + after.cpu_ms) / 2)


def _check(stress: Stress) -> None:
    check_bytes(stress.dummy.payload_bytes)
    if stress.dummy.rounds < 2:
        raise BadInput("--rounds: the first round does not count for the rates; give at least 2")
    if stress.generators > stress.dummy.clients:
        raise BadInput(
            f"--generators: {stress.dummy.clients} clients are too few for {stress.generators} generators; give fewer generators"
        )


def _raw(stress: Stress, keys: Keys) -> dict[str, RawRate]:
    """Raw gRPC with as many processes, calls and bytes; nothing where nobody asked."""
    if not stress.raw:
        return {}
    seconds = 1.5 if stress.dummy.payload_bytes <= INLINE_BYTES else 4.0
    return raw_rates(Raw(
        max(1, stress.transmitters), stress.generators, stress.in_flight, stress.dummy.payload_bytes, seconds,
        max(1, _CHANNELS // stress.generators), *keys,
    ))  # fmt: skip


def server_settings(stress: Stress, folder: str, keys: Keys) -> dict[str, Any]:
    """What the server's process is told first."""
    flags = ("transmitters", "durable", "encode_once", "streaming", "http")
    return {
        "dummy": asdict(stress.dummy),
        "folder": folder,
        "in_flight_bytes": int(_ROOM * stress.in_flight * stress.dummy.payload_bytes),
        "certificate": keys.certificate,
        "certificate_key": keys.key,
        **{name: getattr(stress, name) for name in flags},
    }


def loads_of(stress: Stress, server: dict[str, Any], ca: str) -> list[Load]:
    """Clients dealt out to generators like cards."""
    clients, n = stress.dummy.clients, stress.generators
    waiting = min(_MOST_WAITING, clients) // n
    return [
        Load(
            HTTP + server["http"] if stress.http else server["address"],
            server["key"],
            stress.dummy.payload_bytes,
            i,
            n,
            len(range(i, clients, n)),
            max(1, stress.in_flight // n),
            waiting,
            max(1, _CHANNELS // n),
            ca=ca,
        )
        for i in range(n)
    ]


def _time_limit(stress: Stress) -> float:
    """After how many seconds a run counts as stuck."""
    moved = stress.dummy.payload_bytes + 10_000
    return 120.0 + stress.dummy.rounds * stress.dummy.per_commit * moved / _SLOWEST


def _failure_text(tallies: list[dict[str, Any]]) -> str:
    failed = sum_counts(tally["failures"] for tally in tallies)
    statuses = sum_counts(tally["statuses"] for tally in tallies)
    return f"calls that failed: {failed or 'none'}; receipts: {statuses or 'none'}"


def sum_counts(many: Any) -> dict[str, int]:
    """Counts by name, over several counts."""
    total: Counter[str] = Counter()
    for counts in many:
        total.update(counts)
    return dict(total)


def _make_keys(folder: str) -> Keys:
    """A certificate of the loopback and its key, and the authority that devices trust."""
    files = make_certificates(Path(folder) / "tls", CertificateRequest(hosts=("127.0.0.1", "localhost")), utc_now())
    return Keys(str(files.certificate), str(files.key), str(files.ca))


def answer_of(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the answer of `fedfleet stress`: seconds, rates, memory, and what else says how it went."""
    stress, dummy, tallies = outcome.stress, outcome.stress.dummy, outcome.tallies
    seconds = [end - begin for begin, end in zip([0.0, *outcome.committed], outcome.committed, strict=False)]
    rate = dummy.per_commit * (len(seconds) - 1) / max(sum(seconds[1:]), 1e-9)
    raw, raw_cpu = max(outcome.raw.values(), default=RawRate(0.0, 0.0))
    updates = max(1, sum(tally["updates"] for tally in tallies))
    receipts = sum_counts(tally["statuses"] for tally in tallies)
    waits = {
        f"{name}_ms": {f"p{round(share * 100)}": round(latency.quantile(share) * 1e3, 2) for share in (0.5, 0.99)}
        for name in ("check", "hand")
        for latency in [merge(tally[name] for tally in tallies)]
    }
    return {
        "round_seconds": [round(s, 4) for s in seconds],
        "updates_per_second": round(rate, 2),
        "raw_grpc_updates_per_second": round(raw, 2),
        "peak_rss_mb": round(outcome.usage.peak_mb, 1),
        "clients": dummy.clients,
        "payload_bytes": dummy.payload_bytes,
        "mode": dummy.mode,
        "durable": stress.durable,
        "tls": stress.tls,
        "http": stress.http,
        "transmitters": stress.transmitters,
        "generators": stress.generators,
        "in_flight": stress.in_flight,
        "share_of_raw": round(rate / raw, 3) if raw else None,
        "raw_forms": {form: round(value.per_second, 2) for form, value in outcome.raw.items()},
        "base_rss_mb": round(outcome.usage.base_mb, 1),
        "cpu_ms_per_update": {
            "server": round(outcome.usage.cpu_seconds * 1e3 / updates, 3),
            "processor": round(outcome.usage.first_cpu_seconds * 1e3 / updates, 3),
            "generators": round(sum(tally["cpu_seconds"] for tally in tallies) * 1e3 / updates, 3),
            "raw_grpc": round(raw_cpu, 3),
        },
        "calls_per_update": round((sum(t["checks"] for t in tallies) + sum(receipts.values())) / updates, 2),
        **waits,
        "receipts": receipts,
        "failed_calls": sum_counts(tally["failures"] for tally in tallies),
    }


# Each step keeps what the steps before it have changed. FS-REAL's own order (section 5.5 of our notes on it).
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("one process", {"transmitters": 0, "encode_once": False, "streaming": False, "durable": False}),
    ("+ process split", {"transmitters": 1}),
    ("+ pools", {"transmitters": 2}),
    ("+ encode once", {"encode_once": True}),
    ("+ streaming fold", {"streaming": True}),
    ("+ durability", {"durable": True}),
)
_COLUMNS = ("round_seconds", "updates_per_second", "peak_rss_mb", "cpu_ms_per_update", "failed_calls")


def steps_of(stress: Stress) -> Iterator[tuple[str, Stress]]:
    """The same run step by step; where raw gRPC is measured anyway, the steps need not."""
    step = replace(stress, raw=False)
    for name, change in STEPS:
        step = replace(step, **change)
        yield name, step


def run_ablation(stress: Stress, run: Callable[[Stress], Outcome] = run_stress) -> Iterator[dict[str, Any]]:
    """Each step's figures, as they come."""
    for name, step in steps_of(stress):
        answer = answer_of(run(step))
        yield {"step": name, **{key: answer[key] for key in _COLUMNS}}


def sizes_of(text: str) -> list[int]:
    """Numbers of clients, smallest first.

    >>> sizes_of("1000,100")
    [100, 1000]
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise BadInput(f"--sweep: {text!r} is not a list of numbers of clients; write for example 100,1000,10000")
    return sorted({int(word) for word in words})


def run_sweep(stress: Stress, sizes: Sequence[int], run: Callable[[Stress], Outcome] = run_stress) -> Iterator[dict[str, Any]]:
    """The answer for each number of clients, with the bytes of memory for each client more than in the first."""
    first: dict[str, Any] | None = None
    for clients in sizes:
        answer = answer_of(run(replace(stress, dummy=replace(stress.dummy, clients=clients))))
        first = first or answer
        yield {**answer, "bytes_per_client": per_client(first, answer)}


def per_client(first: dict[str, Any], last: dict[str, Any]) -> float | None:
    """How many bytes of peak memory each further client costs.

    >>> per_client({"clients": 100, "peak_rss_mb": 50.0}, {"clients": 1100, "peak_rss_mb": 51.0})
    1000.0
    """
    more = last["clients"] - first["clients"]
    return round((last["peak_rss_mb"] - first["peak_rss_mb"]) * 1e6 / more, 1) if more else None
