"""Series of stress runs: one more mechanism of the server at every step, or from few clients to many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.network.stress.stress_run import Outcome, Stress, answer_of, run_stress

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


def run_sweep(
    stress: Stress, sizes: Sequence[int], run: Callable[[Stress], Outcome] = run_stress
) -> Iterator[dict[str, Any]]:
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
