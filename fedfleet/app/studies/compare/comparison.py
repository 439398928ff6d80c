"""The comparison of run folders: what `fedfleet compare` answers, as JSON and as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.studies.compare.aim_names import AIMS, DEFAULT_AIM
from fedfleet.app.studies.compare.arms import arms, differing_keys, seed_of
from fedfleet.app.studies.compare.moments import drop_repeated_runs, equal_time
from fedfleet.app.studies.compare.records import Arm, ArmTargetTime, ComparedRun, Verdict, clock_of, score_of_runs
from fedfleet.app.studies.compare.run_data import accuracy_at, measure_at, read_runs, study_settings
from fedfleet.app.studies.compare.target_times import arm_target_time, choose_target, time_to
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.app.terminal.text import size, span
from fedfleet.core.errors import BadInput
from fedfleet.measure.goal import Target, target_text
from fedfleet.measure.measure_info import OWN, measure_info
from fedfleet.measure.score_info import ScoreInfo, score_info_of

_WIDEST = 44  # letters of a name in the table
_VALUES = 60  # letters of the values of a key
_KEYS = 12  # keys that are listed; --json has all


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Everything that a page or a table of a comparison shows; `print` shows it in words."""

    runs: tuple[ComparedRun, ...]
    arms: tuple[Arm, ...]
    differs: Mapping[str, list[Any]]  # dotted key -> the value of each run, None where it has no such key
    verdict: Verdict
    target: Target | None
    times: tuple[ArmTargetTime, ...]  # to the target, an entry for each arm
    page: Path | None = None

    def __repr__(self) -> str:
        return f"Comparison({len(self.runs)} runs: {self.verdict.sentence})"

    def to_dict(self) -> dict[str, Any]:
        """What `fedfleet compare --json` answers."""
        return answer_of(self)

    answer = to_dict  # its name before

    def __str__(self) -> str:
        return comparison_text(self.to_dict())


def compare(
    folders: Sequence[Path], *, target: Target | None = None, aim: str | None = None, look: int | None = None
) -> Comparison:
    """The runs in these folders side by side; `target`: the accuracy to which times are measured; `aim` and `look` as in
    `recommend`, by default those of the study that the folders are, if they are one."""
    known = study_settings(folders)
    own_aim, own_look = known.get("aim", DEFAULT_AIM), known.get("look", 1)
    runs = read_runs(folders)
    refuse_unlike_scores(runs)
    return comparison(runs, target=target, aim=aim or own_aim, look=look or own_look)


def refuse_unlike_scores(runs: Sequence[ComparedRun]) -> None:
    """Refuse runs of unlike kinds of tasks: no figure of the one means anything beside that of the other."""
    by_kind = {run.score.kind: run for run in reversed(runs)}
    if len(by_kind) < 2:
        return
    said = " and ".join(f"{run.name} by its {run.score.name} ({kind.name})" for kind, run in reversed(by_kind.items()))
    raise BadInput(f"these runs have different scores, which cannot be compared: {said}; name runs of one kind of task")


def comparison(runs: Sequence[ComparedRun], *, target: Target | None = None, aim: str = DEFAULT_AIM, look: int = 1) -> Comparison:
    """The same for runs that were read already."""
    groups = arms(runs)
    result = verdict(groups, aim=aim, target=target, look=look)
    goal = choose_target(groups, result.at_end.standings, target)
    each = [drop_repeated_runs(arm) for arm in groups]
    times = () if goal is None else tuple(arm_target_time(arm, goal, equal_time(each)) for arm in each)
    return Comparison(tuple(runs), groups, differing_keys(runs), result, goal, times)


def answer_of(result: Comparison) -> dict[str, Any]:
    """A comparison as JSON: `differs`, `runs` and `verdict` are the contract."""
    conclusion = result.verdict
    return {
        "verdict": conclusion.sentence,
        "winner": conclusion.winner,
        "sure": conclusion.sure,
        "caveats": list(conclusion.caveats),
        "recommendation": asdict(conclusion.recommendation),
        "differs": {key: [json_value(value) for value in values] for key, values in result.differs.items()},
        "target": result.target,
        "score": score_of_runs(result.runs).to_dict(),
        "arms": [_arm(arm, result, i) for i, arm in enumerate(result.arms)],
        "runs": [_run(run, arm.name, result) for run, arm in _runs_with_arms(result)],
        "at_end": asdict(conclusion.at_end),
        "at_equal_time": None if conclusion.at_equal_time is None else asdict(conclusion.at_equal_time),
        **({} if result.page is None else {"page": str(result.page)}),
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
        "measures": _measure_means(runs),
        "clock": clock_of(runs),
        "virtual_seconds": sum(run.end for run in runs) / n,
        "bytes_down": sum(run.metrics["bytes_down"] for run in runs) / n,
        "bytes_up": sum(run.metrics["bytes_up"] for run in runs) / n,
    }


def _measure_means(runs: Sequence[ComparedRun]) -> dict[str, float]:
    """The other measures of the last models: means over the runs that have them all."""
    names = [name for name in (runs[0].measures if runs else ()) if all(measure_at(run, name, run.end) is not None for run in runs)]
    return {name: sum(measure_at(run, name, run.end) or 0.0 for run in runs) / len(runs) for name in names}


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


def comparison_text(answer: dict[str, Any]) -> str:
    """The comparison for people: arms in a table, what differs, the verdict and what to know with it."""
    return "\n".join([
        *_table(answer), "", *_differs(answer["differs"]), "",
        answer["verdict"], *(f"note: {caveat}" for caveat in answer["caveats"]),
        *([f"page: {answer['page']}"] if "page" in answer else []),
    ])  # fmt: skip


def _table(answer: dict[str, Any]) -> list[str]:
    """A row for each arm; intervals are of the mean over seeds, 95 %."""
    when = answer["at_equal_time"]
    clocks = {arm["clock"] for arm in answer["arms"]}
    both = len(clocks) > 1
    score = score_info_of(answer)
    measures = [name for name in _shown_measures(score, answer) if all(name in arm["measures"] for arm in answer["arms"])]
    heads = [
        "arm", "seeds", f"{score.name} at the end", f"at {span(when['seconds'])}" if when else "at equal time",
        *(measure_info(name, score).label for name in measures),
        "to a target" if answer["target"] is None else f"time to {target_text(answer['target'], score)}",
        "time" if both else f"{clocks.pop()} time", "traffic",
    ]  # fmt: skip
    rows = [_table_row(arm, score, measures, both=both) for arm in answer["arms"]]
    widths = [max(len(line[i]) for line in [heads, *rows]) for i in range(len(heads))]
    lines = [_line(cells, widths) for cells in [heads, *rows]]
    over = any(arm["at_end"]["mean"] and arm["at_end"]["mean"]["n"] > 1 for arm in answer["arms"])
    note = "means over seeds, in brackets their 95 % interval; time to a target: the median (Kaplan-Meier)"
    return [*lines, *([note] if over else [])]


def _shown_measures(score: ScoreInfo, answer: dict[str, Any]) -> list[str]:
    """The measures that the table shows beside the score: the main one of the kind of task, and the one that is aimed at."""
    aim = str(answer["recommendation"]["aim"])
    own = [] if aim in AIMS else [aim.removeprefix(OWN)]
    return list(dict.fromkeys([*([score.kind.main] if score.kind.main else []), *own]))


def _table_row(arm: dict[str, Any], score: ScoreInfo, measures: Sequence[str], *, both: bool) -> list[str]:
    clock = f" {arm['clock']}" if both else ""
    name = arm["name"] if len(arm["name"]) <= _WIDEST else f"{arm['name'][: _WIDEST - 2]}.."
    return [
        name,
        str(len(arm["seeds"])),
        _accuracy_text(arm["at_end"], score),
        _accuracy_text(arm["at_equal_time"], score),
        *(measure_info(name, score).text(arm["measures"][name]) for name in measures),
        _time_text(arm["time_to_target"]),
        f"{span(arm['virtual_seconds'])}{clock}",
        size(arm["bytes_down"] + arm["bytes_up"]),
    ]


def _line(cells: list[str], widths: list[int]) -> str:
    return "  ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))])


def _accuracy_text(accuracy: dict[str, Any] | None, score: ScoreInfo) -> str:
    """A score with its interval; how many runs have none."""
    if accuracy is None or accuracy["mean"] is None:
        return "no model" if accuracy is not None and accuracy["nothing"] else "-"
    mean = accuracy["mean"]
    ends = [] if mean["low"] is None else [mean["low"], mean["high"]]
    between = f" ({' to '.join(f'{100 * end:.1f}' if score.kind.percent else score.text(end) for end in ends)})" if ends else ""
    lacking = ", no model" if accuracy["nothing"] else f", {accuracy['without']} without a model" if accuracy["without"] else ""
    lacking += f", {accuracy['missing']} not known" if accuracy["missing"] else ""
    return f"{score.text(mean['value'])}{between}{lacking}"


def _time_text(times: dict[str, Any] | None) -> str:
    if times is None:
        return "-"
    if times["median"] is None:
        return "never" if not times["reached"] else f"{times['reached']} of {times['runs']}"
    return span(times["median"])


def _differs(differs: dict[str, list[Any]]) -> list[str]:
    """Keys with their different values, each value once."""
    if not differs:
        return ["the specs do not differ"]
    width = max(len(key) for key in list(differs)[:_KEYS])
    lines = ["what differs:"]
    for key, values in list(differs.items())[:_KEYS]:
        each = ", ".join(dict.fromkeys("-" if v is None else v if isinstance(v, str) else json.dumps(v) for v in values))
        lines.append(f"  {key:<{width}}  {each if len(each) <= _VALUES else f'{each[: _VALUES - 2]}..'}")
    more = len(differs) - _KEYS
    return [*lines, *([f"  and {more} more keys; --json has all"] if more > 0 else [])]
