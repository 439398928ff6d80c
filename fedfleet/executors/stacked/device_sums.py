"""Exact sums where the updates lie: the integers of `core.exact`, added and divided on the device.

Every field of a fold is obeyed here as on the host: its entries' weights, factors, named sums and parts, its denominator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedfleet.core import exact
from fedfleet.core.aggregation import Entry, Fold, Folding, entry_refusal, merge, scales_of
from fedfleet.core.clip import clip_factor, pairwise_sum, slack
from fedfleet.core.errors import Refused
from fedfleet.core.trees import Tree
from fedfleet.executors.stacked import sum_loops
from fedfleet.executors.tensor_stacks import fetch
from fedfleet.tasks.kernel_choice import kernels_for

Tensors = Mapping[str, torch.Tensor]


class DeviceSums:
    """A fold under way on one device, one buffer per named sum. Only means come back: no report crosses the bus."""

    def __init__(self, fold: Fold, like: Tree, device: torch.device) -> None:
        self.fold, self.like, self.device = fold, like, device
        self.scales = scales_of(fold, like)
        self.shapes = {n: like[n].shape for n in self.scales}
        self.sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.flat: dict[str, torch.Tensor] = {}
        self.fine: dict[str, dict[str, torch.Tensor]] = {}
        self.heads: dict[str, exact.Accumulator] = {}
        self.full = False  # was a report refused because a sum could take no more weight?

    def add(
        self, end: Tensors, start: Tensors | None, weights: Sequence[float], entries: Sequence[Entry], peaks: np.ndarray
    ) -> list[str | None]:
        """Add a stack's updates; for each client None, or why it was refused and weighs nothing.

        `weights` are what the reports claim; `peaks[leaf, client]` is the largest change of each leaf, as `changes` gives it.
        """
        reasons = self._refusals(weights, entries, peaks)
        if self.fold.clip is not None:
            entries = self._clip_entries(self.fold.clip, end, start, entries, reasons)
        for name in sorted({e.sum for e, why in zip(entries, reasons, strict=True) if why is None}):
            inside = [i for i, e in enumerate(entries) if e.sum == name and reasons[i] is None]
            self._add_to(name, end, start, {i: entries[i] for i in inside}, len(entries))
        return reasons

    def _clip_entries(
        self, clip: float, end: Tensors, start: Tensors | None, entries: Sequence[Entry], reasons: list[str | None]
    ) -> list[Entry]:
        """The entries of a stack with factors after which no update is longer than `clip`: the numbers that the host finds."""
        columns = [squares(end[n], None if start is None else start[n]) for n in self.scales]
        table = torch.stack(columns, 1).cpu().tolist() if columns else [[] for _ in entries]
        rounding, clipped = slack(self.like, self.scales), list(entries)
        for i, row in enumerate(table):
            if reasons[i] is None:
                try:
                    clipped[i] = entries[i]._replace(factor=entries[i].factor * clip_factor(clip, row, rounding))
                except Refused as error:
                    reasons[i] = str(error)
        return clipped

    def _add_to(self, name: str, end: Tensors, start: Tensors | None, inside: Mapping[int, Entry], clients: int) -> None:
        head = self._accumulator(name)
        parts = dict(zip(self.shapes, self.flat[name].split(self.sizes), strict=True))
        weights = np.zeros(clients)
        for i, entry in inside.items():
            weights[i] = entry.weight * entry.factor
        partial = {i: entry for i, entry in inside.items() if entry.parts is not None}
        # Leaves that everybody gives their whole weight share their factors: one trip across the bus for each scale.
        powers = {scale.power for scale in self.scales.values()}
        weights_by_power = {power: torch.from_numpy(np.ldexp(weights, power)).to(self.device) for power in powers}
        for leaf, scale in self.scales.items():
            factors, each = weights_by_power[scale.power], {}
            if partial:
                factors, each = self._leaf_factors(head, leaf, np.ldexp(weights, scale.power), partial)
            begin = None if start is None else start[leaf]
            if each or scale.two_limbs:
                self._add_one_by_one(name, leaf, end[leaf], begin, factors, each, parts[leaf], scale)
            else:
                add_exactly(parts[leaf], end[leaf], begin, factors)
        for entry in inside.values():
            head.weight += exact.weight_units(entry.weight)
            head.count += 1

    def _leaf_factors(
        self, head: exact.Accumulator, leaf: str, factors: np.ndarray, partial: Mapping[int, Entry]
    ) -> tuple[torch.Tensor, dict[int, Any]]:
        """The factors of a leaf that some give less than their whole weight, and who weighs its elements one by one."""
        each: dict[int, Any] = {}
        for i, entry in partial.items():
            part = (entry.parts or {}).get(leaf)
            if part is None:
                continue
            if isinstance(part, float):
                factors[i] *= part
            else:
                each[i] = part
            exact.add_missing_weight(head, leaf, entry.weight, part, self.shapes[leaf], self.fold.total_weight)
        return torch.from_numpy(factors).to(self.device), each

    def _add_one_by_one(
        self, name: str, leaf: str, end: torch.Tensor, start: torch.Tensor | None, factors: torch.Tensor,
        each: Mapping[int, Any], total: torch.Tensor, scale: exact.Scale,
    ) -> None:  # fmt: skip
        """Client by client, for leaves whose elements weigh differently or that carry a second limb."""
        for i in torch.nonzero(factors).reshape(-1).tolist():
            change = end[i] if start is None else end[i] - start[i]
            scaled = change.double().reshape(-1)
            if i in each:
                scaled = scaled * torch.as_tensor(np.asarray(each[i], np.float64).reshape(-1), device=self.device)
            scaled = scaled * factors[i]
            coarse = scaled.round()
            total += coarse.to(torch.int64)
            if scale.two_limbs:
                rest = ((scaled - coarse) * 2.0**32).round().to(torch.int64)
                fine_sum = self.fine[name].get(leaf)
                self.fine[name][leaf] = rest if fine_sum is None else fine_sum + rest

    def _accumulator(self, name: str) -> exact.Accumulator:
        if name not in self.heads:
            self.flat[name] = torch.zeros(sum(self.sizes), dtype=torch.int64, device=self.device)
            self.fine[name] = {}
            self.heads[name] = exact.Accumulator({}, {})
        return self.heads[name]

    def _refusals(self, weights: Sequence[float], entries: Sequence[Entry], peaks: np.ndarray) -> list[str | None]:
        """Why a client's update cannot be folded, by the same rules, in the same order and words as on the host."""
        heaviest = self.fold.heaviest
        reasons = [exact.weight_refusal(weight, heaviest) for weight in weights]
        names = [n for n in self.scales if math.prod(self.shapes[n])]
        for name, row in zip(names, peaks, strict=True):
            bound = self.scales[name].bound
            for c in np.flatnonzero(~(row <= bound)).tolist():
                problem = f"reaches {row[c]:.6g}, beyond its bound {bound:g}" if np.isfinite(row[c]) else "is not finite"
                reasons[c] = reasons[c] or f"leaf {name!r} {problem}"
        weight_by_sum: dict[str, int] = {}
        for c, entry in enumerate(entries):
            reasons[c] = reasons[c] or entry_refusal(self.fold, entry)
            if reasons[c] is None:
                weight_so_far = weight_by_sum.get(entry.sum, self.heads[entry.sum].weight if entry.sum in self.heads else 0)
                reasons[c] = exact.overweight_refusal(
                    exact.Accumulator({}, {}, weight_so_far), entry.weight, self.fold.total_weight
                )
                self.full |= reasons[c] is not None
                weight_by_sum[entry.sum] = weight_so_far + (exact.weight_units(entry.weight) if reasons[c] is None else 0)
        return reasons

    def absorb(self, other: DeviceSums) -> None:
        """Add what another thread has added up; `full` where both together weigh too much."""
        for name, head in other.heads.items():
            mine, limit = self._accumulator(name), self.fold.total_weight * 2.0**60
            if mine.weight + head.weight > limit:
                self.full = True
                return
            self.flat[name] += other.flat[name]
            for leaf, fine_sum in other.fine[name].items():
                own = self.fine[name].get(leaf)
                self.fine[name][leaf] = fine_sum if own is None else own + fine_sum
            exact.merge(mine, head)

    def close(self, other: Folding | None = None) -> Folding:
        """The fold as the host knows it. Where nothing has to be added any more, division happens here: doubles divide alike
        everywhere, and the means come home in one transfer."""
        folding = Folding(self.like, self.scales)
        for name, head in self.heads.items():
            # Noise goes into sums, on the host, which has the key.
            simple = other is None and not head.thin and not self.fine[name] and self.fold.noise is None
            folding.sums[name] = self._divide(name, head) if simple else self._fetch_sums(name, head)
        return folding if other is None else merge(self.fold, folding, other)

    def _divide(self, name: str, head: exact.Accumulator) -> exact.Accumulator:
        divisors = {n: exact.divisor(head, scale, n, self.fold.denominator) for n, scale in self.scales.items()}
        parts = self.flat[name].split(self.sizes)
        if self.device.type == "cpu":
            named = zip(self.shapes.items(), parts, strict=True)
            head.final_mean = {n: exact.divide(v.numpy().reshape(shape), divisors[n]) for (n, shape), v in named}
            return head
        if len(set(divisors.values())) == 1 and 0.0 not in divisors.values():
            means = self.flat[name].double().div_(next(iter(divisors.values())))
        else:
            means = torch.cat(
                [p.double().div_(d) if d else p.double().zero_() for p, d in zip(parts, divisors.values(), strict=True)]
                or [self.flat[name].double()]
            )
        leaves = np.split(fetch(means.float()), np.cumsum(self.sizes)[:-1]) if self.sizes else []
        named = zip(self.shapes.items(), leaves, strict=True)
        head.final_mean = {n: leaf.reshape(shape) for (n, shape), leaf in named}
        return head

    def _fetch_sums(self, name: str, head: exact.Accumulator) -> exact.Accumulator:
        """The sums themselves, on the host."""
        leaves = np.split(fetch(self.flat[name]), np.cumsum(self.sizes)[:-1]) if self.sizes else []
        head.sums = {n: leaf.reshape(shape) for (n, shape), leaf in zip(self.shapes.items(), leaves, strict=True)}
        for leaf, scale in self.scales.items():
            if scale.two_limbs:
                fine_sum = self.fine[name].get(leaf)
                zeros = np.zeros(self.shapes[leaf], np.int64)
                head.fine[leaf] = zeros if fine_sum is None else fine_sum.cpu().numpy().reshape(self.shapes[leaf])
        return head


