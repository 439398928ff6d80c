"""What late reports count: one family of staleness weights, and the methods that differ in where they put them.

The staleness tau of a report is the number of versions that were made between the sending of its task and its folding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np

from fedfleet.core.aggregation import Aggregate, Entry, Fold, Mean
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.decoders import Decoder
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.exact import Parts
from fedfleet.core.limits import Natural, Positive
from fedfleet.core.parts import Algorithm
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import Tree, mismatch

Damping = Literal["polynomial", "constant", "hinge"]
Average = Literal["fixed", "normalised"]
Exponent = Annotated[float, Ge(0), Le(1000)]
Weight = Callable[[int], float]


@cache
def staleness_weight(damping: Damping, a: float, b: int) -> Weight:
    """s(tau), 1 for a fresh report: (1 + tau)^-a; 1; or 1 up to tau = b and 1 / (a (tau - b) + 1) beyond (Xie et al. 2019).

    >>> [round(staleness_weight("polynomial", 0.5, 4)(tau), 3) for tau in range(4)]
    [1.0, 0.707, 0.577, 0.5]
    >>> [round(staleness_weight("hinge", 10.0, 4)(tau), 3) for tau in (3, 4, 5, 6)]
    [1.0, 1.0, 0.091, 0.048]
    """
    match damping:
        case "polynomial":
            return lambda tau: (1.0 + tau) ** -a
        case "constant":
            return lambda tau: 1.0
        case "hinge":
            return lambda tau: 1.0 / (a * max(tau - b, 0) + 1.0)


def with_damping(
    algorithm: Algorithm, *, damping: Damping = "polynomial", a: Exponent = 0.5, b: Natural = 4, average: Average = "normalised"
) -> Algorithm:
    """Staleness-aware FedAvg: the mean of the updates in which a report that is tau versions late weighs s(tau) as much.

    w += sum n s(tau) delta / sum n s(tau), with s one of polynomial (1 + tau)^-a, constant 1, hinge (1 up to b, then
    1 / (a (tau - b) + 1)). With average = "fixed" the weights n alone divide, as FedBuff's 1/K does: stale reports then make the
    step shorter instead of counting less beside the others. Use it with a pace that lets late reports in.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> with_damping(fedavg()).fold.enter(8.0, {}, Context(3, 1.0, 0))
    Entry(weight=4.0, factor=1.0, sum='', parts=None)
    >>> with_damping(fedavg(), average="fixed").fold.enter(8.0, {}, Context(3, 1.0, 0))
    Entry(weight=8.0, factor=0.5, sum='', parts=None)
    """
    weight = staleness_weight(damping, a, b)

    def change(entry: Entry, context: Context) -> Entry:
        factor = weight(context.staleness)
        if average == "fixed":
            return entry._replace(factor=entry.factor * factor)
        return entry._replace(weight=entry.weight * factor)

    return replace(algorithm, name="stale_fedavg", fold=change_entries(algorithm, "late reports cannot be damped", change))


def with_server_step(
    algorithm: Algorithm,
    *,
    server_lr: Positive = 1.0,
    damping: Damping = "polynomial",
    a: Exponent = 0.5,
    b: Natural = 4,
    average: Average = "fixed",
) -> Algorithm:
    """FedBuff: the server adds server_lr times the mean of K updates, each damped by how late it is.

    Nguyen et al. 2022: w += server_lr / K sum s(tau) (w_k - w_start), s = (1 + tau)^-1/2, with pace.use = "buffered" and
    weigh = "one"; average = "normalised" divides by the sum of s(tau) instead of K. FLHetBench takes K = 10,
    concurrency 100 and max_staleness 5.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> half = with_server_step(fedavg(), server_lr=0.5)
    >>> float(half.apply(ServerState({"w": np.zeros(1)}), Aggregate({"w": np.ones(1)}, 1.0, 1)).params["w"][0])
    0.5
    """
    damped_algorithm = with_damping(algorithm, damping=damping, a=a, b=b, average=average)

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        def scale(tree: Tree) -> Tree:
            return {n: v * v.dtype.type(server_lr) for n, v in tree.items()}

        sums = {name: Mean(scale(m.tree), m.weight, m.count) for name, m in aggregate.sums.items()}
        return algorithm.apply(server, Aggregate(scale(aggregate.mean), aggregate.weight, aggregate.count, sums))

    return replace(damped_algorithm, name="fedbuff", apply=apply)


def with_mixing(
    algorithm: Algorithm,
    *,
    alpha: Annotated[float, Ge(1e-12), Le(1)] = 0.6,
    damping: Damping = "polynomial",
    a: Exponent = 0.5,
    b: Natural = 4,
) -> Algorithm:
    """FedAsync: each client's model is mixed into the present one, the less the later it comes.

    Xie et al. 2019: w <- (1 - alpha s) w + alpha s w_k with s = s(tau), that is w += alpha s (w_k - w); the update that came is
    w_k - w_start, so the server adds what the model has moved since. Meant for pace.use = "buffered" with k = 1; with more
    reports in a commit it adds the mean of their mixtures.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> start, now = {"w": np.zeros(1, np.float32)}, ServerState({"w": np.full(1, 3, np.float32)})
    >>> came = Report(0, 0, {"w": np.ones(1, np.float32)}, 1.0, {})  # this client's model is 1 then, and the server's 3
    >>> with_mixing(fedavg()).accept(now, came, Context(1, 1.0, 0, start=start)).update["w"].tolist()
    [-2.0]
    """
    steps = with_server_step(algorithm, server_lr=alpha, damping=damping, a=a, b=b)

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        decoded = report if algorithm.accept is None else algorithm.accept(server, report, context)
        like = algorithm.fold.like(server)  # or a leaf that is too small would be stretched; what is missing the fold itself sees
        problem = mismatch(decoded.update, {n: v for n, v in like.items() if n in decoded.update})
        if problem is not None:
            raise Refused(problem)
        start = server.params if context.start is None else context.start
        now, update = server.params, decoded.update
        moved = {n: v + (start[n] - now[n]) if n in now and np.issubdtype(v.dtype, np.floating) else v for n, v in update.items()}
        return replace(decoded, update=moved)

    def accept_stack(
        server: ServerState, stack: Mapping[str, Any], contexts: Sequence[Context]
    ) -> tuple[dict[str, Any], Parts | None]:
        update, parts = dict(stack), None
        if inner is not None:
            update, parts = inner(server, update, contexts)
        _require_shapes(algorithm.fold.like(server), update)
        starts = [server.params if context.start is None else context.start for context in contexts]
        return _add_moves(update, server.params, starts), parts

    # Where what is wrapped decodes reports one by one, so does this.
    inner = algorithm.accept.stack if isinstance(algorithm.accept, Decoder) else None
    in_stacks = algorithm.accept is None or inner is not None
    return replace(steps, name="fedasync", accept=Decoder(accept, accept_stack) if in_stacks else accept)


def _require_shapes(like: Tree, update: Mapping[str, Any]) -> None:
    """Refuse a stack with a leaf of another shape, which would be stretched; what is missing the fold itself sees."""
    for name, leaf in update.items():
        if name in like and tuple(leaf.shape[1:]) != like[name].shape:
            raise Refused(f"leaf {name!r} has shape {tuple(leaf.shape[1:])}, not {like[name].shape}")


def _add_moves(update: dict[str, Any], now: Tree, starts: list[Tree]) -> dict[str, Any]:
    """Each client's update with what the model has moved since the one that it began with; every such model is uploaded once."""
    import torch

    versions = list({id(start): start for start in starts}.values())
    if all(start is now for start in versions):
        return update
    places = {id(start): i for i, start in enumerate(versions)}
    which = torch.tensor([places[id(start)] for start in starts])
    moved = dict(update)
    for name, leaf in update.items():
        if name in now and leaf.is_floating_point():
            moves = torch.from_numpy(np.stack([start[name] - now[name] for start in versions])).to(leaf.device)
            moved[name] = leaf + (moves if len(versions) == 1 else moves[which.to(leaf.device)])
    return moved


def change_entries(algorithm: Algorithm, reason: str, change: Callable[[Entry, Context], Entry]) -> Fold:
    """The algorithm's fold in which every report enters otherwise; `reason` says what a fold that collects prevents."""
    inner = algorithm.fold
    if not inner.streams:
        raise BadInput(f"{algorithm.name} has a fold that collects whole reports, so {reason}; use one that adds them up")

    def enter(weight: float, stats: Mapping[str, float], context: Context) -> Entry:
        return change(inner.enter(weight, stats, context), context)

    return replace(inner, enter=enter, ages=True)
