"""The last model of a run as an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path

from fedfleet.app.assemble import assemble
from fedfleet.app.runs.custom_task import load_custom_task
from fedfleet.app.runs.run_folder import read_finished_run, stored_weights
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset
from fedfleet.store.files import write_atomically


def write_onnx(folder: Path, file: Path, trust: str | None = None) -> int:
    """Write the model that a finished run gave; how many bytes the file has.

    The code of an own model is run only if `trust` is its hash, or if it was trusted before.
    """
    from fedfleet.tasks.description.onnx_export import require_onnx, to_onnx

    require_onnx()
    spec = read_finished_run(folder).spec
    custom_task = load_custom_task(folder, spec, trust, need_metrics=False)
    if custom_task is not None and custom_task.unusable_reason:
        raise BadInput(custom_task.unusable_reason)
    task = assemble(spec, custom_task.task if custom_task else None).task
    from fedfleet.tasks.description.tracer import describe_task

    data = to_onnx(describe_task(task), stored_weights(folder), _notes(task.dataset))
    try:
        write_atomically(file, data)
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror}; choose another place") from None
    return len(data)


def _notes(data: Dataset) -> dict[str, str]:
    """What a program that uses the model must know: the columns, how they were scaled, the names of the labels."""
    scale = None if data.input_scale is None else [[float(v) for v in row] for row in data.input_scale]
    found = {
        "inputs": list(data.input_names),
        "input_mean_and_deviation": scale,
        "labels": list(data.label_names),
        "target_mean_and_deviation": [list(pair) for pair in data.target_scale],
    }
    return {f"fedfleet.{key}": json.dumps(value) for key, value in found.items() if value}
