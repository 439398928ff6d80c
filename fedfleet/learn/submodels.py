"""Sub-models: clients that train a slice of the model, and how wide each client's slice is (HeteroFL, FjORD).

The offer is really smaller, so that bytes and work are; what comes back is put where it was cut out, and weighs only where it has
elements: each element of the model moves by the mean over those who trained it, and what nobody trained stays.

A client of width r is offered the first ceil(r n) units of every hidden layer. Its samples cost the share of the whole model's
multiply-adds that the slice has. Layers are sliced as they are: HeteroFL's scaler (1/r behind every layer) and its masked loss
are left out, and normalisation must not keep running statistics, which slices of different widths do not share (HeteroFL's static
batch norm drops them too).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.core.limits import Share
from fedfleet.core.part_facts import FleetFacts, ModelShape
from fedfleet.core.parts import Algorithm, Job, Offer
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Assignments, Context, Cost, Ints, Report, ServerState, Settings
from fedfleet.core.rng import hash_keys
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
            cut = cuts()[level]  # a leaf that it holds whole is the model's own
            sliced = {n: np.ascontiguousarray(v[cut.index[n]]) if n in cut.parts else v for n, v in whole.params.items()}
            by_level[level] = replace(whole, params=sliced)
        return by_level[level]

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        cut = _matching_cut(cuts(), report.update)
        if cut is None:
            raise Refused("its leaves have the shapes of no width of the model")
        update = {n: np.zeros(server.params[n].shape, v.dtype) for n, v in report.update.items()}
        for n, v in report.update.items():
            update[n][cut.index[n]] = v
        decoded = replace(report, update=update, parts={n: p for n, p in cut.parts.items() if n in update} or None)
        return decoded if algorithm.accept is None else algorithm.accept(server, decoded, context)

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        whole, all_cuts = cost_of(algorithm, server, assignments, samples), cuts()
        level = level_of(server, assignments.clients)
        size = np.array([c.size for c in all_cuts])[level] / all_cuts[-1].size
        work = np.array([c.work for c in all_cuts])[level] / all_cuts[-1].work
        down, up = np.rint(whole.bytes_down * size), np.rint(whole.bytes_up * size)
        return replace(whole, samples=whole.samples * work, bytes_down=down, bytes_up=up)

    def narrow(job: Job) -> Job:
        """What a client does first: see from what it was offered how wide a model it trains."""
        local, cut = job.local, _matching_cut(cuts(), job.offer.params)
        assert isinstance(local, LocalPass)
        if cut is None:
            raise RunFailed(
                f"client {job.client}, task {job.task}: the shapes of the received model do not match any of the widths"
            )
        if cut.width < 1.0 and (local.keep is not None or (changes and local.remembers())):
            raise BadInput(
                "algorithm: clients with slices of the model cannot keep leaves or models of their own, because those do not have "
                "the shapes of the server's; leave out what is kept, or set widths = [1.0]"
            )
        return replace(job, local=replace(local, width=cut.width))

    passes = with_pass(algorithm, "no client can train a slice with it", lambda p: replace(p, before=(*p.before, narrow)))
    return replace(passes, offer=offer, accept=accept, fold=replace(algorithm.fold, partial=True), cost=cost)


def cut_off(params: Tree, widest: Cut) -> Tree:
    """The first model, in which units outside the widest slice that anybody has do not reach into it.

    Nobody would ever train them, and the model is evaluated whole: so it does what that slice does. Where someone trains them after
    all (an override with wider slices), they learn as units do whose outgoing weights begin at zero.
    """
    result = dict(params)
    for name, inside in widest.parts.items():
        if inside.ndim > 1:
            reachable = inside.reshape(len(inside), -1).any(1).reshape(-1, *(1,) * (inside.ndim - 1))  # weights into the slice
            result[name] = np.where(reachable & ~inside, np.zeros((), params[name].dtype), params[name])
    return result


def _matching_cut(cuts: tuple[Cut, ...], tree: Tree) -> Cut | None:
    """The width whose leaves have these shapes; of several with the same shapes the whole model, else the widest."""
    fits = (c for c in (cuts[-1], *cuts[:-1]) if all(c.shapes.get(n) == v.shape for n, v in tree.items()))
    return next(fits, None)


MODEL_COPIES = 4.0  # in a device's memory: weights, gradients, what was offered, and one of the optimiser's
_MEGABYTE = 2.0**20
_DRAW_COUNT = "widths/drawn"  # how many models were made: the address of the widths that are drawn next
_MAX_WIDTHS = 16  # widths: each has stacks and, on a server, a mask of its own


def heterofl_widths(
    algorithm: Algorithm,
    *,
    widths: list[Share] = [1.0, 0.5, 0.25],  # noqa: B006
    assign: Literal["evenly", "memory"] = "evenly",
    fleet: FleetFacts = FleetFacts(),  # noqa: B008
) -> Algorithm:
    """HeteroFL: every client trains a slice of the model of its own width; each element is averaged over those who have it.

    Diao et al. 2021: w[i] += sum_k p_k d_k[i] / sum_k p_k over the clients k whose slice holds element i. `assign` deals the widths
    evenly, as there, or gives each device the widest that its memory holds; in both cases nobody gets a wider slice than its
    memory holds (4 copies of the slice and the activations of one batch), where that is known. Without the paper's scaler.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> heterofl_widths(fedavg(), widths=[1.0, 0.5]).name
    'heterofl'
    """
    cuts = _cuts(widths, fleet)

    @cache
    def levels() -> Ints:
        widest = _widest_levels(cuts(), fleet, _batch(algorithm))
        if assign == "memory":
            return widest
        hashes = hash_keys(fleet.seed, "widths", fleet.keys)
        assigned = np.empty(len(hashes), np.int64)
        assigned[np.argsort(hashes, kind="stable")] = np.arange(len(hashes)) % len(widths)
        return np.maximum(assigned, widest)

    result = with_slices(algorithm, cuts, lambda server, clients: levels()[clients])
    return replace(result, name="heterofl", init=lambda params: algorithm.init(cut_off(params, cuts()[levels().min()])))


def ordered_dropout(
    algorithm: Algorithm,
    *,
    widths: list[Share] = [1.0, 0.75, 0.5, 0.25],  # noqa: B006
    fleet: FleetFacts = FleetFacts(),  # noqa: B008
) -> Algorithm:
    """FjORD: every task trains a slice of a width that is drawn anew, up to the widest that the client's device can hold.

    Horvath et al. 2021, ordered dropout: r ~ uniform over the widths up to the device's own; the fold is HeteroFL's. The paper
    draws for every step and may distil the wide slice into the narrow one; here each task has one width, so that the rest need
    not travel, and nothing is distilled. Who has how much memory is told by the devices; unknown is enough for all widths.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> ordered_dropout(fedavg()).name
    'fjord'
    """
    cuts = _cuts(widths, fleet)
    widest = cache(lambda: _widest_levels(cuts(), fleet, _batch(algorithm)))

    def level_of(server: ServerState, clients: Ints) -> Ints:
        first_level = widest()[clients]
        hashes = hash_keys(fleet.seed, "fjord", fleet.keys[clients], int(server.extra[_DRAW_COUNT][0]))
        return first_level + (hashes % (len(widths) - first_level).astype(np.uint64)).astype(np.int64)

    def init(params: Tree) -> ServerState:
        state = algorithm.init(cut_off(params, cuts()[widest().min()]))
        return ServerState(state.params, {**state.extra, _DRAW_COUNT: np.zeros(1, np.int64)})

    def tick(server: ServerState) -> ServerState:
        before = server if algorithm.tick is None else algorithm.tick(server)
        return ServerState(before.params, {**before.extra, _DRAW_COUNT: server.extra[_DRAW_COUNT] + 1})

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        after = algorithm.apply(server, aggregate)
        return ServerState(after.params, {**after.extra, _DRAW_COUNT: tick(server).extra[_DRAW_COUNT]})

    result = with_slices(replace(algorithm, init=init, apply=apply, tick=tick), cuts, level_of, changes=True)
    return replace(result, name="fjord")


def _cuts(widths: list[float], fleet: FleetFacts) -> Cuts:
    """The widths as a person lists them, widest first, and the whole model behind them all; made when they are first needed."""
    if not 1 <= len(widths) <= _MAX_WIDTHS or sorted(set(widths), reverse=True) != list(widths):
        raise BadInput(
            f"algorithm.widths: {widths} must be 1 to {_MAX_WIDTHS} different shares of the width, the widest "
            f"first, such as [1.0, 0.5]"
        )

    @cache
    def all_cuts() -> tuple[Cut, ...]:
        if fleet.model is None:
            raise BadInput(
                "algorithm: slicing the model needs its task, which only a run knows; "
                "outside a run, give fleet=FleetFacts(model=..)"
            )
        whole = fleet.model(1.0)
        return tuple(cut_of(fleet.model(w), whole, w) for w in (*widths, 1.0))

    if fleet.model is not None:
        all_cuts()  # so that a model that cannot be sliced is refused before anything is written
    return all_cuts


def _widest_levels(cuts: tuple[Cut, ...], fleet: FleetFacts, batch: int) -> Ints:
    """For each client the place of the widest slice that its memory holds, or of the narrowest if it holds none."""
    n, levels = len(fleet.keys), len(cuts) - 1
    if fleet.memory_mb is None:
        return np.zeros(n, np.int64)
    need = np.array([4.0 * (MODEL_COPIES * c.size + batch * c.activations) for c in cuts[:-1]]) * fleet.byte_scale
    memory = fleet.memory_mb(np.arange(n)) * _MEGABYTE
    too_small = need[None, :] > memory[:, None]  # unknown memory is enough
    return np.minimum(too_small.sum(1), levels - 1)


def _batch(algorithm: Algorithm) -> int:
    local = algorithm.local(0, NO_SETTINGS)
    return local.batches.size if isinstance(local, LocalPass) else 1
