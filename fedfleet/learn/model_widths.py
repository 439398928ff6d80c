"""Unlike models: clients train a slice of the model, as wide as their device can hold.

A client of width r is offered the first ceil(r n) units of every hidden layer. Its samples cost the share of the whole model's
multiply-adds that the slice has. Layers are sliced as they are: HeteroFL's scaler (1/r behind every layer) and its masked loss
are left out, and normalisation must not keep running statistics, which slices of different widths do not share (HeteroFL's static
batch norm drops them too).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Share
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints, ServerState
from fedfleet.core.rng import hash_keys
from fedfleet.core.trees import Tree
from fedfleet.learn.submodels import Cut, Cuts, cut_of, cut_off, with_slices

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
    return replace(result, name="heterofl", init=_initial_state(algorithm, lambda: cuts()[levels().min()]))


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
        state = _initial_state(algorithm, lambda: cuts()[widest().min()])(params)
        return ServerState(state.params, {**state.extra, _DRAW_COUNT: np.zeros(1, np.int64)})

    def tick(server: ServerState) -> ServerState:
        before = server if algorithm.tick is None else algorithm.tick(server)
        return ServerState(before.params, {**before.extra, _DRAW_COUNT: server.extra[_DRAW_COUNT] + 1})

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        after = algorithm.apply(server, aggregate)
        return ServerState(after.params, {**after.extra, _DRAW_COUNT: tick(server).extra[_DRAW_COUNT]})

    result = with_slices(replace(algorithm, init=init, apply=apply, tick=tick), cuts, level_of, changes=True)
    return replace(result, name="fjord")


def _initial_state(algorithm: Algorithm, widest: Callable[[], Cut]) -> Callable[[Tree], ServerState]:
    """The beginning of a run in which nobody has a wider slice than this one."""
    return lambda params: algorithm.init(cut_off(params, widest()))


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
                "algorithm: how the model is sliced follows from its task, which is known in a run; give fleet=FleetFacts(model=..)"
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
