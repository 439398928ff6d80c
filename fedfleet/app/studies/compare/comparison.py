"""The comparison of run folders, and what `fedfleet compare --json` answers of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedfleet.app.studies.compare.arms import arms, differing_keys, seed_of
from fedfleet.app.studies.compare.records import Arm, ComparedRun, Comparison, clock_of
from fedfleet.app.studies.compare.run_data import accuracy_at, read_runs
from fedfleet.app.studies.compare.verdict import (
    arm_target_time,
    choose_target,
    drop_repeated_runs,
    equal_time,
    time_to,
    verdict,
)


def compare(folders: Sequence[Path], *, target: float | None = None) -> Comparison:
    """The runs in these folders side by side; `target`: the accuracy to which times are measured."""
    return comparison(read_runs(folders), target=target)


def comparison(runs: Sequence[ComparedRun], *, target: float | None = None) -> Comparison:
    """The same for runs that were read already."""
    groups = arms(runs)
    result = verdict(groups)
    aim = choose_target(groups, result.at_end.standings, target)
    each = [drop_repeated_runs(arm) for arm in groups]
    times = () if aim is None else tuple(arm_target_time(arm, aim, equal_time(each)) for arm in each)
    return Comparison(tuple(runs), groups, differing_keys(runs), result, aim, times)


def answer_of(result: Comparison) -> dict[str, Any]:
    """A comparison as JSON: `differs`, `runs` and `verdict` are the contract."""
    conclusion = result.verdict
    return {
        "verdict": conclusion.sentence,
        "winner": conclusion.winner,
        "sure": conclusion.sure,
        "caveats": list(conclusion.caveats),
        "differs": {key: [json_value(value) for value in values] for key, values in result.differs.items()},
        "target": result.target,
        "arms": [_arm(arm, result, i) for i, arm in enumerate(result.arms)],
        "runs": [_run(run, arm.name, result) for run, arm in _runs_with_arms(result)],
        "at_end": asdict(conclusion.at_end),
        "at_equal_time": None if conclusion.at_equal_time is None else asdict(conclusion.at_equal_time),
    }


def json_value(value: Any) -> Any:
    """A value of a spec as JSON has it, which knows no infinity: a limit that is none is "inf", as in the spec."""
    if isinstance(value, list):
        return [json_value(inner) for inner in value]
    if isinstance(value, dict):
        return {key: json_value(inner) for key, inner in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _runs_with_arms(result: Comparison) -> list[tuple[ComparedRun, Arm]]:
    """Every run with its arm, in the order in which runs were named."""
    home = {run.out: arm for arm in result.arms for run in arm.runs}
    return [(run, home[run.out]) for run in result.runs]


def _arm(arm: Arm, result: Comparison, i: int) -> dict[str, Any]:
    at_equal = result.verdict.at_equal_time
    runs = drop_repeated_runs(arm).runs
    n = len(runs)
    return {
        "name": arm.name,
        "keys": {key: json_value(value) for key, value in arm.keys.items()},
        "seeds": [seed_of(run) for run in runs],
        "runs": [run.name for run in arm.runs],
        "at_end": asdict(result.verdict.at_end.standings[i]),
        "at_equal_time": None if at_equal is None else asdict(at_equal.standings[i]),
        "time_to_target": asdict(result.times[i]) if result.times else None,
        "clock": clock_of(runs),
        "virtual_seconds": sum(run.end for run in runs) / n,
        "bytes_down": sum(run.metrics["bytes_down"] for run in runs) / n,
        "bytes_up": sum(run.metrics["bytes_up"] for run in runs) / n,
    }


def _run(run: ComparedRun, arm: str, result: Comparison) -> dict[str, Any]:
    when = result.verdict.at_equal_time
    to = None if result.target is None else time_to(run, result.target)
    return {
        "name": run.name,
        "out": str(run.out),
        "arm": arm,
        "task": run.task,
        "seed": seed_of(run),
        "ended": run.ended,
        "accuracy": accuracy_at(run, run.end),
        "accuracy_at_equal_time": None if when is None or when.seconds is None else accuracy_at(run, when.seconds),
        "seconds_to_target": to.seconds if to is not None and to.reached else None,
        "clock": clock_of([run]),
        "virtual_seconds": run.end,
        **{key: run.metrics.get(key) for key in ("rounds", "commits", "bytes_down", "bytes_up")},
        "tested": run.tested,
        "digest": run.digest,
    }
