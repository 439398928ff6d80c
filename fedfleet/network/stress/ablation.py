"""What each mechanism of the server brings: the same load against a server that has one more of them at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

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
