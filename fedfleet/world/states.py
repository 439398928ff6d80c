"""State sources: when each client can be reached, and when its work is done if it comes and goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import numpy as np

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateScorer, StateTable, take_states
from fedfleet.core.intervals import Traces, finish_after, ready_seconds, ready_until, traces
from fedfleet.core.limits import SMALLEST, Count, Natural, NonNegative, Positive, Sessions, Share
from fedfleet.core.memory_limit import check_memory
from fedfleet.core.quorum import first_time_ready
from fedfleet.core.records import Bools, Floats, Keys
from fedfleet.core.rng import uniforms
from fedfleet.core.sources import StateSource
from fedfleet.world.bases import load_states
from fedfleet.world.samplers.dpcsm import sample_dpcsm, warnings

StateRecipe = Callable[[Keys, int], StateSource]
_SESSION_BYTES = 80  # ten columns while they are made and checked
_PIECE = 1 << 16  # traces looked up at once
_SHORT, _PART = 100.0, 2.0**-10  # seconds
_BITS = 24  # of the length of a session shorter than a second


def always_on() -> StateRecipe:
    """Everyone can be reached at any time."""

    def recipe(keys: Keys, _seed: int) -> StateSource:
        everyone = np.ones(len(keys), np.bool_)

        def earliest(among: Bools, n: int, start: float, until: float) -> float:
            return start if start < until and np.count_nonzero(among) >= n else math.inf

        return StateSource(
            lambda t: everyone, lambda clients, start, seconds: start + seconds, earliest,
            lambda clients, start, until: np.maximum(until - start, 0.0), always=True,
        )  # fmt: skip

    return recipe


def daily(*, ready: Share = 0.3, sessions: Sessions = 3, swing: NonNegative = 0.5, day: Positive = 86400.0) -> StateRecipe:
    """Each client is ready for a share of each day, in some sessions that lean towards the night.

    `ready` is the mean share (each client's own varies by up to half of that, as far as 1 allows), `sessions` how
    many a day, `swing` how strongly they gather around the same hour (0: not at all).
    """

    def recipe(keys: Keys, seed: int) -> StateSource:
        sessions_of_all = daily_traces(keys, seed, ready=ready, sessions=sessions, swing=swing, day=day)
        return table_states(StateTable(np.arange(len(keys)).astype(np.str_), sessions_of_all), len(keys))

    return recipe


def daily_traces(keys: Keys, seed: int, *, ready: float, sessions: int, swing: float, day: float) -> Traces:
    """The sessions of `daily`, for whoever measures them."""
    n = len(keys)
    check_memory(_SESSION_BYTES * n * sessions, f"world.states: {sessions} sessions of {n} clients", "lower one of the two")
    share = np.clip(ready + min(0.5 * ready, 1.0 - ready) * (2.0 * uniforms(seed, "ready", keys) - 1.0), 1e-4, 1.0)
    index = np.arange(sessions)
    # One session in each slot of the day, placed at random within its slot; slots drift towards hour zero by `swing`.
    slot = day / sessions
    grain = _grain(share * slot)
    length = np.floor(share * slot / grain) * grain
    begins = np.stack([uniforms(seed, "session", keys, int(i)) for i in index], axis=1)
    # In place from here on: a million clients have many sessions.
    np.power(begins, 1.0 + swing * (index < (sessions + 1) // 2), out=begins)
    begins *= (slot - length)[:, None]
    begins /= grain[:, None]
    np.floor(begins, out=begins)
    begins *= grain[:, None]
    begins += index * slot
    ends = np.minimum(begins + length[:, None], np.minimum((index + 1) * slot, day))
    offsets = np.arange(0, n * sessions + 1, sessions, dtype=np.int64)
    return traces(np.zeros(n), np.full(n, day), offsets, begins.ravel(), ends.ravel())


def _grain(seconds: Floats) -> Floats:
    """What such sessions are rounded down to: whole seconds from 100 s on, 2^-10 s from 1 s on, else 2^-24 of them."""
    short = np.ldexp(1.0, np.frexp(seconds)[1] - _BITS)
    return np.where(seconds >= _SHORT, 1.0, np.where(seconds >= 1.0, _PART, short))


def state_file(path: str) -> StateRecipe:
    """Client i has row i of a states file (.json, .csv, .npz) or of a base, for example flhetbench:TIMERS#IDS."""

    def recipe(keys: Keys, _seed: int) -> StateSource:
        states = load_states(path)
        if len(states) < len(keys):
            raise BadInput(f"{path} has {len(states)} states for {len(keys)} clients; lower world.clients or add states")
        return table_states(states, len(keys))

    return recipe


def dpcsm(
    *,
    base: str = "builtin",
    alpha: Positive = 4.0,
    start_rank: Natural = 0,
    semantics: Literal["paper", "released"] = "paper",
    deadline: Annotated[float, Ge(SMALLEST), Le(1_000_000)] = 120.0,
    clients_k: Count = 20,
    rounds: Count = 3000,
    score: StateScorer,
) -> StateRecipe:
    """FLHetBench's DPCSM: states from rank `start_rank` of the base downwards; a small `alpha` gives few different ones.

    States are ranked by the single-state metric at this deadline, cohort and number of rounds. `paper` follows Theorem 3.2,
    `released` the published sampler. `alpha` is meant for 0 to 100, the paper's grid: beyond, `paper` leaves ever more clients to
    the worst state, and there are fewer different states again.
    """

    def recipe(keys: Keys, seed: int) -> StateSource:
        states = load_states(base)
        scores = score(states, deadline, clients_k, rounds, semantics)
        table = sample_dpcsm(states, len(keys), scores, alpha=alpha, start_rank=start_rank, semantics=semantics, seed=seed)
        return replace(table_states(table, len(keys)), warnings=tuple(warnings(alpha, semantics=semantics)))

    return recipe


def table_states(table: StateTable, clients: int) -> StateSource:
    """Client i has the i-th state of a table, by which the metrics measure the source."""

    def own_rows() -> StateTable:
        return table if len(table) == clients else take_states(table, np.arange(clients))

    return replace(interval_states(table.traces, clients), table=own_rows)


def interval_states(t: Traces, clients: int | None = None) -> StateSource:
    """Periodic ready intervals of the first `clients`, or all; `online` looks up only traces whose last answer has expired."""
    n = len(t) if clients is None else clients
    own, row_index = replace(t, row_index=None), None if t.row_index is None else t.row_index[:n]
    rows = n if row_index is None else len(own)
    ready = np.zeros(rows, np.bool_)
    valid_until = np.full(rows, -np.inf)
    last_time = [-np.inf]

    def online(time: float) -> Bools:
        # Remembered answers hold from when they were given; a clock that goes back asks everyone again.
        stale = np.flatnonzero(valid_until <= time) if time >= last_time[0] else np.arange(rows)
        # In pieces: the search needs a dozen numbers for each trace that it looks up.
        for piece in (stale[i : i + _PIECE] for i in range(0, len(stale), _PIECE)):
            ready[piece], valid_until[piece] = ready_until(own, piece, time)
        last_time[0] = time
        # A copy in both cases: the next call changes `ready`, and an answer once given must stand.
        return ready.copy() if row_index is None else ready[row_index]

    def earliest(among: Bools, n: int, start: float, until: float) -> float:
        # This also brings up to date what is remembered; usually enough are there.
        if np.count_nonzero(online(start) & among) >= n:
            return start if start < until else math.inf
        weights = among.astype(np.int64) if row_index is None else np.bincount(row_index[among], minlength=rows)
        at = np.flatnonzero(weights)
        return first_time_ready(own, at, weights[at], ready[at], valid_until[at], n, start, until)

    return StateSource(online, partial(finish_after, t), earliest, partial(ready_seconds, t))
