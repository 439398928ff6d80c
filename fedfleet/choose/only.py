"""Only some clients: by number, by kind of device, by tag."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.choose.wrappers import restrict_candidates
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.limits import Natural
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.parts import Selector, State
from fedfleet.core.records import Bools, Ints, Roster


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
    named = [
        np.array(ids, np.int64),
        *(_clients_of_kind(k, fleet) for k in kinds),
        *(_clients_with_tag(t, fleet) for t in tags),
    ]
    members = np.unique(np.concatenate(named))
    if not len(members):
        raise BadInput("choose: only names nobody; name clients with ids = [..], kinds = [..] or tags = [..]")
    clients = len(fleet.keys)
    if clients and members[-1] >= clients:
        raise BadInput(
            f"choose.ids: there is no client {members[-1]} in a fleet of {clients}; they are 0 to {clients - 1}"
        )
    if inner.members is not None:
        members = np.intersect1d(members, inner.members)
        if not len(members):
            raise BadInput(
                f"choose: only names nobody whom {inner.name!r} inside it may ask; let the two name clients in common"
            )

    def is_member(state: State, roster: Roster) -> Bools:
        del state
        return np.isin(roster.clients, members)

    return replace(restrict_candidates(inner, is_member, f"only({inner.name})"), members=members)


def _clients_of_kind(kind: str, fleet: FleetFacts) -> Ints:
    kinds = np.array(fleet.kinds, np.str_)
    result = np.flatnonzero(kinds == kind)
    if not len(result):
        raise BadInput(f"choose.kinds: no device is of kind {kind!r}{suggest_name(kind, np.unique(kinds).tolist())}")
    return result


def _clients_with_tag(tag: str, fleet: FleetFacts) -> Ints:
    if tag not in fleet.tags:
        hint = suggest_name(tag, fleet.tags) or "; name clients under it with world.tags"
        raise BadInput(f"choose.tags: nobody has the tag {tag!r}{hint}")
    return fleet.tags[tag]
