"""CUDA graphs: a lap of steps is recorded once for its shape and replayed, so that small kernels do not wait for Python."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import torch

from fedfleet.core.passes import Carry
from fedfleet.executors.stacked.schedule import Schedule
from fedfleet.executors.stacked.stacked_model import Tensors, Twin
from fedfleet.executors.stacked.stage import StageEnd, StageRun, Work, can_fuse, stage_tallies, step_addresses

MAX_LAP_STEPS = 16  # steps in one recording at most: enough to forget the launches, few enough to record quickly
MAX_WHOLE_STEPS = 32  # steps of a pass that is recorded whole, because something lasts from step to step
_MAX_RECORDINGS = 6  # recordings that are kept; each holds the memory of its pass


@dataclass(slots=True)
class _Recording:
    """A recorded lap and the memory it works in: whatever changes from call to call is copied there before a replay."""

    graph: torch.cuda.CUDAGraph
    work: Work
    end: Tensors
    second: Tensors
    rows: torch.Tensor
    address: torch.Tensor | None
    sums: torch.Tensor


class CudaGraphs:
    """Recorded laps by shape. What can be recorded: full batches, and as many clients at the end as at the beginning."""

    def __init__(self) -> None:
        self._recordings: OrderedDict[tuple[object, ...], _Recording] = OrderedDict()

    def train(self, twin: Twin, work: Work, x: torch.Tensor, y: torch.Tensor) -> StageEnd | None:
        """Train by replaying; None if this stage is not of the kind that can be recorded."""
        plan = work.schedule
        steps, clients, width = plan.rows.shape
        # Rates of their own change with every cohort, and a recording knows only one.
        lap = _lap_steps(twin, work) if work.rate is not None and bool((plan.sizes == width).all()) else 0
        if not lap:
            return None
        # Weights that all clients share need not be copied, if the lap is the whole pass and leaves them at its end.
        shared_names = frozenset(n for n, v in work.begin.items() if lap == steps and v.stride(0) == 0 and clients > 1)
        key = (id(twin), work.stage, work.rate, clients, width, lap, shared_names, _shared_leaves(work), plan.stage > 0)
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._recordings[key] = _record(twin, work, shared_names, lap, x, y)
            while len(self._recordings) > _MAX_RECORDINGS:
                self._recordings.popitem(last=False)
        self._recordings.move_to_end(key)
        _load_inputs(recording.work, work)
        recording.sums.zero_()
        rows = torch.from_numpy(plan.rows.reshape(steps, -1)).to(x.device)
        addresses = step_addresses(twin, plan, x.device)
        for t in range(0, steps, lap):
            recording.rows.copy_(rows[t : t + lap])
            if recording.address is not None and addresses is not None:
                recording.address.copy_(addresses[t : t + lap])
            recording.graph.replay()
        end = {n: v.detach() for n, v in recording.end.items()}
        return StageEnd(end, recording.second, stage_tallies(plan, recording.sums))


def _lap_steps(twin: Twin, work: Work) -> int:
    """How many steps one recording of this stage holds; 0 if it cannot be recorded."""
    steps = len(work.schedule.rows)
    linear = work.stage.optimiser.linear
    replayable = linear is not None and not linear.momentum and can_fuse(twin, work)
    if replayable:  # nothing but the weights lasts from step to step, so any part of a pass can be replayed
        return next((n for n in range(min(steps, MAX_LAP_STEPS), 0, -1) if steps % n == 0), 0)
    return steps if steps <= MAX_WHOLE_STEPS else 0


def _load_inputs(buffers: Work, work: Work) -> None:
    """Copy what a pass begins with to where the recording expects it."""
    with torch.no_grad():
        _copy_tree(buffers.begin, work.begin)
        _copy_tree(buffers.second, work.second)
        if buffers.anchor is not buffers.begin:
            _copy_tree(buffers.anchor, work.anchor)
        for slot, tree in work.carried.memory.items():
            _copy_tree(buffers.carried.memory[slot], tree)
        _copy_tree(buffers.carried.given, work.carried.given)


def _copy_tree(target: object, tree: object) -> None:
    assert isinstance(target, dict) and isinstance(tree, dict)
    for name, value in tree.items():
        if target[name].stride(0) == 0 and len(target[name]) > 1:
            target[name][0].copy_(value[0])
        else:
            target[name].copy_(value)


def _shared_leaves(work: Work) -> frozenset[tuple[str, str]]:
    """Which leaves of what a pass carries are one for all clients: a recording keeps one row of them."""
    trees = {"second": work.second, "anchor": work.anchor, "given": work.carried.given, **work.carried.memory}
    return frozenset((tree, n) for tree, leaves in trees.items() for n, v in leaves.items() if v.stride(0) == 0 and len(v) > 1)


def _clone_tree(tree: object, shared_names: frozenset[str] | None = None) -> Tensors:
    """Memory of the recording's own in the shape of these stacks; what all clients share stays one row."""
    assert isinstance(tree, dict)
    result: Tensors = {}
    for name, value in tree.items():
        one = value.stride(0) == 0 and len(value) > 1 and (shared_names is None or name in shared_names)
        result[name] = value[0].clone().expand(value.shape) if one else value.clone(memory_format=torch.contiguous_format)
    return result


def _record(twin: Twin, work: Work, shared_names: frozenset[str], lap: int, x: torch.Tensor, y: torch.Tensor) -> _Recording:
    plan = work.schedule
    steps, clients, width = plan.rows.shape
    begin = _clone_tree(work.begin, shared_names)
    in_place = lap < steps
    # A pass that begins where it is anchored needs no second copy, unless it moves that copy in place.
    needs_anchor = work.stage.terms and (in_place or work.anchor is not work.begin)
    anchor = _clone_tree(work.anchor) if needs_anchor else begin
    memory = {slot: _clone_tree(tree) for slot, tree in work.carried.memory.items()}
    rows = torch.zeros(lap, clients * width, dtype=torch.int64, device=x.device)
    address = torch.zeros(lap, clients, dtype=torch.int64, device=x.device) if twin.dropouts else None
    sums = torch.zeros(2, clients, device=x.device)
    part = Schedule(plan.jobs, plan.order, plan.rows[:lap], plan.sizes[:lap], plan.active[:lap], plan.stage)
    buffers = replace(
        work, schedule=part, begin=begin, anchor=anchor, second=_clone_tree(work.second),
        carried=Carry(memory, _clone_tree(work.carried.given)),
    )  # fmt: skip

    def run(count: int) -> tuple[Tensors, Tensors]:
        twin.stack.fewest = width
        stage_run = StageRun(twin, buffers, in_place=in_place)
        stage_run.loss, stage_run.squared = sums[0], sums[1]
        for t in range(count):
            stage_run.step(x[rows[t]], y[rows[t]], None, None if address is None else address[t])
        return stage_run.finish()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):  # libraries choose and load their kernels before anything is recorded
            run(min(lap, 2))
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        end, second = run(lap)
    return _Recording(graph, buffers, end, second, rows, address, sums)
