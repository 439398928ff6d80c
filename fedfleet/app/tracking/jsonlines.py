"""Points as lines of JSON, in a file or on standard error: what log collectors and notebooks read."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from fedfleet.app.spec import Spec
from fedfleet.app.tracking.points import Point
from fedfleet.app.tracking.sink import Metrics, Sink, numbers_in


def jsonlines(where: str) -> Sink:
    """A sink that adds lines to this file."""
    path = Path(where)
    open_files: list[TextIO] = []

    def begin(spec: Spec, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        open_files.append(path.open("a", encoding="utf-8"))
        _put_begin(_put, spec, name)

    def _put(line: dict[str, Any]) -> None:
        open_files[0].write(json.dumps(_plain(line)) + "\n")
        open_files[0].flush()

    def end(metrics: Metrics | None) -> None:
        _put(_end_line(metrics))
        open_files.pop().close()

    return Sink(f"jsonl:{where}", begin, lambda point: _put(line_of(point)), end)


def json_log() -> Sink:
    """A sink that writes lines to standard error, among whatever else is logged there."""

    def put(line: dict[str, Any]) -> None:
        sys.stderr.write(json.dumps(_plain({"level": "info", **line})) + "\n")
        sys.stderr.flush()

    return Sink(
        "the log",
        lambda spec, name: _put_begin(put, spec, name),
        lambda point: put(line_of(point)),
        lambda m: put(_end_line(m)),
    )


def line_of(point: Point) -> dict[str, Any]:
    """A point as one object.

    >>> line_of(Point("evaluated", 3, 120.5, {"accuracy": 0.5}))
    {'event': 'evaluated', 'round': 3, 'virtual_seconds': 120.5, 'accuracy': 0.5}
    """
    return {"event": point.what, "round": point.round, "virtual_seconds": point.seconds, **point.values}


def _put_begin(put: Callable[[dict[str, Any]], None], spec: Spec, name: str) -> None:
    put({"event": "begun", "run": name, "spec_digest": spec.digest, "spec": spec.table()})


def _end_line(metrics: Metrics | None) -> dict[str, Any]:
    if metrics is None:
        return {"event": "stopped"}
    return {"event": "ended", "stopped_by": metrics.get("stopped_by"), **numbers_in(metrics)}


def _plain(value: Any) -> Any:
    """Without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
