"""Bounds to compare with: everyone in turn, the clients that contributed least, the fastest clients."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from fedfleet.choose.client_columns import SEES, predicted_seconds
from fedfleet.choose.combinators import add_state, restrict_candidates
from fedfleet.choose.scores import best
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import FOLDED, Assignments, Bools, Ended, Floats, Ints, Roster, whole_work
from fedfleet.core.trees import Array

_ASKED, _GIVEN = "asked", "contributions"
_UNTOLD = "untold"  # so that a client that came back and is not yet learnt of is not taken for idle


def round_robin() -> Selector:
    """Everyone in turn: the clients that were asked least often, and chance among those.

    With everyone reachable all are asked once before anyone is asked twice, under any policy. A task counts however it ended.
    """

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        return _pick_fewest(state[_ASKED], roster, n, draw)

    def learn(state: State, ended: Ended, _now: float) -> State:
        return {_ASKED: _add_counts(state[_ASKED], ended.clients)}

    def initial(clients: int) -> State:
        return {_ASKED: np.zeros(clients, np.int32)}

    return Selector("round_robin", pick, learn, initial=initial, sees=(_UNTOLD,), by_reports=False)


def fair(selector: Selector | None = None, *, cap: Annotated[float, Ge(1), Le(1e6)] | None = None) -> Selector:
    """The clients that contributed least; around a selector: those with more than `cap` times the mean are left out.

    A contribution is a report that was folded. The mean is over the whole fleet, and `cap` times the mean is rounded up, as
    contributions are whole. With both, the least of those below the cap; fewer than wanted may be left, or none.
    """
    if selector is not None and cap is None:
        raise BadInput(
            "choose.cap: fair with a selector inside needs a limit; "
            "set for example cap = 2, which leaves out clients with more than twice the mean number of reports"
        )
    if selector is None:
        tracking = Selector(
            "fair", lambda state, roster, n, draw: _pick_fewest(state[_GIVEN], roster, n, draw),
            lambda state, ended, now: _count_contributions(state, ended), initial=_no_contributions, sees=(_UNTOLD,),
            by_reports=False,
        )  # fmt: skip
    else:
        tracking = add_state(selector, _no_contributions, _count_contributions, (_UNTOLD,))
    if cap is None:
        return tracking

    def below_cap(state: State, roster: Roster) -> Bools:
        counts: Ints = state[_GIVEN]
        return counts[roster.clients] + roster.stats[_UNTOLD] <= np.ceil(cap * float(counts.mean()))

    return restrict_candidates(tracking, below_cap, "fair" if selector is None else f"fair({selector.name})")


def fastest() -> Selector:
    """The clients with the shortest predicted time; those that cannot do the work come last."""

    def pick(_state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        return whole_work(roster.clients[best(-predicted_seconds(roster), roster.keys, n, draw, "fastest")])

    return Selector("fastest", pick, sees=SEES, by_reports=False)


def _pick_fewest(counts: Ints, roster: Roster, n: int, draw: Draw) -> Assignments:
    """Those with the smallest counts, with what the selector has not yet been told of."""
    so_far: Floats = counts[roster.clients] + roster.stats[_UNTOLD]
    return whole_work(roster.clients[best(-so_far, roster.keys, n, draw, "fewest")])


def _no_contributions(clients: int) -> State:
    return {_GIVEN: np.zeros(clients, np.int32)}


def _count_contributions(state: State, ended: Ended) -> State:
    return {_GIVEN: _add_counts(state[_GIVEN], ended.clients[ended.fate == FOLDED])}


def _add_counts(counts: Array, clients: Ints) -> Array:
    after = counts.copy()
    np.add.at(after, clients, 1)
    return after
