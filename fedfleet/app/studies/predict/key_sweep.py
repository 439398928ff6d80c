"""Sweeping: one key of a spec at many values, each predicted, so that a trade-off is seen before anything is trained."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup, assemble
from fedfleet.app.runs.custom_task import CustomTask, Resolver, resolve_named_task
from fedfleet.app.spec import Spec
from fedfleet.app.spec.spec_file import apply_overrides
from fedfleet.app.spec.table_checks import build_part
from fedfleet.app.studies.predict.participation import predictable_plan
from fedfleet.app.studies.predict.prediction import Prediction, predict, reference_for
from fedfleet.app.studies.predict.prediction_result import Swept
from fedfleet.app.studies.predict.reference_runs import Reference, ideal_spec
from fedfleet.app.terminal.text import percent, span
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.parts import Policy, Task
from fedfleet.core.records import Floats, Stop

_POINTS, _MOST = 12, 100
_TARGET = 0.9  # of what the ideal fleet reaches: the accuracy whose time is compared
_NEAR = 0.01  # accuracies this near to the best count as equal, and the shorter run wins


@dataclass(frozen=True, slots=True)
class Sweep:
    """A key and the values to try."""

    key: str
    values: tuple[float | int, ...]


def parse_sweep(word: str) -> Sweep:
    """`key=a..b` (12 values, evenly spaced on a logarithmic scale), `key=a..b:n`, or `key=a,b,c`.

    >>> parse_sweep("pace.seconds=30,60")
    Sweep(key='pace.seconds', values=(30, 60))
    """
    key, equals, text = word.partition("=")
    if not equals or not key or not text:
        raise BadInput(f"--sweep {word}: write KEY=FROM..TO, for example pace.seconds=30..600, or KEY=A,B,C")
    ends, _, count = text.partition(":")
    low, dots, high = ends.partition("..")
    try:
        if not dots:
            return Sweep(key, tuple(_number(v) for v in text.split(",")))
        a, b, n = _number(low), _number(high), int(count) if count else _POINTS
    except ValueError:
        raise BadInput(f"--sweep {word}: {text!r} are not numbers; write KEY=FROM..TO, for example pace.seconds=30..600") from None
    if not (0 < a < b < math.inf) or not 2 <= n <= _MOST:
        raise BadInput(f"--sweep {word}: FROM must be above 0 and below TO, with 2 to {_MOST} values between them")
    result = np.geomspace(a, b, n)
    if isinstance(a, int) and isinstance(b, int):
        return Sweep(key, tuple(dict.fromkeys(int(v) for v in np.rint(result))))
    return Sweep(key, tuple(float(f"{v:.4g}") for v in result))


def sweep_over(table: Mapping[str, Any]) -> Sweep:
    """The same from Python: one key with the values to try.

    >>> sweep_over({"pace.seconds": [30, 60]})
    Sweep(key='pace.seconds', values=(30, 60))
    """
    values = list(next(iter(table.values()), ())) if len(table) == 1 and _has_value_lists(table) else []
    odd = [v for v in values if isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v)]
    if not 1 <= len(values) <= _MOST or odd:
        problem = f"{odd[0]!r} is not a number" if odd else f"it is {table!r}"
        raise BadInput(f"sweep: {problem}; give one key with 1 to {_MOST} numbers, for example {{'pace.seconds': [30, 60]}}")
    return Sweep(next(iter(table)), tuple(values))


def _has_value_lists(table: Mapping[str, Any]) -> bool:
    return all(isinstance(values, Iterable) and not isinstance(values, str) for values in table.values())


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not math.isfinite(value):
            raise
        return value


def _spec_with_value(
    table: Mapping[str, Any], name: str, key: str, value: Any, resolving: Resolver
) -> tuple[Spec, CustomTask | None]:
    """The spec with this value, if there can be one, and the own task."""
    try:
        return resolving(_table_with_value(table, key, value), name)
    except FedFleetError as error:
        raise type(error)(f"--sweep {key}={value}: {error}") from None


def predict_sweep(
    table: Mapping[str, Any],
    name: str,
    sweep: Sweep,
    *,
    cache: Path | None = None,
    resolving: Resolver = resolve_named_task,
    draws: int = 2,
    tell: Callable[[str], None] | None = None,
) -> Swept:
    """Predict the run of a spec at each value; the same reference runs serve them all.

    `resolving` makes the spec of a table, with the own task where a person gave one.
    """
    spec, own = resolving(dict(table), name)
    setup = assemble(spec, own.task if own else None)
    predictable_plan(setup)
    if not setup.task.dataset.kind.per_label:
        raise BadInput(
            "--sweep: values are compared by the accuracy that they will reach, and "
            f"{setup.task.dataset.kind.score} is not predicted: the prediction of a score applies to classification only; "
            "predict each value by itself"
        )
    others = [_spec_with_value(table, name, sweep.key, value, resolving) for value in sweep.values]  # before anything is trained
    references = _references(spec, own, others, cache, tell)
    target = _TARGET * max(float(one.ideal.accuracy[-1]) for one in references)
    start, rows = time.perf_counter(), list[dict[str, Any]]()
    for value, (other, other_own), reference in zip(sweep.values, others, references, strict=True):
        try:
            changed = _changed_setup(setup, spec, other, other_own.task if other_own else None)
            result = predict(other, setup=changed, reference=reference, draws=draws)
        except FedFleetError as error:
            raise type(error)(f"--sweep {sweep.key}={value}: {error}") from None
        rows.append({"value": value, **_row(result, target)})
    best = best_value(rows)
    return Swept(
        sweep.key,
        rows,
        target,
        best,
        seconds=time.perf_counter() - start,
        reference={"kept": all(one.cached for one in references), "seconds": sum({id(o): o.seconds for o in references}.values())},
        sentence=sentence(sweep.key, rows, target, best),
    )


def _references(
    spec: Spec,
    own: CustomTask | None,
    others: Sequence[tuple[Spec, CustomTask | None]],
    cache: Path | None,
    tell: Callable[[str], None] | None,
) -> list[Reference]:
    """The reference runs that serve each value: one pair, long enough for all of them, unless the key changes what an ideal fleet
    learns, such as a learning rate; then a pair for each."""
    most = max(other.stop["rounds"] for other, _ in others)
    alike = [ideal_spec(one, 1, 1).digest for one, _ in ((spec, own), *others)]
    longest = {alike[0]: replace(spec, stop={**spec.stop, "rounds": most})}
    if tell is not None and len({*alike}) > 1:
        tell("this key changes what an ideal fleet learns, so each value needs its own reference runs")
    result = dict[str, Reference]()
    for digest, (other, other_own) in zip(alike[1:], others, strict=True):
        if digest not in result:
            result[digest] = reference_for(longest.get(digest, other), other_own, cache=cache, tell=tell)
    return [result[digest] for digest in alike[1:]]


def _table_with_value(table: Mapping[str, Any], key: str, value: float | int) -> dict[str, Any]:
    try:
        return apply_overrides(dict(table), [f"{key}={value}"])
    except BadInput:
        raise
    except (TypeError, ValueError) as error:
        raise BadInput(f"--sweep: {key} cannot be set to {value}: {error}") from None


def _changed_setup(setup: Setup, spec: Spec, other: Spec, task: Task | None) -> Setup:
    """The same fleet with another policy or horizon where only those changed; else everything is made anew."""
    only_when = replace(other, pace=spec.pace, stop=spec.stop, name=spec.name).digest == spec.digest
    pace: Policy = build_part("policies", other.pace)
    if not only_when or not setup.plan.choose.equal_chance or pace.cohort > setup.plan.clients:
        return assemble(other, task)  # which refuses what does not fit together, too
    return replace(setup, spec=other, plan=replace(setup.plan, pace=pace, stop=Stop(**other.stop)))


def _row(result: Prediction, target: float) -> dict[str, Any]:
    times = [_seconds_to_target(draw.accuracy, draw.part.times, target) for draw in result.draws]
    known = [t for t in times if t is not None]
    return {
        "accuracy": float(np.mean([draw.accuracy[-1] for draw in result.draws])),
        "commits": float(np.mean([draw.part.commits for draw in result.draws])),
        "virtual_seconds": float(np.mean([draw.part.seconds for draw in result.draws])),
        "seconds_to_target": float(np.mean(known)) if len(known) == len(times) else None,
        "never": float(np.mean([np.mean(draw.part.folded_counts == 0) for draw in result.draws])),
        "effective": float(np.mean([draw.clock.effective for draw in result.draws])),
    }


def _seconds_to_target(accuracy: Floats, times: Floats, target: float) -> float | None:
    at = np.flatnonzero(accuracy[1:] >= target)
    return float(times[at[0]]) if len(at) else None


def best_value(rows: list[dict[str, Any]]) -> float | int:
    """The value that reaches the target first; if none does, the shortest of those that come nearest to the best accuracy."""
    rows_at_target = [row for row in rows if row["seconds_to_target"] is not None]
    if rows_at_target:
        return min(rows_at_target, key=lambda row: row["seconds_to_target"])["value"]
    rows_with_model = [row for row in rows if row["commits"]] or rows  # the first weights are no result
    top = max(row["accuracy"] for row in rows_with_model)
    near = [row for row in rows_with_model if row["accuracy"] >= top - _NEAR]
    return min(near, key=lambda row: row["virtual_seconds"])["value"]


def sentence(key: str, rows: Sequence[Mapping[str, Any]], target: float, best: float | int) -> str:
    """What the sweep says, in one sentence."""
    row = next(r for r in rows if r["value"] == best)
    if not row["commits"]:
        return f"No value of {key} makes a model."
    if row["seconds_to_target"] is None:
        return (
            f"No value of {key} reaches {percent(target)}; {best} comes nearest for its time, with "
            f"{percent(row['accuracy'])} after {span(row['virtual_seconds'])}."
        )
    return (
        f"{key} = {best} reaches {percent(target)} first, after {span(row['seconds_to_target'])} of virtual time, and ends at "
        f"{percent(row['accuracy'])} after {span(row['virtual_seconds'])}."
    )