def floating_names(tensors: Tensors) -> list[str]:
    """The leaves that are averaged."""
    return [n for n, v in tensors.items() if v.is_floating_point()]


@dataclass(slots=True)
class Changes:
    """How far clients moved, measured on the device; nobody waits for it until it is read."""

    names: list[str]
    clients: int
    table: torch.Tensor | None

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """The largest change of each leaf and client, [leaves, clients], and how far each client went in all, [clients]."""
        if self.table is None:
            return np.zeros((0, self.clients)), np.zeros(self.clients)
        table = self.table.cpu().numpy()
        # The order in which a model lists its leaves decides nothing.
        by_name = sorted(range(len(self.names)), key=self.names.__getitem__)
        return table[:, 0], np.sqrt(table[by_name, 1].sum(0))


def changes(end: Tensors, start: Tensors | None, names: Sequence[str], clients: int) -> Changes:
    """How far each leaf of each client moved."""
    filled = [n for n in names if end[n][0].numel()]
    both = [peaks_and_squares(end[n], None if start is None else start[n]) for n in filled]
    rows = [torch.stack([peak.double(), squares]) for peak, squares in both]
    return Changes(filled, clients, torch.stack(rows) if rows else None)


def peaks_and_squares(end: torch.Tensor, start: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest |end - start| of each client, not finite where an element is not, and the sum of its squares."""
    kernels = kernels_for(end)
    if kernels is not None:
        return kernels.peaks_and_squares(end, start)
    if start is None and (loops := sum_loops.sum_loops(end)) is not None:
        return sum_loops.peaks_and_squares(loops, end)
    change = (end if start is None else end - start).reshape(len(end), -1)
    # Not in place: of doubles, double() is the update itself.
    return change.abs().amax(1), change.double().square().sum(1)


def squares(end: torch.Tensor, start: torch.Tensor | None) -> torch.Tensor:
    """The sum of squares of each client's change, added up in the order that `core.clip` fixes."""
    change = (end if start is None else end - start).reshape(len(end), -1)
    return pairwise_sum(change.double().square())


def add_exactly(total: torch.Tensor, end: torch.Tensor, start: torch.Tensor | None, factor: torch.Tensor) -> None:
    """total += sum over clients of rint(float64(end - start) factor), flat; refused clients have factor 0."""
    kernels = kernels_for(end)
    if kernels is not None:
        kernels.add_exactly(total, end, start, factor)
        return
    if start is None and (loops := sum_loops.sum_loops(end)) is not None:
        sum_loops.add_exactly(loops, total, end, factor)
        return
    shape = (-1, *(1,) * (end.dim() - 1))
    change = end if start is None else end - start
    scaled = torch.where((factor != 0).reshape(shape), change.double() * factor.reshape(shape), 0.0)
    total += scaled.round_().to(torch.int64).sum(0).reshape(-1)
