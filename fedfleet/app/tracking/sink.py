"""A sink: where the points of a run go. One for each tracking tool, chosen by a word like `tensorboard:DIR`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedfleet.app.spec import Spec
from fedfleet.app.tracking.points import Point
from fedfleet.core.errors import BadInput, suggest_name

Metrics = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sink:
    """Where points go: told of the spec and the run's name first, of every point, and at last of the measures.

    The measures are None where the run did not end. Whatever a sink raises ends its own work, never the run.
    """

    name: str
    begin: Callable[[Spec, str], None]
    write: Callable[[Point], None]
    end: Callable[[Metrics | None], None]


def sinks_of(words: Sequence[str]) -> list[Sink]:
    """The sinks that these words name; a package that is missing is told now, not after the run."""
    return [_sink(word) for word in words]


def _sink(word: str) -> Sink:
    kind, colon, where = word.partition(":")
    if not colon or not where:
        raise BadInput(
            f"{word!r} does not say where to write; write for example tensorboard:DIR, mlflow:URI or jsonl:FILE"
        )
    makers = {"tensorboard": _tensorboard, "mlflow": _mlflow, "jsonl": _jsonl}
    if kind not in makers:
        raise BadInput(f"there is no tracking tool {kind!r}{suggest_name(kind, makers)}")
    return makers[kind](where)


def _tensorboard(where: str) -> Sink:
    from fedfleet.app.tracking.tensorboard import tensorboard

    return tensorboard(where)


def _mlflow(where: str) -> Sink:
    from fedfleet.app.tracking.mlflow import mlflow

    return mlflow(where)


def _jsonl(where: str) -> Sink:
    from fedfleet.app.tracking.jsonlines import jsonlines

    return jsonlines(where)


def missing_package(tool: str, package: str) -> BadInput:
    """What to say where the package of a tool is not installed."""
    return BadInput(f"{tool} needs the package {package}; install it with: pip install 'fedfleet[track]'")


def numbers_in(metrics: Metrics) -> dict[str, float]:
    """The measures that are plain finite numbers, those inside others by a dot.

    >>> numbers_in({"accuracy": 0.9, "warnings": [], "time_to": {"0.5": 10.0, "0.9": None}, "stopped_by": "rounds"})
    {'accuracy': 0.9, 'time_to.0.5': 10.0}
    """
    result: dict[str, float] = {}
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            result |= {f"{key}.{name}": inner for name, inner in numbers_in(value).items()}
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            result[key] = float(value)
    return result


def settings_in(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """The settings of a spec by their dotted names.

    >>> settings_in({"seed": 3, "pace": {"use": "deadline", "seconds": 60.0}})
    {'seed': 3, 'pace.use': 'deadline', 'pace.seconds': 60.0}
    """
    result: dict[str, Any] = {}
    for key, value in table.items():
        result |= settings_in(value, f"{path}{key}.") if isinstance(value, Mapping) else {f"{path}{key}": value}
    return result
