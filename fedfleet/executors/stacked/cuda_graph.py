"""CUDA graphs: a lap of steps is recorded once for its shape and replayed, so that small kernels do not wait for Python."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import torch

from fedfleet.core.passes import Carried
from fedfleet.executors.stacked.schedule import Schedule
from fedfleet.executors.stacked.stage import StageRun, Trained, Work, can_fuse, step_addresses, tallied
from fedfleet.executors.stacked.twin import Tensors, Twin

LAP = 16  # steps in one recording at most: enough to forget the launches, few enough to record quickly
WHOLE = 32  # steps of a pass that is recorded whole, because something lasts from step to step
_KEPT = 6  # recordings that are kept; each holds the memory of its pass


@dataclass(slots=True)
class _Recorded:
    """A recorded lap and the memory it works in: whatever changes from call to call is copied there before a replay."""

    graph: torch.cuda.CUDAGraph
    work: Work
    end: Tensors
    second: Tensors
    rows: torch.Tensor
    address: torch.Tensor | None
    sums: torch.Tensor


class Graphs:
    """Recorded laps by shape. What can be recorded: full batches, and as many clients at the end as at the beginning."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], _Recorded] = OrderedDict()

    def train(self, twin: Twin, work: Work, x: torch.Tensor, y: torch.Tensor) -> Trained | None:
        """Train by replaying; None if this stage is not of the kind that can be recorded."""
        plan = work.schedule
        steps, clients, width = plan.rows.shape
        # Rates of their own change with every cohort, and a recording knows only one.
        lap = _lap(twin, work) if work.rate is not None and bool((plan.sizes == width).all()) else 0
        if not lap:
            return None
        # Weights that all clients share need not be copied, if the lap is the whole pass and leaves them at its end.
        alike = frozenset(n for n, v in work.begin.items() if lap == steps and v.stride(0) == 0 and clients > 1)
        key = (id(twin), work.stage, work.rate, clients, width, lap, alike, plan.stage > 0)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _record(twin, work, alike, lap, x, y)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        _lay(known.work, work)
        known.sums.zero_()
        rows = torch.from_numpy(plan.rows.reshape(steps, -1)).to(x.device)
        places = step_addresses(twin, plan, x.device)
        for t in range(0, steps, lap):
            known.rows.copy_(rows[t : t + lap])
            if known.address is not None and places is not None:
                known.address.copy_(places[t : t + lap])
            known.graph.replay()
        end = {n: v.detach() for n, v in known.end.items()}
        return Trained(end, known.second, tallied(plan, known.sums.double().cpu().numpy()))


def _lap(twin: Twin, work: Work) -> int:
    """How many steps one recording of this stage holds; 0 if it cannot be recorded."""
    steps = len(work.schedule.rows)
    linear = work.stage.optimiser.linear
    passing = linear is not None and not linear.momentum and can_fuse(twin, work)
    if passing:  # nothing but the weights lasts from step to step, so any part of a pass can be replayed
        return next((n for n in range(min(steps, LAP), 0, -1) if steps % n == 0), 0)
    return steps if steps <= WHOLE else 0


def _lay(place: Work, work: Work) -> None:
    """Copy what a pass begins with to where the recording expects it."""
    with torch.no_grad():
        _copy(place.begin, work.begin)
        _copy(place.second, work.second)
        if place.anchor is not place.begin:
            _copy(place.anchor, work.anchor)
        for slot, tree in work.carried.memory.items():
            _copy(place.carried.memory[slot], tree)
        _copy(place.carried.given, work.carried.given)


def _copy(to: object, tree: object) -> None:
    assert isinstance(to, dict) and isinstance(tree, dict)
    for name, value in tree.items():
        if to[name].stride(0) == 0 and len(to[name]) > 1:
            to[name][0].copy_(value[0])
        else:
            to[name].copy_(value)


def _own(tree: object, alike: frozenset[str] | None = None) -> Tensors:
    """Memory of the recording's own in the shape of these stacks; what all clients share stays one row."""
    assert isinstance(tree, dict)
    found: Tensors = {}
    for name, value in tree.items():
        one = value.stride(0) == 0 and len(value) > 1 and (alike is None or name in alike)
        found[name] = (
            value[0].clone().expand(value.shape) if one else value.clone(memory_format=torch.contiguous_format)
        )
    return found


def _record(twin: Twin, work: Work, alike: frozenset[str], lap: int, x: torch.Tensor, y: torch.Tensor) -> _Recorded:
    plan = work.schedule
    steps, clients, width = plan.rows.shape
    begin = _own(work.begin, alike)
    in_place = lap < steps
    # A pass that begins where it is anchored needs no second copy, unless it moves that copy in place.
    apart = work.stage.terms and (in_place or work.anchor is not work.begin)
    anchor = _own(work.anchor) if apart else begin
    memory = {slot: _own(tree) for slot, tree in work.carried.memory.items()}
    rows = torch.zeros(lap, clients * width, dtype=torch.int64, device=x.device)
    address = torch.zeros(lap, clients, dtype=torch.int64, device=x.device) if twin.dropouts else None
    sums = torch.zeros(2, clients, device=x.device)
    part = Schedule(plan.jobs, plan.order, plan.rows[:lap], plan.sizes[:lap], plan.active[:lap], plan.stage)
    place = replace(
        work, schedule=part, begin=begin, anchor=anchor, second=_own(work.second),
        carried=Carried(memory, _own(work.carried.given)),
    )  # fmt: skip

    def run(count: int) -> tuple[Tensors, Tensors]:
        twin.stack.fewest = width
        going = StageRun(twin, place, keeps=in_place)
        going.loss, going.squared = sums[0], sums[1]
        for t in range(count):
            going.step(x[rows[t]], y[rows[t]], None, None if address is None else address[t])
        return going.finish()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):  # libraries choose and load their kernels before anything is recorded
            run(min(lap, 2))
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        end, second = run(lap)
    return _Recorded(graph, place, end, second, rows, address, sums)
