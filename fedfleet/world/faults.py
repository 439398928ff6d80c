"""What goes wrong: tasks that are lost, late, delivered twice or slow; clients that go down and come back; several kinds together.

Faults of tasks are addressed by client and task, so that neither the clock nor who else is asked decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Annotated

import numpy as np

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, Positive
from fedfleet.core.old_names import old_symbols
from fedfleet.core.records import Bools, Floats, Ints, Keys
from fedfleet.core.rng import address, hash_keys, uniforms
from fedfleet.core.sources import FaultDraws, FaultSource, StateSource
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
            'world.faults: the list is empty; leave faults out, or name one, for example { use = "lossy", upload = 0.1 }'
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


# ---- clients that go down -----------------------------------------------------------------------------------------
# Each on its own, or all of a group together; and whom one can reach meanwhile. Time is cut into windows of one `period`. Whether a
# client or a group goes down in a window, and when, is addressed by the number of the window: no bit of a time decides.

_WINDOWS_PER_PASS = 64  # windows that are looked through at once
_MAX_WINDOWS = 1 << 16  # a task that lasts for more windows than this goes down no more: nobody waits for it either


def crashes(*, rate: Fraction = 0.02, seconds: Positive = 600.0, period: Positive = 3600.0) -> FaultRecipe:
    """Clients go down, each on its own, and return `seconds` later: in any `period` with the chance `rate`.

    Who goes down loses its task without a word and cannot be asked until it is back.
    """
    _check("crashes", seconds, period)
    return lambda keys, seed: _source(_Windows("crash", seed, rate, seconds, period), keys, None)


def outages(*, rate: Fraction = 0.05, seconds: Positive = 1800.0, period: Positive = 21600.0, groups: Count = 10) -> FaultRecipe:
    """All clients of a group go down together, and return `seconds` later: in any `period` with the chance `rate`.

    Clients are dealt to `groups` by their keys: a network, a region, a carrier. Tasks that run there are lost without a word.
    """
    _check("outages", seconds, period)

    def recipe(keys: Keys, seed: int) -> FaultSource:
        group = (hash_keys(seed, "outage/group", keys) % np.uint64(groups)).astype(np.int64)
        return _source(_Windows("outage", seed, rate, seconds, period), np.arange(groups, dtype=np.uint64), group)

    return recipe


def _check(name: str, seconds: float, period: float) -> None:
    if seconds > period:
        raise BadInput(f"{name}: seconds = {seconds:g} does not fit into period = {period:g}; raise period or lower seconds")


@dataclass(frozen=True, slots=True)
class _Windows:
    """When units (clients, groups) are down: in a window at most once, and never across its end."""

    label: str
    seed: int
    rate: float
    seconds: float
    period: float

    def begins(self, units: Keys, window: Ints | int) -> Floats:
        """When each unit goes down in a window; infinite: not at all."""
        hit = uniforms(self.seed, self.label, units, window) < self.rate
        place = uniforms(self.seed, f"{self.label}/when", units, window)
        return np.where(hit, window * self.period + place * (self.period - self.seconds), np.inf)

    def first(self, units: Keys, start: float, ends: Floats) -> Floats:
        """The first moment from `start` on, and before its end, at which each unit is down; infinite if there is none."""
        result, window = np.full(len(units), np.inf), math.floor(start / self.period)
        farthest = window + _MAX_WINDOWS
        while self.rate > 0 and window < farthest:
            open_ = np.flatnonzero((result == np.inf) & (ends > max(start, window * self.period)))
            if not len(open_):
                break
            last = float(ends[open_].max()) / self.period
            many = int(min(_WINDOWS_PER_PASS, farthest - window, max(1.0, last - window + 1.0)))
            numbers = np.tile(np.arange(window, window + many), len(open_))
            down = self.begins(np.repeat(units[open_], many), numbers).reshape(len(open_), many)
            moments = np.where(down + self.seconds > start, np.maximum(down, start), np.inf).min(axis=1)
            result[open_] = np.where(moments < ends[open_], moments, np.inf)
            window += many
        return result


def _source(windows: _Windows, units: Keys, unit_of: Ints | None) -> FaultSource:
    """The faults of clients that belong to units; without `unit_of`, client i is unit i."""
    known: tuple[int, Floats] = (-1, np.zeros(0))  # the newest window, since the same one is asked about again and again

    def begins(time: float) -> Floats:
        nonlocal known
        window = math.floor(time / windows.period)
        if window != known[0]:
            known = (window, windows.begins(units, window))
        return known[1]

    def down(time: float) -> Bools:
        began = begins(time)
        return (began <= time) & (time < began + windows.seconds)

    def away(time: float) -> Bools:
        return down(time) if unit_of is None else down(time)[unit_of]

    def back(time: float) -> float:
        return float((begins(time)[down(time)] + windows.seconds).min(initial=math.inf))

    def draw(clients: Ints, start: float, ends: Floats, _tasks: Ints) -> FaultDraws:
        own_units = units[clients if unit_of is None else unit_of[clients]]
        return no_faults(len(clients), crash=windows.first(own_units, start, ends))

    return FaultSource(no_slowdown, draw, away, back, silences=windows.rate > 0)


def reachable_states(states: StateSource, faults: FaultSource | None) -> StateSource:
    """The states in which clients that are down cannot be reached. What work of theirs is lost the faults say themselves."""
    if faults is None or faults.away is None:
        return states
    away, back = faults.away, faults.back

    def online(time: float) -> Bools:
        return states.online(time) & ~away(time)

    inner = states.earliest

    def earliest(among: Bools, n: int, start: float, until: float) -> float:
        assert inner is not None and back is not None
        time = inner(among, n, start, until)  # with everyone up it would not be before
        while time < until:
            # Until somebody returns there are no more than those who are up now, and some of these may go down.
            moment, returns = inner(among & ~away(time), n, time, until), back(time)
            if moment < returns and np.count_nonzero(online(moment) & among) >= n:
                return moment
            time = min(moment, returns)
        return math.inf

    known = None if inner is None or back is None else earliest
    return StateSource(online, states.finish, known, states.worked, warnings=states.warnings)


# The names that sources of faults outside this package were written with.
if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, at_full_speed="no_slowdown", unharmed="no_faults")
