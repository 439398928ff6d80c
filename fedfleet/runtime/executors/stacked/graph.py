"""CUDA graphs: a lap of fused steps is recorded once for its shape and replayed, so that small kernels do not wait for
Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedfleet.core.parts import LocalPass
from fedfleet.learn.optimisers import PlainSgd
from fedfleet.runtime.executors.stacked.schedule import Stacked
from fedfleet.runtime.executors.stacked.train import (
    Trained,
    losses,
    plain_step,
    set_rate,
    shared,
    step_addresses,
    trainable,
)
from fedfleet.runtime.executors.stacked.twin import Tensors, Twin

LAP = 16  # steps in one recording at most: enough to forget the launches, few enough to record quickly


@dataclass(slots=True)
class _Recorded:
    """A recorded lap and the memory it works in: rows [steps, samples] and addresses [steps, clients] are laid there."""

    graph: torch.cuda.CUDAGraph
    begin: Tensors
    end: Tensors
    rows: torch.Tensor
    address: torch.Tensor | None
    loss: torch.Tensor


class Graphs:
    """Recorded laps by shape. Only what a graph can hold is recorded: plain SGD on full batches of equal number."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Recorded] = {}

    def train(
        self, twin: Twin, stacked: Stacked, local: LocalPass, start: Tensors, x: torch.Tensor, y: torch.Tensor
    ) -> Trained | None:
        """Train by replaying; None if this stack is not of the kind that can be recorded."""
        plain = local.optimiser
        steps, clients, width = stacked.rows.shape
        fits = not local.terms and local.train is None and bool((stacked.sizes == width).all())
        if not fits or not isinstance(plain, PlainSgd):
            return None
        lap = next(n for n in range(min(steps, LAP), 0, -1) if steps % n == 0)
        # Weights that all clients share need not be copied, if the lap is the whole pass and leaves them at its end.
        alike = frozenset(n for n, v in start.items() if lap == steps and shared(twin, n, v))
        key = (id(twin), clients, width, lap, plain.lr, plain.weight_decay, alike)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _record(twin, plain, start, alike, (lap, clients, width), x, y)
        with torch.no_grad():
            for name, value in start.items():
                known.begin[name].copy_(value[0] if name in alike else value.reshape(known.begin[name].shape))
        known.loss.zero_()
        rows = torch.from_numpy(stacked.rows.reshape(steps, -1)).to(x.device)
        places = step_addresses(twin, stacked, x.device)
        for t in range(0, steps, lap):
            known.rows.copy_(rows[t : t + lap])
            if known.address is not None and places is not None:
                known.address.copy_(places[t : t + lap])
            known.graph.replay()
        end = {n: v.detach().reshape(clients, *twin.shapes[n]) for n, v in known.end.items()}
        loss = known.loss.double().cpu().numpy() / np.maximum(stacked.sizes.sum(0), 1)
        return Trained(start, end, loss)


def _record(
    twin: Twin,
    plain: PlainSgd,
    start: Tensors,
    alike: frozenset[str],
    shape: tuple[int, int, int],
    x: torch.Tensor,
    y: torch.Tensor,
) -> _Recorded:
    lap, clients, width = shape
    begin = {n: (v[0] if n in alike else v).clone().contiguous() for n, v in start.items()}
    loaded = {n: v.unsqueeze(0).expand(clients, *v.shape) if n in alike else v for n, v in begin.items()}
    trained = {n: v for n, v in loaded.items() if trainable(twin, n)}
    rows = torch.zeros(lap, clients * width, dtype=torch.int64, device=x.device)
    address = torch.zeros(lap, clients, dtype=torch.int64, device=x.device) if twin.dropouts else None
    loss = torch.zeros(clients, device=x.device)
    twin.stack.weights, twin.stack.steps = None, lap
    twin.load(loaded, clients)
    twin.module.train()

    def run(steps: int) -> Tensors:
        rest = set_rate(twin, plain, trained, x.device)
        for t in range(steps):
            for leaf in twin.dropouts:
                assert address is not None
                leaf.address = address[t]
            sums, total = losses(twin, x[rows[t]], y[rows[t]], None)
            loss.add_(sums)
            plain_step(twin, rest, total)
        return twin.read(list(loaded))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):  # libraries choose and load their kernels before anything is recorded
            run(min(lap, 2))
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        end = run(lap)
    # What lies in place after a lap is where the next one begins; what was shared has a memory of its own at the end.
    begin = {n: v if n in alike else end[n] for n, v in begin.items()}
    return _Recorded(graph, begin, end, rows, address, loss)
