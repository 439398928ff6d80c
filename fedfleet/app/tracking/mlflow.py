"""Points as metrics of an MLflow run: its parameters are the spec's settings, its steps rounds, its relative time virtual."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from fedfleet.app.spec import Spec
from fedfleet.app.tracking.points import Point
from fedfleet.app.tracking.sink import Metrics, Sink, missing_package, numbers_in, settings_in

_MOST_WAITING, _MOST_SECONDS = 200, 5.0  # values, or seconds, after which what was collected is sent
_PARAMETERS, _LETTERS = 100, 500  # what MLflow takes at once, and of one value


@dataclass(slots=True)
class _RunState:
    """What has been collected for the run of this id, and when it was last sent."""

    run: str
    start_time: float
    last_sent: float
    pending: list[Any] = field(default_factory=list[Any])


def mlflow(where: str) -> Sink:
    """A sink that writes to the MLflow server or database at this address, into an experiment of the spec's name."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # a run tells nobody but whom it was told to
    try:  # by name: it is no part of the developers' set-up, whose type checker would miss it
        entities, tracking = import_module("mlflow.entities"), import_module("mlflow.tracking")
    except ImportError:
        raise missing_package("MLflow", "mlflow-skinny") from None
    return to_client(
        f"mlflow:{where}", lambda: tracking.MlflowClient(tracking_uri=where), entities.Metric, entities.Param
    )


def to_client(name: str, connect: Any, metric: Any, param: Any) -> Sink:
    """A sink that writes through a client; what it makes metrics and parameters with is given."""
    connections: list[tuple[Any, _RunState]] = []

    def begin(spec: Spec, run_name: str) -> None:
        client, now = connect(), time.time()
        experiment = client.get_experiment_by_name(spec.name)
        experiment_id = client.create_experiment(spec.name) if experiment is None else experiment.experiment_id
        run = client.create_run(
            experiment_id, run_name=run_name, tags={"fedfleet.spec_digest": spec.digest}
        ).info.run_id
        connections.append((client, _RunState(run, now, now)))
        params = [param(key, str(value)[:_LETTERS]) for key, value in settings_in(spec.table()).items()]
        for i in range(0, len(params), _PARAMETERS):
            client.log_batch(run, params=params[i : i + _PARAMETERS])

    def send() -> None:
        client, state = connections[0]
        if state.pending:
            client.log_batch(state.run, metrics=state.pending)
        state.pending, state.last_sent = [], time.time()

    def add(values: dict[str, float], seconds: float, step: int) -> None:
        state = connections[0][1]
        milliseconds = int(1000 * (state.start_time + seconds))
        state.pending += [metric(key, value, milliseconds, step) for key, value in values.items()]
        if len(state.pending) >= _MOST_WAITING or time.time() - state.last_sent > _MOST_SECONDS:
            send()

    def end(metrics: Metrics | None) -> None:
        if metrics is not None:
            result = {f"end.{key}": value for key, value in numbers_in(metrics).items()}
            add(result, float(metrics.get("virtual_seconds") or 0.0), 0)
        send()
        client, state = connections.pop()
        client.set_terminated(state.run, "KILLED" if metrics is None else "FINISHED")

    return Sink(name, begin, lambda point: _add_point(add, point), end)


def _add_point(add: Any, point: Point) -> None:
    add(point.values, point.seconds, point.round)
