"""CUDA graphs: a fused step is recorded once for its shape and replayed, so that small kernels do not wait for Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedfleet.core.parts import LocalPass
from fedfleet.learn.optimisers import PlainSgd
from fedfleet.run.executors.stacked.schedule import Stacked
from fedfleet.run.executors.stacked.train import Trained, losses, plain_step, set_rate, step_addresses, trainable
from fedfleet.run.executors.stacked.twin import Tensors, Twin


@dataclass(slots=True)
class _Recorded:
    """A recorded step and the memory it works in."""

    graph: torch.cuda.CUDAGraph
    params: Tensors
    rows: torch.Tensor
    address: torch.Tensor | None
    loss: torch.Tensor


class Graphs:
    """Recorded steps by shape. Only what a graph can hold is recorded: plain SGD on full batches of equal number."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Recorded] = {}

    def train(
        self, twin: Twin, stacked: Stacked, local: LocalPass, start: Tensors, x: torch.Tensor, y: torch.Tensor
    ) -> Trained | None:
        """Train by replaying; None if this stack is not of the kind that can be recorded."""
        plain = local.optimiser
        width, clients = stacked.rows.shape[2], len(stacked.jobs)
        fits = not local.terms and local.train is None and bool((stacked.sizes == width).all())
        if not fits or not isinstance(plain, PlainSgd):
            return None
        key = (id(twin), clients, width, plain.lr, plain.weight_decay)
        step = self._known.get(key)
        if step is None:
            step = self._known[key] = self._record(twin, plain, start, clients, width, x, y)
        with torch.no_grad():
            for name, value in start.items():
                step.params[name].copy_(value.reshape(step.params[name].shape))
        step.loss.zero_()
        rows = torch.from_numpy(stacked.rows.reshape(len(stacked.rows), -1)).to(x.device)
        places = step_addresses(twin, stacked, x.device)
        for t in range(len(stacked.rows)):
            step.rows.copy_(rows[t])
            if step.address is not None and places is not None:
                step.address.copy_(places[t])
            step.graph.replay()
        end = {n: v.detach().reshape(clients, *twin.shapes[n]) for n, v in step.params.items()}
        loss = step.loss.double().cpu().numpy() / np.maximum(stacked.sizes.sum(0), 1)
        return Trained(start, end, loss)

    def _record(
        self, twin: Twin, plain: PlainSgd, start: Tensors, clients: int, width: int, x: torch.Tensor, y: torch.Tensor
    ) -> _Recorded:
        params = {n: v.clone().contiguous() for n, v in start.items()}
        twin.load(params, clients)
        trained = {n: v for n, v in params.items() if trainable(twin, n)}
        rest = set_rate(twin, plain, trained, x.device)
        params = {n: getattr(*twin.places[n]) for n in params}
        twin.stack.weights = None
        rows = torch.zeros(clients * width, dtype=torch.int64, device=x.device)
        address = torch.zeros(clients, dtype=torch.int64, device=x.device) if twin.dropouts else None
        for leaf in twin.dropouts:
            assert address is not None
            leaf.address = address
        loss = torch.zeros(clients, device=x.device)
        twin.module.train()

        def step() -> None:
            sums, total = losses(twin, x[rows], y[rows], None)
            loss.add_(sums)
            plain_step(twin, rest, total)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return _Recorded(graph, params, rows, address, loss)
