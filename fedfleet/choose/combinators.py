"""Selectors around selectors: some of each pick for the never tried, few devices of one user, only some clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedfleet.choose.client_columns import within_user
from fedfleet.choose.scores import best, round_at_random
from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.events import TasksSpent
from fedfleet.core.limits import Count, Fraction, Natural
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Bools, Ended, Floats, Ints, Roster

# ---- what they are made of: state of both side by side, candidates left out, picks put together -------------------

_INNER = "inner."  # what the names of an inner selector's columns begin with; they nest


def add_state(
    inner: Selector,
    initial: Callable[[int], State],
    learn: Callable[[State, Ended], State],
    sees: tuple[str, ...] = (),
    hear: Callable[[State, Ended], Ended] | None = None,
) -> Selector:
    """The same selector with columns of another beside its own: `learn` sees and renews those alone.

    `hear` says what the selector inside learns instead of how tasks ended, by the renewed columns.
    """

    def first(clients: int) -> State:
        return _join_states(initial(clients), inner.initial(clients))

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        return inner.pick(_inner_state(state), roster, n, draw)

    def learnt(state: State, ended: Ended, now: float) -> State:
        own = {name: column for name, column in state.items() if not name.startswith(_INNER)}
        inner_state, own = _inner_state(state), learn(own, ended)
        heard = ended if hear is None else hear(own, ended)
        return _join_states(own, inner_state if inner.learn is None else inner.learn(inner_state, heard, now))

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        assert inner.probe is not None
        return inner.probe(_inner_state(state), roster, n, draw)

    def charge(state: State, spent: TasksSpent) -> State:
        assert inner.charge is not None
        return {**state, **_join_states({}, inner.charge(_inner_state(state), spent))}

    return replace(
        inner, pick=pick, learn=learnt, initial=first, equal_chance=False, sees=tuple(dict.fromkeys((*inner.sees, *sees))),
        probe=None if inner.probe is None else probe, charge=None if inner.charge is None else charge,
    )  # fmt: skip


def restrict_candidates(inner: Selector, allowed: Callable[[State, Roster], Bools], name: str) -> Selector:
    """The same selector, to which only allowed candidates are shown, when it probes and when it picks."""
    inner_probe = inner.probe

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        few = roster.only(allowed(state, roster))
        return inner.pick(state, few, min(n, len(few.clients)), draw)

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        assert inner_probe is not None
        few = roster.only(allowed(state, roster))
        return inner_probe(state, few, min(n, len(few.clients)), draw)

    return replace(inner, name=name, pick=pick, probe=None if inner_probe is None else probe, equal_chance=False)


def merge_picks(picks: list[Assignments]) -> Assignments:
    """Several picks of one selector as one; the latest time at which any of them is due holds for all."""
    some = [p for p in picks if len(p.clients)] or picks[:1]
    dues = [p.due for p in some if p.due is not None]
    return Assignments(
        np.concatenate([p.clients for p in some]),
        np.concatenate([p.steps for p in some]),
        np.concatenate([p.share for p in some]),
        {name: np.concatenate([p.settings[name] for p in some]) for name in some[0].settings},
        max(dues, default=None),
    )


def _join_states(own: State, inner: State) -> State:
    return {**own, **{_INNER + name: column for name, column in inner.items()}}


def _inner_state(state: State) -> State:
    return {name.removeprefix(_INNER): column for name, column in state.items() if name.startswith(_INNER)}


# ---- selectors ----------------------------------------------------------------------------------------------------

_TRIED = "tried"


def explore(selector: Selector | None = None, *, share: Fraction = 0.1, decay: Fraction = 1.0, floor: Fraction = 0.0) -> Selector:
    """A share of each pick goes to clients that were never tried, drawn evenly; `selector` picks the rest (default: uniform).

    In round r the share is max(floor, share decay^r). Fractions of a pick are rounded at random. A client that ended a task, in
    whatever way, has been tried. When too few untried candidates are there, the others fill their places; with share = 0 nothing
    changes. How much work explorers get is the selector's affair too: it is shown them alone.
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
        return merge_picks([assignments, tracking.pick(state, left, min(n - len(assignments.clients), len(left.clients)), draw)])

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        assert tracking.probe is not None
        chosen = explorers(state, roster, n, draw)
        places, left = n - int(chosen.sum()), roster.only(~chosen)
        probed, stat = tracking.probe(state, left, min(places, len(left.clients)), draw)
        return probed if places else probed[:0], stat  # explorers are asked whatever a probe would say

    return replace(tracking, name=f"explore({inner.name})", pick=pick, probe=None if tracking.probe is None else probe)


