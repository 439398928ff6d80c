"""The exact mean where the updates lie: the integers of `core.exact`, added and divided on the device."""

from __future__ import annotations

import math

import numpy as np
import torch

from fedfleet.core import exact
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import ExactMean
from fedfleet.core.trees import Tree
from fedfleet.runtime.executors.stacked.train import Trained
from fedfleet.tasks.accelerated import kernels_for


class DeviceSum:
    """A sum under way on one device, all leaves in one buffer. Only its mean comes back: no report crosses the bus."""

    def __init__(self, like: Tree, mean: ExactMean, device: torch.device) -> None:
        self.mean, self.device = mean, device
        self.shapes = {n: like[n].shape for n in mean.scales}
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.flat = torch.zeros(sum(sizes), dtype=torch.int64, device=device)
        self.parts = dict(zip(self.shapes, self.flat.split(sizes), strict=True))
        self.acc = exact.Accumulator({}, {})

    def add(self, trained: Trained, weights: list[float]) -> list[str | None]:
        """Add a stack's updates; for each client None, or why it was refused and weighs nothing."""
        reasons = refusals(trained, weights, self.mean)
        counted = [0.0 if why else w for w, why in zip(weights, reasons, strict=True)]
        heavy = torch.tensor(counted, dtype=torch.float64, device=self.device)
        factors = {power: heavy * 2.0**power for power in {scale.power for scale in self.mean.scales.values()}}
        for name, scale in self.mean.scales.items():
            add_exactly(self.parts[name], trained.end[name], trained.start[name], factors[scale.power])
        for w in counted:
            if w:
                self.acc.weight += round(w * 2.0**60)
                self.acc.count += 1
        return reasons

    def close(self) -> exact.Accumulator:
        """Divide here (doubles divide alike everywhere) and bring the mean home, all leaves in one transfer."""
        if self.acc.weight > self.mean.total_weight * 2.0**60:
            raise RunFailed(
                f"the weights of one commit exceed {self.mean.total_weight:g}; raise the fold's total_weight"
            )
        if self.acc.count:
            divisors = {n: exact.divisor(self.acc, scale) for n, scale in self.mean.scales.items()}
            if len(set(divisors.values())) == 1:
                divided = self.flat.double().div_(next(iter(divisors.values())))
            else:
                divided = torch.cat([self.parts[n].double().div_(by) for n, by in divisors.items()])
            leaves = np.split(_fetched(divided.float()), np.cumsum([part.numel() for part in self.parts.values()])[:-1])
            named = zip(self.shapes.items(), leaves, strict=True)
            self.acc.closed = {n: leaf.reshape(shape) for (n, shape), leaf in named}
        return self.acc


def refusals(trained: Trained, weights: list[float], mean: ExactMean) -> list[str | None]:
    """Why a client's update cannot be folded, by the same rules and in the same words as `core.exact.refusal`."""
    found: list[str | None] = [None] * len(weights)
    names = [n for n in mean.scales if trained.end[n][0].numel()]
    largest = [peaks(trained.end[n], trained.start[n]) for n in names]
    table = torch.stack(largest).cpu().numpy() if names else np.zeros((0, len(weights)))
    for name, row in zip(names, table, strict=True):
        bound = mean.scales[name].bound
        for c in np.flatnonzero(~(row <= bound)).tolist():
            far = f"reaches {row[c]:.6g}, beyond its bound {bound:g}" if np.isfinite(row[c]) else "is not finite"
            found[c] = found[c] or f"leaf {name!r} {far}"
    for c, weight in enumerate(weights):
        if not 0 < weight <= mean.total_weight:
            found[c] = found[c] or f"its weight {weight} is not in (0, {mean.total_weight}]"
    return found


def peaks(end: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """The largest |end - start| of each client; not finite where an element is not."""
    own = kernels_for(end)
    if own is not None:
        return own.peaks(end, start)
    return (end - start).reshape(len(end), -1).abs().amax(1)


def add_exactly(total: torch.Tensor, end: torch.Tensor, start: torch.Tensor, factor: torch.Tensor) -> None:
    """total += sum over clients of rint(float64(end - start) factor), flat; refused clients have factor 0."""
    own = kernels_for(end)
    if own is not None:
        own.add_exactly(total, end, start, factor)
        return
    shape = (-1, *(1,) * (end.dim() - 1))
    scaled = torch.where((factor > 0).reshape(shape), (end - start).double() * factor.reshape(shape), 0.0)
    total += scaled.round_().to(torch.int64).sum(0).reshape(-1)


def _fetched(value: torch.Tensor) -> np.ndarray:
    """A tensor's values here; from an accelerator through page-locked memory, which the bus reads directly."""
    if value.device.type != "cuda":
        return value.numpy()
    here = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    here.copy_(value, non_blocking=True)
    torch.cuda.current_stream(value.device).synchronize()
    return here.numpy()
