"""The comparison of run folders, and what `fedfleet compare --json` answers of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedfleet.app.studies.compare.arms import arms, differing, seed_of
from fedfleet.app.studies.compare.records import Arm, Compared, Comparison, clock_of
from fedfleet.app.studies.compare.run_data import accuracy_at, read_runs
from fedfleet.app.studies.compare.target_times import chosen_target, time_to, timed
from fedfleet.app.studies.compare.verdict import equal_time, single, verdict


def compare(folders: Sequence[Path], *, target: float | None = None) -> Comparison:
    """The runs in these folders side by side; `target`: the accuracy to which times are told."""
    return comparison(read_runs(folders), target=target)


def comparison(runs: Sequence[Compared], *, target: float | None = None) -> Comparison:
    """The same for runs that were read already."""
    groups = arms(runs)
    found = verdict(groups)
    aim = chosen_target(groups, found.at_end.standings, target)
    each = [single(arm) for arm in groups]
    times = () if aim is None else tuple(timed(arm, aim, equal_time(each)) for arm in each)
    return Comparison(tuple(runs), groups, differing(runs), found, aim, times)


def answer_of(found: Comparison) -> dict[str, Any]:
    """A comparison as JSON: `differs`, `runs` and `verdict` are the contract."""
    judged = found.verdict
    return {
        "verdict": judged.sentence,
        "winner": judged.winner,
        "sure": judged.sure,
        "caveats": list(judged.caveats),
        "differs": {key: [plain(value) for value in values] for key, values in found.differs.items()},
        "target": found.target,
        "arms": [_arm(arm, found, i) for i, arm in enumerate(found.arms)],
        "runs": [_run(run, arm.name, found) for run, arm in _in_order(found)],
        "at_end": asdict(judged.at_end),
        "at_equal_time": None if judged.at_equal_time is None else asdict(judged.at_equal_time),
    }


def plain(value: Any) -> Any:
    """A value of a spec as JSON has it, which knows no infinity: a limit that is none is "inf", as in the spec."""
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _in_order(found: Comparison) -> list[tuple[Compared, Arm]]:
    """Every run with its arm, in the order in which runs were named."""
    home = {run.out: arm for arm in found.arms for run in arm.runs}
    return [(run, home[run.out]) for run in found.runs]


def _arm(arm: Arm, found: Comparison, i: int) -> dict[str, Any]:
    at_equal = found.verdict.at_equal_time
    runs = single(arm).runs
    n = len(runs)
    return {
        "name": arm.name,
        "keys": {key: plain(value) for key, value in arm.keys.items()},
        "seeds": [seed_of(run) for run in runs],
        "runs": [run.name for run in arm.runs],
        "at_end": asdict(found.verdict.at_end.standings[i]),
        "at_equal_time": None if at_equal is None else asdict(at_equal.standings[i]),
        "time_to_target": asdict(found.times[i]) if found.times else None,
        "clock": clock_of(runs),
        "virtual_seconds": sum(run.end for run in runs) / n,
        "bytes_down": sum(run.metrics["bytes_down"] for run in runs) / n,
        "bytes_up": sum(run.metrics["bytes_up"] for run in runs) / n,
    }


def _run(run: Compared, arm: str, found: Comparison) -> dict[str, Any]:
    when = found.verdict.at_equal_time
    to = None if found.target is None else time_to(run, found.target)
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