def per_user(selector: Selector | None = None, *, most: Count = 1) -> Selector:
    """At most so many devices of one user are at work at once; `selector` picks among them (default: uniform).

    Whom the selector named first stays; in place of those that are too many it picks again, among users that have room. Devices
    that belong to no user are not counted. In edge runs users themselves are the clients, and nothing changes.
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
            stay = within_user(user[at])[0] < room[at]
            picks.append(assignments.only(np.flatnonzero(stay)))
            n -= int(stay.sum())
            if stay.all() or not n:
                return merge_picks(picks)
            # A client that was turned away has a user without room, so that each turn leaves fewer users.
            taken = np.bincount(user[at[stay & (user[at] >= 0)]], minlength=int(user.max()) + 1)
            room = np.where(user < 0, room, room - taken[user])
            left = left & (room > 0)
            left[at] = False

    sees, new_probe = tuple(dict.fromkeys((*inner.sees, "user", "user_tasks"))), None if inner.probe is None else probe
    return replace(inner, name=f"per_user({inner.name})", pick=pick, probe=new_probe, sees=sees, equal_chance=False)


def only(
    selector: Selector | None = None,
    *,
    ids: list[Natural] = [],  # noqa: B006 - only read
    kinds: list[str] = [],  # noqa: B006
    tags: list[str] = [],  # noqa: B006
    fleet: FleetFacts = FleetFacts(),  # noqa: B008
) -> Selector:
    """Only clients with these numbers, kinds of device or tags (any of them) are asked; `selector` picks (default: uniform).

    Tags are lists of clients by name: world.tags = { night = [1, 2] }. Put one around another to want two things at once.
    In edge runs clients are users, whose kind says how many devices they have, and so are the numbers under a tag.
    """
    inner = uniform() if selector is None else selector
    named, fleet_kinds = [np.array(ids, np.int64)], np.array(fleet.kinds, np.str_)
    for kind in kinds:
        named.append(np.flatnonzero(fleet_kinds == kind))
        if not len(named[-1]):
            raise BadInput(f"choose.kinds: no device is of kind {kind!r}{suggest_name(kind, np.unique(fleet_kinds).tolist())}")
    for tag in tags:
        if tag not in fleet.tags:
            hint = suggest_name(tag, fleet.tags) or "; name clients under it with world.tags"
            raise BadInput(f"choose.tags: no client has the tag {tag!r}{hint}")
        named.append(fleet.tags[tag])
    members = np.unique(np.concatenate(named))
    if not len(members):
        raise BadInput("choose: the selector 'only' does not name any client; give ids = [..], kinds = [..] or tags = [..]")
    clients = len(fleet.keys)
    if clients and members[-1] >= clients:
        raise BadInput(
            f"choose.ids: there is no client {members[-1]} in a fleet of {clients}; clients are numbered 0 to {clients - 1}"
        )
    if inner.members is not None:
        members = np.intersect1d(members, inner.members)
        if not len(members):
            raise BadInput(
                f"choose: the selectors 'only' and {inner.name!r} inside it have no client in common; name at least one client in "
                "both"
            )

    result = restrict_candidates(inner, lambda state, roster: np.isin(roster.clients, members), f"only({inner.name})")
    return replace(result, members=members)
