"""What goes wrong with single tasks: lost on the way, late, delivered twice, slow; and several kinds of fault together.

All of it is addressed by client and task, so that neither the clock nor who else is asked decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Annotated

import numpy as np
from annotated_types import Ge, Le

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Fraction, Positive
from fedfleet.core.old_names import old_symbols
from fedfleet.core.records import Bools, Floats, Ints, Keys
from fedfleet.core.rng import address, uniforms
from fedfleet.core.sources import FaultDraws, FaultSource
from fedfleet.core.stages import COMPUTE, DOWNLOAD, STAGES, UPLOAD

FaultRecipe = Callable[[Keys, int], FaultSource]


def lossy(*, download: Fraction = 0.02, compute: Fraction = 0.05, upload: Fraction = 0.02, noticed: bool = False) -> FaultRecipe:
    """Tasks are lost on the way: each with these chances while it downloads, computes or uploads.

    Where in the stage is drawn evenly; bytes and seconds up to there were spent. The first stage that strikes counts. `noticed`:
    the server hears of it at that moment, as of a connection that breaks; else it goes on waiting.
    """
    chances = ((DOWNLOAD, download), (COMPUTE, compute), (UPLOAD, upload))

    def recipe(keys: Keys, seed: int) -> FaultSource:
        def draw(clients: Ints, _start: float, _ends: Floats, tasks: Ints) -> FaultDraws:
            own_keys, stage = keys[clients], np.full(len(clients), -1, np.int64)
            for place, chance in reversed(chances):
                stage[uniforms(seed, f"lost/{STAGES[place]}", own_keys, tasks) < chance] = place
            return no_faults(
                len(clients), stage=stage, part=uniforms(seed, "lost/part", own_keys, tasks), noticed=np.full(len(clients), noticed)
            )

        return FaultSource(no_slowdown, draw, silences=not noticed and any(chance > 0 for _, chance in chances))

    return recipe


def delayed(*, share: Fraction = 0.1, seconds: Positive = 60.0) -> FaultRecipe:
    """A share of the reports arrives late: `seconds` after the last byte was sent on average, evenly between 0 and twice that."""
    return _waits("late", 0.0, share, seconds)


def repeated(*, share: Fraction = 0.1, seconds: Positive = 60.0) -> FaultRecipe:
    """A share of the reports arrives twice: once more `seconds` later on average, evenly between 0 and twice that.

    The second is counted and thrown away; its bytes are waste.
    """
    return _waits("again", np.inf, share, seconds)


def _waits(column: str, unharmed: float, share: float, seconds: float) -> FaultRecipe:
    def recipe(keys: Keys, seed: int) -> FaultSource:
        def draw(clients: Ints, _start: float, _ends: Floats, tasks: Ints) -> FaultDraws:
            hit = uniforms(seed, column, keys[clients], tasks) < share
            wait = 2.0 * seconds * uniforms(seed, f"{column}/by", keys[clients], tasks)
            return no_faults(len(clients), **{column: np.where(hit, wait, unharmed)})

        return FaultSource(no_slowdown, draw)

    return recipe


def slowed(*, share: Fraction = 0.1, factor: Annotated[float, Ge(1), Le(1e6)] = 3.0) -> FaultRecipe:
    """A share of the tasks takes `factor` times as long, in everything that they do: another program has the device."""

    def recipe(keys: Keys, seed: int) -> FaultSource:
        def slower(clients: Ints, _start: float, tasks: Ints) -> Floats:
            return np.where(uniforms(seed, "slowed", keys[clients], tasks) < share, factor, 1.0)

        return FaultSource(slower, lambda clients, start, ends, tasks: no_faults(len(clients)))

    return recipe


def all_of(faults: list[FaultRecipe]) -> FaultRecipe:
    """Several kinds of fault together, each with its own randomness: the earliest loss counts, delays and slow-downs add up.

    In a spec a list does the same: `world.faults = ["lossy", { use = "crashes", rate = 0.1 }]`.
    """
    if not faults:
        raise BadInput(
            'world.faults: the list names no fault; leave it out, or name one, for example { use = "lossy", upload = 0.1 }'
        )

    def recipe(keys: Keys, seed: int) -> FaultSource:
        # The first has the seed of the run, so that a list of one is that one; the same kind twice must not strike as one.
        seeds = [seed, *(int.from_bytes(address(seed, "fault", i)[:7], "little") for i in range(1, len(faults)))]
        return combine_faults([fault(keys, own) for fault, own in zip(faults, seeds, strict=True)])

    return recipe


def combine_faults(sources: list[FaultSource]) -> FaultSource:
    """One source that does what all of these do."""

    def slower(clients: Ints, start: float, tasks: Ints) -> Floats:
        return np.prod([source.slowdown(clients, start, tasks) for source in sources], axis=0)

    def befall(clients: Ints, start: float, ends: Floats, tasks: Ints) -> FaultDraws:
        return reduce(_combine_draws, [source.draw(clients, start, ends, tasks) for source in sources])

    away_functions = [source.away for source in sources if source.away is not None]
    return_functions = [source.back for source in sources if source.back is not None]

    def away(time: float) -> Bools:
        return np.logical_or.reduce([gone(time) for gone in away_functions])

    def back(time: float) -> float:
        return min(returns(time) for returns in return_functions)

    silent = any(source.silences for source in sources)
    return FaultSource(slower, befall, away if away_functions else None, back if return_functions else None, silent)


def _combine_draws(a: FaultDraws, b: FaultDraws) -> FaultDraws:
    """What happens to tasks to which both happen."""
    earlier = (b.stage >= 0) & ((a.stage < 0) | (b.stage < a.stage) | ((b.stage == a.stage) & (b.part < a.part)))
    return FaultDraws(
        np.where(earlier, b.stage, a.stage), np.where(earlier, b.part, a.part), np.minimum(a.crash, b.crash),
        np.where(earlier, b.noticed, a.noticed), a.late + b.late, np.minimum(a.again, b.again),
    )  # fmt: skip


def no_faults(n: int, **columns: Ints | Floats | Bools) -> FaultDraws:
    """Nothing happens to n tasks, but for the columns of `FaultDraws` that are named."""
    never, nothing = np.full(n, np.inf), np.zeros(n)
    return replace(FaultDraws(np.full(n, -1, np.int64), nothing, never, np.zeros(n, np.bool_), nothing, never), **columns)


def no_slowdown(clients: Ints, _start: float, _tasks: Ints) -> Floats:
    """No client is slowed down."""
    return np.ones(len(clients))


# The names that sources of faults outside this package were written with.
if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, at_full_speed="no_slowdown", unharmed="no_faults")
