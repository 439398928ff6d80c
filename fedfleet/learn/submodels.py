"""Slices of a model: where they lie in it, how clients are offered, train and send one, and how it is put back.

The offer is really smaller, so that bytes and work are; what comes back is put where it was cut out, and weighs only where it has
elements: each element of the model moves by the mean over those who trained it, and what nobody trained stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.core.part_facts import ModelShape
from fedfleet.core.parts import Algorithm, Job, Offer
from fedfleet.core.passes import Before, LocalPass
from fedfleet.core.records import Assignments, Context, Cost, Ints, Report, ServerState, Settings
from fedfleet.core.task_cost import cost_of
from fedfleet.core.trees import Array, Tree
from fedfleet.learn.composition import with_pass

Cuts = Callable[[], tuple["Cut", ...]]  # by width, the widest first, and the whole model behind them
# Which place in the list of widths each of these clients has now: (server, clients) -> places.
LevelOf = Callable[[ServerState, Ints], Ints]


@dataclass(frozen=True, slots=True)
class Cut:
    """One width of a model: where its leaves lie in the whole ones, which elements those are, and what it takes."""

    width: float
    shapes: Mapping[str, tuple[int, ...]]
    index: Mapping[str, Any]
    parts: Mapping[str, Array]  # of leaves that are narrower than the whole: 1 where it has an element, 0 elsewhere
    size: float  # elements
    work: float  # multiply-adds of one sample
    activations: float


def cut_of(shape: ModelShape, whole: ModelShape, width: float) -> Cut:
    """What a width of a model comes to, beside the whole model."""
    full = {n: tuple(len(at) for at in axes) for n, axes in whole.places.items()}
    shapes = {n: tuple(len(at) for at in axes) for n, axes in shape.places.items()}
    index: dict[str, Any] = {}
    parts: dict[str, Array] = {}
    for name, axes in shape.places.items():
        leading = all(np.array_equal(at, np.arange(len(at))) for at in axes)
        index[name] = tuple(slice(0, len(at)) for at in axes) if leading else np.ix_(*axes)
        if shapes[name] != full[name]:
            parts[name] = np.zeros(full[name], np.bool_)
            parts[name][index[name]] = True
    size = float(sum(math.prod(s) for s in shapes.values()))
    return Cut(width, shapes, index, parts, size, sum(shape.work.values()), shape.activations)


def with_slices(algorithm: Algorithm, cuts: Cuts, level_of: LevelOf, *, changes: bool = False) -> Algorithm:
    """The algorithm whose clients are offered, train and send a slice; `changes`: a client's width is another each time."""
    offers: list[tuple[Offer, dict[int, Offer]]] = []  # of the newest model: a cohort shares one start for each width

    def offer(server: ServerState, client: int, settings: Settings) -> Offer:
        whole = algorithm.offer(server, client, settings)
        if not offers or offers[0][0] is not whole:
            offers[:] = [(whole, {})]
        level = int(level_of(server, np.array([client]))[0])
        by_level = offers[0][1]
        if level not in by_level:
            by_level[level] = replace(whole, params=_slice_params(whole.params, cuts()[level]))
        return by_level[level]

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        cut = _matching_cut(cuts(), report.update)
        if cut is None:
            raise Refused("its leaves have the shapes of no width of the model")
        update = {n: _put_back(v, server.params[n].shape, cut.index[n]) for n, v in report.update.items()}
        decoded = replace(report, update=update, parts={n: p for n, p in cut.parts.items() if n in update} or None)
        return decoded if algorithm.accept is None else algorithm.accept(server, decoded, context)

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        whole, all_cuts = cost_of(algorithm, server, assignments, samples), cuts()
        level = level_of(server, assignments.clients)
        size = np.array([c.size for c in all_cuts])[level] / all_cuts[-1].size
        work = np.array([c.work for c in all_cuts])[level] / all_cuts[-1].work
        down, up = np.rint(whole.bytes_down * size), np.rint(whole.bytes_up * size)
        return replace(whole, samples=whole.samples * work, bytes_down=down, bytes_up=up)

    narrow = _narrow_hook(cuts, changes)
    passes = with_pass(
        algorithm, "nobody can train a slice with it", lambda inner: replace(inner, before=(*inner.before, narrow))
    )
    return replace(passes, offer=offer, accept=accept, fold=replace(algorithm.fold, partial=True), cost=cost)


def cut_off(params: Tree, widest: Cut) -> Tree:
    """The first model, in which units outside the widest slice that anybody has do not reach into it.

    Nobody would ever train them, and the model is judged whole: so it does what that slice does. Where someone trains them after
    all (an override with wider slices), they learn as units do whose outgoing weights begin at zero.
    """
    result = dict(params)
    for name, inside in widest.parts.items():
        if inside.ndim > 1:
            reachable = (
                inside.reshape(len(inside), -1).any(1).reshape(-1, *(1,) * (inside.ndim - 1))
            )  # weights into the slice
            result[name] = np.where(reachable & ~inside, np.zeros((), params[name].dtype), params[name])
    return result


def _narrow_hook(cuts: Cuts, changes: bool) -> Before:
    """What a client does first: see from what it was offered how wide a model it trains."""

    def narrow(job: Job) -> Job:
        local, cut = job.local, _matching_cut(cuts(), job.offer.params)
        assert isinstance(local, LocalPass)
        if cut is None:
            raise RunFailed(f"client {job.client}, task {job.task}: its offer has the shapes of no width of the model")
        if cut.width < 1.0 and (local.keep is not None or (changes and local.remembers())):
            raise BadInput(
                "algorithm: clients with slices of the model cannot keep leaves or models of their own at home, since those have "
                "not the shapes of the server's; leave out what is kept, or take widths = [1.0]"
            )
        return replace(job, local=replace(local, width=cut.width))

    return narrow


def _matching_cut(cuts: tuple[Cut, ...], tree: Tree) -> Cut | None:
    """The width whose leaves have these shapes; of several with the same shapes the whole model, else the widest."""
    fits = (c for c in (cuts[-1], *cuts[:-1]) if all(c.shapes.get(n) == v.shape for n, v in tree.items()))
    return next(fits, None)


def _slice_params(params: Tree, cut: Cut) -> Tree:
    """The slice of a model; a leaf that it holds whole is the model's own."""
    return {n: np.ascontiguousarray(v[cut.index[n]]) if n in cut.parts else v for n, v in params.items()}


def _put_back(leaf: Array, shape: tuple[int, ...], index: Any) -> Array:
    result = np.zeros(shape, leaf.dtype)
    result[index] = leaf
    return result
