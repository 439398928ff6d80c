"""How long clients take: what was seen, as far as it was seen to its end, else what is foreseen.

A task that was given up or lost took at least as long as it ran: it never makes a client look faster.
"""

from __future__ import annotations

import numpy as np

from fedfleet.core.parts import State
from fedfleet.core.records import DROPPED, LOST, Ended, Floats, Roster
from fedfleet.core.trees import Array

SEES = ("compute_seconds", "transfer_seconds", "latency_seconds")
SECONDS, CENSORED = "seconds", "censored"


def empty_durations(clients: int) -> dict[str, Array]:
    """The columns before any task ended: seconds (NaN: not known), and whether they are no more than a lower bound."""
    return {SECONDS: np.full(clients, np.nan), CENSORED: np.zeros(clients, np.bool_)}


def update_durations(state: State, ended: Ended) -> dict[str, Array]:
    """The columns after these tasks ended. Whoever cannot do the work at all takes for ever."""
    seconds, censored = state[SECONDS].copy(), state[CENSORED].copy()
    cut = (ended.fate == LOST) | (ended.fate == DROPPED)
    whole = ~cut | np.isnan(ended.seconds)
    seconds[ended.clients[whole]] = np.where(np.isnan(ended.seconds), np.inf, ended.seconds)[whole]
    censored[ended.clients[whole]] = False
    clients, elapsed = ended.clients[~whole], ended.seconds[~whole]
    longer = ~(seconds[clients] >= elapsed)
    np.fmax.at(seconds, clients[longer], elapsed[longer])
    censored[clients[longer]] = True
    return {SECONDS: seconds, CENSORED: censored}


def predicted_seconds(roster: Roster) -> Floats:
    """The seconds of a trip, without unavailable time; infinite for whoever cannot make it. For a selector that sees SEES."""
    compute, transfer, latency = (roster.stats[name] for name in SEES)
    with np.errstate(invalid="ignore"):  # infinite less infinite, for devices that cannot do it
        total = compute + (transfer - latency)  # each of the two holds the latency once
    return np.where(np.isnan(total), np.inf, total)


def expected_seconds(state: State, roster: Roster) -> Floats:
    """What a task of each candidate should take: as the last one that was seen to its end, else as foreseen, and no less than
    one that was cut off had taken."""
    known, predicted = state[SECONDS][roster.clients], predicted_seconds(roster)
    open_ended = state[CENSORED][roster.clients]
    return np.where(np.isnan(known), predicted, np.where(open_ended, np.fmax(known, predicted), known))
