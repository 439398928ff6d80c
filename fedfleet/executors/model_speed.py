"""Timing a task's model on this machine: single inferences and training steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """Seconds of each inference of one sample and of each training step of one batch."""

    inference: list[float]
    training: list[float]
    threads: int


def time_model(task: Task, *, batch: int, iterations: int, warm_up: int, side: int | None) -> ModelTimes:
    """Warm up, then time; with `side`, random images of side x side pixels instead of the task's samples."""
    module = task.build()
    generator = torch.Generator().manual_seed(0)
    shape = tuple(task.dataset.x.shape[1:])
    if side is not None:
        if len(shape) != 3:
            raise BadInput(f"--side: the samples of {task.name} are not images")
        shape = (shape[0], side, side)
    x = torch.rand((batch, *shape), generator=generator)
    y = torch.randint(0, task.dataset.classes, (batch,), generator=generator)
    try:
        module(x[:1])
    except RuntimeError as error:
        raise BadInput(f"--side {side}: the model of {task.name} cannot take such images ({str(error).splitlines()[0]})") from None
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)

    def infer() -> None:
        with torch.no_grad():
            module(x[:1])

    def train() -> None:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimiser.step()

    return ModelTimes(_time_calls(infer, iterations, warm_up), _time_calls(train, iterations, warm_up), torch.get_num_threads())


def _time_calls(work: Callable[[], None], iterations: int, warm_up: int) -> list[float]:
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(iterations):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds
