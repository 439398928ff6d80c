"""Where stacks train: a task on a device, its data kept there once, its twins, and what was uploaded last."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from fedfleet.core.parts import Task
from fedfleet.core.trees import Tree
from fedfleet.executors.hardware import keep_large_blocks, require_cuda
from fedfleet.executors.stacked.cuda_graph import CudaGraphs
from fedfleet.executors.stacked.schedule import Schedule
from fedfleet.executors.stacked.stacked_model import CannotStack, Tensors, Twin, check_twin, make_twin
from fedfleet.executors.stacked.sum_loops import COMPILE_MIN_ELEMENTS
from fedfleet.tasks.narrow_models import at_width


@dataclass(slots=True)
class Place:
    """A task on a device: its data, kept there once, its twin, and what was uploaded last."""

    task: Task
    device: torch.device
    x: torch.Tensor
    y: torch.Tensor
    eval_model: torch.nn.Module  # the model as it is, for evaluation
    twins: list[Twin]
    form: str
    threads: int
    max_clients: int  # clients per stack; halved when memory runs out
    graphs: CudaGraphs | None = None
    uploaded: tuple[Tree, Tensors] | None = None
    notes: list[str] = field(default_factory=list)
    adds_up: bool = False  # are updates added up where they are?
    streamed: bool = False  # do the stacks bring their rows along?
    computed: int = 0  # samples that went through the stacks, padding included
    real: int = 0
    unstacked: dict[str, int] = field(default_factory=dict)  # why jobs were trained one by one, and how many
    narrow_twins: dict[float, list[Twin]] = field(default_factory=dict)  # twins of narrower models, by their share of the width

    def twins_at(self, width: float) -> list[Twin]:
        """The twins of the model at this share of its width, made when first needed; none where clients are looped over."""
        if width == 1.0 or not self.twins:
            return self.twins
        if width not in self.narrow_twins:
            smaller = at_width(self.task, width)
            self.narrow_twins[width] = make_twins(smaller, smaller.build().to(self.device), len(self.twins))
        return self.narrow_twins[width]


def open_place(task: Task, *, device: str, threads: int, form: str, tf32: bool, graphs: bool, room: float | None = None) -> Place:
    """Bring the data to the device and build the twin, or say why there is none."""
    if device.startswith("cuda"):
        require_cuda()
    keep_large_blocks()
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.set_num_threads(1)  # threads of ours run kernels side by side; kernels' own threads would only wait
    target = torch.device(device)
    notes: list[str] = []
    twins: list[Twin] = []
    eval_model: torch.nn.Module | None = None
    if form == "merged":
        try:
            model = task.build().to(target)  # first: whatever is frozen in it is there once, for the twins too
            twins, eval_model = make_twins(task, model, threads if target.type == "cpu" else 1), model
        except CannotStack as error:
            form, target = "loop", torch.device("cpu")
            notes.append(f"{task.name} cannot be stacked ({error}); its clients are trained one after the other, on the CPU")
    x, y, streamed = _load_data(task, target, room)
    if streamed:
        graphs = False  # a recording knows one place of the data only
        notes.append(f"{task.name}: the data do not fit on {device} and are brought there stack by stack")
    graph_cache = CudaGraphs() if graphs and target.type == "cuda" else None
    return Place(
        task,
        target,
        x,
        y,
        (eval_model or task.build().to(target)).eval(),
        twins,
        form,
        threads,
        _max_clients(task, target),
        graph_cache,
        notes=notes,
        adds_up=target.type != "cpu" or max((np.size(v) for v in task.init(0).values()), default=0) >= COMPILE_MIN_ELEMENTS,
        streamed=streamed,
    )


def make_twins(task: Task, model: torch.nn.Module, count: int) -> list[Twin]:
    """So many twins of the task's model, where the model is."""
    sample = torch.from_numpy(task.dataset.x[:2]).to(next(model.parameters()).device)
    twins = [make_twin(model, sample) for _ in range(count)]
    check_twin(twins[0], model, sample)
    return twins


def _load_data(task: Task, target: torch.device, room: float | None) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """The data on the device, or in page-locked memory here if they would take too much of it; then they are streamed."""
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    if room is None:
        room = torch.cuda.mem_get_info(target)[0] / 2 if target.type == "cuda" else float("inf")
    if x.nbytes + y.nbytes <= room:
        return x.to(target), y.to(target), False
    return (x.pin_memory(), y.pin_memory(), True) if target.type == "cuda" else (x, y, True)


def stage_data(place: Place, plan: Schedule) -> tuple[Schedule, torch.Tensor, torch.Tensor]:
    """A stage with the data that it needs on the device: all of them, or just its own rows, renumbered."""
    if not place.streamed:
        return plan, place.x, place.y
    row_numbers, places = np.unique(plan.rows, return_inverse=True)
    rows = torch.from_numpy(row_numbers)
    x, y = (v[rows].to(place.device, non_blocking=True) for v in (place.x, place.y))
    return replace(plan, rows=places.reshape(plan.rows.shape)), x, y


def _max_clients(task: Task, device: torch.device) -> int:
    """How many clients fit: parameters, their gradients and room for activations, in half of the free memory."""
    size = sum(v.nbytes for v in task.init(0).values())
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(1, int(free / (12 * size + 64e6)))
    # On a CPU stacks should stay near the cache, and be large enough for products that all their clients share.
    return int(min(50, max(25, 8e6 // max(size, 1))))
