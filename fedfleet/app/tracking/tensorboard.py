"""Points as TensorBoard's event files. Its axis `Relative` shows virtual time, `Step` rounds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fedfleet.app.spec import Spec
from fedfleet.app.tracking.points import Point
from fedfleet.app.tracking.sink import Metrics, Sink, missing_package, numbers_in


def tensorboard(where: str) -> Sink:
    """A sink that writes event files into a folder of the run's name below this one."""
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
        values = [proto.Summary.Value(tag=f"{_group(k)}/{k}", simple_value=v) for k, v in point.values.items()]
        put(values, point.round, point.seconds)

    def end(metrics: Metrics | None) -> None:
        if metrics is not None:
            result = [proto.Summary.Value(tag=f"end/{k}", simple_value=v) for k, v in numbers_in(metrics).items()]
            put(result, last_round[0], float(metrics.get("virtual_seconds") or 0.0))
        writers.pop().close()

    return Sink(f"tensorboard:{where}", begin, write, end)


def _group(name: str) -> str:
    return "learning" if "accuracy" in name or "loss" in name else "round"
