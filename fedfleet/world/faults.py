"""What goes wrong with single tasks: lost on the way, late, delivered twice, slow; and several kinds of fault together.

All of it is addressed by client and task, so that neither the clock nor who else is asked decides.
"""

from __future__ import annotations

from collections.abc import Callable
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

        silent = not noticed and any(chance > 0 for _, chance in chances)
        return FaultSource(no_slowdown, draw, silences=silent)

    return recipe


def delayed(*, share: Fraction = 0.1, seconds: Positive = 60.0) -> FaultRecipe:
    """A share of the reports arrives late: `seconds` after the last byte was sent on average, evenly between 0 and twice that."""

    def recipe(keys: Keys, seed: int) -> FaultSource:
        def draw(clients: Ints, _start: float, _ends: Floats, tasks: Ints) -> FaultDraws:
            hit, wait = _draw_hits(seed, "late", keys[clients], tasks, share, seconds)
            return no_faults(len(clients), late=np.where(hit, wait, 0.0))

        return FaultSource(no_slowdown, draw)

    return recipe


def repeated(*, share: Fraction = 0.1, seconds: Positive = 60.0) -> FaultRecipe:
    """A share of the reports arrives twice: once more `seconds` later on average, evenly between 0 and twice that.

    The second is counted and thrown away; its bytes are waste.
    """

    def recipe(keys: Keys, seed: int) -> FaultSource:
        def draw(clients: Ints, _start: float, _ends: Floats, tasks: Ints) -> FaultDraws:
            hit, wait = _draw_hits(seed, "again", keys[clients], tasks, share, seconds)
            return no_faults(len(clients), again=np.where(hit, wait, np.inf))

        return FaultSource(no_slowdown, draw)

    return recipe


def slowed(*, share: Fraction = 0.1, factor: Annotated[float, Ge(1), Le(1e6)] = 3.0) -> FaultRecipe:
    """A share of the tasks takes `factor` times as long, in everything that they do: another program has the device."""

    def recipe(keys: Keys, seed: int) -> FaultSource:
        def slower(clients: Ints, _start: float, tasks: Ints) -> Floats:
            return np.where(uniforms(seed, "slowed", keys[clients], tasks) < share, factor, 1.0)

        return FaultSource(slower, _draw_nothing)

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
        draws = [source.draw(clients, start, ends, tasks) for source in sources]
        whole = draws[0]
        for other in draws[1:]:
            whole = _combine_draws(whole, other)
        return whole

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


def no_faults(
    n: int,
    *,
    stage: Ints | None = None,
    part: Floats | None = None,
    crash: Floats | None = None,
    noticed: Bools | None = None,
    late: Floats | None = None,
    again: Floats | None = None,
) -> FaultDraws:
    """Nothing happens to n tasks, but for what is named."""
    return FaultDraws(
        np.full(n, -1, np.int64) if stage is None else stage,
        np.zeros(n) if part is None else part,
        np.full(n, np.inf) if crash is None else crash,
        np.zeros(n, np.bool_) if noticed is None else noticed,
        np.zeros(n) if late is None else late,
        np.full(n, np.inf) if again is None else again,
    )


def no_slowdown(clients: Ints, _start: float, _tasks: Ints) -> Floats:
    """No client is slowed down."""
    return np.ones(len(clients))


# The names that sources of faults outside this package were written with.


def _draw_nothing(clients: Ints, _start: float, _ends: Floats, _tasks: Ints) -> FaultDraws:
    return no_faults(len(clients))


def _draw_hits(seed: int, label: str, keys: Keys, tasks: Ints, share: float, seconds: float) -> tuple[Bools, Floats]:
    """Whom it hits, and how many seconds it takes."""
    return uniforms(seed, label, keys, tasks) < share, 2.0 * seconds * uniforms(seed, f"{label}/by", keys, tasks)


if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, at_full_speed="no_slowdown", unharmed="no_faults")
