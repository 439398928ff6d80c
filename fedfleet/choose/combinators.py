"""Selectors around a selector: some of each pick for the never tried, few devices of one user."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.choose.ranks import best, round_at_random
from fedfleet.choose.uniform import uniform
from fedfleet.choose.wrappers import add_state, merge_picks
from fedfleet.core.limits import Count, Fraction
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Bools, Ended, Floats, Ints, Roster

_TRIED = "tried"


def explore(
    selector: Selector | None = None, *, share: Fraction = 0.1, decay: Fraction = 1.0, floor: Fraction = 0.0
) -> Selector:
    """A share of each pick goes to clients that were never tried, drawn evenly; `selector` picks the rest (default: uniform).

    In round r the share is max(floor, share decay^r). Fractions of a pick are rounded at random. Whoever ended a task, in whatever
    way, has been tried. When too few untried candidates are there, the others fill their places; with share = 0 nothing changes.
    How much work explorers get is the selector's affair too: it is shown them alone.
    """
    inner = uniform() if selector is None else selector

    def initial(clients: int) -> State:
        return {_TRIED: np.zeros(clients, np.bool_)}

    def learn(state: State, ended: Ended) -> State:
        tried = state[_TRIED].copy()
        tried[ended.clients] = True
        return {_TRIED: tried}

    tracking = add_state(inner, initial, learn, ("untold",))

    def explorers(state: State, roster: Roster, n: int, draw: Draw) -> Bools:
        now = max(floor, share * decay**draw.round)
        new = np.flatnonzero(~state[_TRIED][roster.clients] & (roster.stats["untold"] == 0))
        wanted = min(round_at_random(n * now, draw, "explore/share"), len(new))
        result: Bools = np.zeros(len(roster.clients), np.bool_)
        result[new[best(np.zeros(len(new)), roster.keys[new], wanted, draw, "explore")]] = True
        return result

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        chosen = explorers(state, roster, n, draw)
        if not chosen.any():
            return tracking.pick(state, roster, n, draw)
        assignments = tracking.pick(state, roster.only(chosen), int(chosen.sum()), draw)
        left = roster.only(~chosen)
        return merge_picks(
            [assignments, tracking.pick(state, left, min(n - len(assignments.clients), len(left.clients)), draw)]
        )

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        assert tracking.probe is not None
        chosen = explorers(state, roster, n, draw)
        places, left = n - int(chosen.sum()), roster.only(~chosen)
        probed, stat = tracking.probe(state, left, min(places, len(left.clients)), draw)
        return probed if places else probed[:0], stat  # whoever explores is asked whatever a look would say

    return replace(tracking, name=f"explore({inner.name})", pick=pick, probe=None if tracking.probe is None else probe)


def per_user(selector: Selector | None = None, *, most: Count = 1) -> Selector:
    """At most so many devices of one user are at work at once; `selector` picks among them (default: uniform).

    Whom the selector named first stays; in place of those that are too many it picks again, among users that have room. Devices
    that belong to nobody are not counted. In edge runs users themselves are the clients, and nothing changes.
    """
    inner = uniform() if selector is None else selector

    def free_places(roster: Roster) -> Floats:
        return np.where(roster.stats["user"] < 0, np.inf, most - roster.stats["user_tasks"])

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        assert inner.probe is not None
        few = roster.only(free_places(roster) > 0)
        return inner.probe(state, few, min(n, len(few.clients)), draw)

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        user, room = roster.stats["user"].astype(np.int64), free_places(roster)
        left, picks = room > 0, list[Assignments]()
        while True:
            few = roster.only(left)
            assignments = inner.pick(state, few, min(n, len(few.clients)), draw)
            at = np.searchsorted(roster.clients, assignments.clients)
            stay = _rank_within_user(user[at]) < room[at]
            picks.append(assignments.only(np.flatnonzero(stay)))
            n -= int(stay.sum())
            if stay.all() or not n:
                return merge_picks(picks)
            # Whoever was turned away has a user without room, so that each turn leaves fewer users.
            taken = np.bincount(user[at[stay & (user[at] >= 0)]], minlength=int(user.max()) + 1)
            room = np.where(user < 0, room, room - taken[user])
            left = left & (room > 0)
            left[at] = False

    sees = tuple(dict.fromkeys((*inner.sees, "user", "user_tasks")))
    return replace(
        inner,
        name=f"per_user({inner.name})",
        pick=pick,
        probe=None if inner.probe is None else probe,
        sees=sees,
        equal_chance=False,
    )


def _rank_within_user(users: Ints) -> Ints:
    """How many of the same user stand before each.

    >>> _rank_within_user(np.array([4, 2, 4, 4, 2])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(users, kind="stable")
    ranked = users[order]
    first = np.searchsorted(ranked, ranked, side="left")
    result = np.zeros(len(users), np.int64)
    result[order] = np.arange(len(users)) - first
    return result
