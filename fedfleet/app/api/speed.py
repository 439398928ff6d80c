"""`fedfleet bench`, `profile` and `pretrain`: how fast this machine trains, and training in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fedfleet.app.terminal.answers import Answer, check_writable
from fedfleet.app.terminal.text import metrics_text
from fedfleet.app.terminal.value_checks import one_of
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.engines import ENGINES, EngineName
from fedfleet.core.limits import Epochs, Steps

_Batch = Annotated[int, Ge(1), Le(100_000)]


def bench_train(
    *overrides: str,
    task: str = "mlp",
    cohort: _Batch = 50,
    steps: Steps = 5,
    batch: _Batch = 10,
    device: str = "cpu",
    form: str | None = None,
    tf32: bool = False,
    algorithm: str = "fedavg",
) -> Answer:
    """Train one cohort in a plain loop and stacked; print both times and how much the models differ.

    Args:
        overrides: parameters of the algorithm, for example momentum=0.9.
        task: a task; it is trained on synthetic data.
        cohort: clients that train together.
        steps: local steps of each client.
        batch: samples per step.
        device: `cpu` or cuda.
        form: `merged` or loop; default: whichever is faster here.
        tf32: on a GPU: compute products in TF32; the answer says how much that changes.
        algorithm: whose local training; with any but plain fedavg the reference is our own inline executor.
    """
    from fedfleet.app.machine.cohort_speed import bench_train as measure_training

    chosen_form = None if form is None else one_of("form", form, ("merged", "loop"))
    hardware = one_of("device", device, ("cpu", "cuda"))
    report = measure_training(
        task, cohort=cohort, steps=steps, batch=batch, device=hardware, form=chosen_form, tf32=tf32,
        algorithm=algorithm, settings=overrides,
    )  # fmt: skip
    return Answer(report, metrics_text)


def profile(
    *,
    task: str = "digits_cnn",
    engine: EngineName = "torch",
    batch: _Batch = 16,
    iterations: Steps = 100,
    side: Annotated[int, Ge(1), Le(4096)] | None = None,
    device_id: str | None = None,
    server: str | None = None,
    out: Path | None = None,
) -> Answer:
    """Measure this device: training and inference time, memory, and the link to a server; answers with a row of a devices file.

    Args:
        task: the task whose model is measured.
        engine: what trains, as in `fedfleet device --engine`: torch, numpy or mnn.
        batch: samples per training step.
        iterations: how often to repeat each measurement.
        side: use images of SIDE x SIDE pixels instead of the task's own size.
        device_id: the id of this device; default: the host's name.
        server: also measure the link to this HTTP address.
        out: the devices file to add the row to.
    """
    from fedfleet.app.machine.device_profile import append_row, profile_device

    chosen: EngineName = one_of("engine", engine, ENGINES)
    row, details = profile_device(task, engine=chosen, batch=batch, iterations=iterations, side=side, name=device_id, server=server)
    if out is not None:
        append_row(out, row)
    return Answer({"row": row, **details, "out": None if out is None else str(out)}, metrics_text)


def pretrain(
    task: str,
    *overrides: str,
    out: Path,
    on: str = "glyphs",
    epochs: Epochs = 20,
    seed: Annotated[int, Ge(0)] = 0,
    device: str = "auto",
) -> Answer:
    """Train a task's model in one place, on data that are not the task's, and write its weights to begin from.

    Args:
        task: the task whose model is trained.
        overrides: parameters of the task, for example width=96.
        out: the safetensors file to write; tasks take it as backbone = FILE.
        on: the data: glyphs (generated strokes), or another task, whose data have no sample in common.
        epochs: how often to walk through the data.
        seed: decides first weights and orders.
        device: `auto` (a GPU if there is one), cpu or cuda.
    """
    from fedfleet.app.machine.backbone import pretrain_task

    check_writable("out", out)
    hardware = one_of("device", device, ("auto", "cpu", "cuda"))
    return Answer(pretrain_task(task, overrides, on=on, epochs=epochs, seed=seed, device=hardware, out=out), metrics_text)
