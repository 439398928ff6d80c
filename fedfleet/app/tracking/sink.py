"""Sinks: where the points of a run go. One for each tracking tool, chosen by a word like `tensorboard:DIR`."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from fedfleet.app.spec import Spec
from fedfleet.app.tracking.points import EVALUATED, Point
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


def sinks_of(words: str | Sequence[str]) -> list[Sink]:
    """The sinks that these words name; a package that is missing is reported now, not after the run."""
    return [_sink(word) for word in ([words] if isinstance(words, str) else words)]


def _sink(word: Any) -> Sink:
    makers = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb, "jsonl": jsonlines}
    if not isinstance(word, str):
        raise BadInput(f'track: {word!r} is not a tracking target; write TOOL:WHERE as text, for example "tensorboard:DIR"')
    kind, _, where = word.partition(":")
    if kind not in makers:
        raise BadInput(f"there is no tracking tool {kind!r}{suggest_name(kind, makers)}")
    if not where:
        raise BadInput(f"{word!r} does not say where to write; write for example {_EXAMPLES[kind]}")
    return makers[kind](where)


_EXAMPLES = {
    "tensorboard": "tensorboard:DIR",
    "mlflow": "mlflow:sqlite:///mlflow.db",
    "wandb": "wandb:DIR",
    "jsonl": "jsonl:FILE",
}


def missing_package(tool: str, package: str, extra: str = "track") -> BadInput:
    """What to say where the package of a tool is not installed."""
    return BadInput(f"{tool} needs the package {package}; install it with: pip install 'fedfleet[{extra}]'")


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


def tensorboard(where: str) -> Sink:
    """TensorBoard's event files, in a folder of the run's name below this one.

    Its axis `Relative` shows virtual time, `Step` rounds.
    """
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.compat.proto import tensor_pb2 as tensor
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        raise missing_package("TensorBoard", "tensorboard") from None
    proto: Any = summary_pb2
    events: Any = event_pb2
    tensors: Any = tensor
    writers: list[Any] = []
    start_time = time.time()
    last_round = [0]

    def put(values: list[Any], step: int, seconds: float) -> None:
        event = events.Event(wall_time=start_time + seconds, step=step, summary=proto.Summary(value=values))
        writers[0].add_event(event)

    def begin(spec: Spec, name: str) -> None:
        writers.append(EventFileWriter(str(Path(where) / name)))
        about = proto.SummaryMetadata(plugin_data=proto.SummaryMetadata.PluginData(plugin_name="text"))
        body = tensors.TensorProto(dtype=7, string_val=[f"```\n{spec.toml()}\n```".encode()])
        put([proto.Summary.Value(tag="spec", tensor=body, metadata=about)], 0, 0.0)

    def write(point: Point) -> None:
        last_round[0] = point.round
        values = [proto.Summary.Value(tag=f"{_group(point, k)}/{k}", simple_value=v) for k, v in point.values.items()]
        put(values, point.round, point.seconds)

    def end(metrics: Metrics | None) -> None:
        if metrics is not None:
            result = [proto.Summary.Value(tag=f"end/{k}", simple_value=v) for k, v in numbers_in(metrics).items()]
            put(result, last_round[0], float(metrics.get("virtual_seconds") or 0.0))
        writers.pop().close()

    return Sink(f"tensorboard:{where}", begin, write, end)


def _group(point: Point, name: str) -> str:
    return "learning" if point.what == EVALUATED or name == "train_loss" else "round"


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
    """A run on the MLflow server or database at this address, in an experiment of the spec's name.

    Its parameters are the spec's settings, its steps rounds, its relative time virtual.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # a run tells nobody but whom it was told to
    try:  # by name: it is no part of the developers' set-up, whose type checker would miss it
        entities, tracking = import_module("mlflow.entities"), import_module("mlflow.tracking")
    except ImportError:
        raise missing_package("MLflow", "mlflow-skinny") from None
    return to_client(f"mlflow:{where}", lambda: tracking.MlflowClient(tracking_uri=where), entities.Metric, entities.Param)


def to_client(name: str, connect: Any, metric: Any, param: Any) -> Sink:
    """A sink that writes through a client; what it makes metrics and parameters with is given."""
    connections: list[tuple[Any, _RunState]] = []

    def begin(spec: Spec, run_name: str) -> None:
        client, now = connect(), time.time()
        experiment = client.get_experiment_by_name(spec.name)
        experiment_id = client.create_experiment(spec.name) if experiment is None else experiment.experiment_id
        run = client.create_run(experiment_id, run_name=run_name, tags={"fedfleet.spec_digest": spec.digest}).info.run_id
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

    return Sink(name, begin, lambda point: add(point.values, point.seconds, point.round), end)


_NO_PROJECT = re.compile(r"[/\\#?%:\s]+")  # what a project of W&B may not have in its name
_LONGEST_PROJECT = 128


def wandb(where: str) -> Sink:
    """A run of Weights & Biases below this folder, in a project of the spec's name.

    Always offline: the files stay here until the person uploads them with `wandb sync`. Its config is the spec, its steps are
    rounds, and `virtual_seconds` can be chosen as the axis of a chart.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # offline is offline: nothing is sent, not even its own errors
    try:
        library = import_module("wandb")
        start, settings = library.init, library.Settings
    except (ImportError, AttributeError):  # a folder called wandb imports too, without what is needed
        raise missing_package("Weights & Biases", "wandb", "wandb") from None
    runs: list[Any] = []

    def begin(spec: Spec, name: str) -> None:
        folder = Path(where).absolute()
        folder.mkdir(parents=True, exist_ok=True)  # else it would write to another one
        runs.append(
            start(
                project=_NO_PROJECT.sub("-", spec.name)[:_LONGEST_PROJECT] or "fedfleet",
                name=name,
                dir=str(folder),
                mode="offline",
                config=_plain({**spec.table(), "spec_digest": spec.digest}),
                reinit="create_new",  # the person may have a run of their own
                save_code=False,
                settings=settings(silent=True, console="off"),
            )
        )

    def write(point: Point) -> None:
        runs[0].log({**point.values, "virtual_seconds": point.seconds}, step=point.round)

    def end(metrics: Metrics | None) -> None:
        run = runs.pop()
        if metrics is not None:
            run.summary.update({f"end.{key}": value for key, value in numbers_in(metrics).items()})
        run.finish(exit_code=int(metrics is None))

    return Sink(f"wandb:{where}", begin, write, end)


def jsonlines(where: str) -> Sink:
    """Lines of JSON that are added to this file, each with the run's name: what log collectors and notebooks read."""
    path = Path(where)
    open_files: list[tuple[TextIO, str]] = []

    def begin(spec: Spec, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        open_files.append((path.open("a", encoding="utf-8"), name))
        _put_begin(_put, spec, name)

    def _put(line: dict[str, Any]) -> None:
        file, name = open_files[0]
        file.write(json.dumps({"run": name, **_plain(line)}) + "\n")
        file.flush()

    def end(metrics: Metrics | None) -> None:
        _put(_end_line(metrics))
        open_files.pop()[0].close()

    return Sink(f"jsonl:{where}", begin, lambda point: _put(line_of(point)), end)


def json_log() -> Sink:
    """A sink that writes lines to standard error, among whatever else is logged there."""

    def put(line: dict[str, Any]) -> None:
        sys.stderr.write(json.dumps(_plain({"level": "info", **line})) + "\n")
        sys.stderr.flush()

    return Sink(
        "the log", lambda spec, name: _put_begin(put, spec, name), lambda point: put(line_of(point)), lambda m: put(_end_line(m))
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
