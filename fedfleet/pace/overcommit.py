"""Overcommitment: ask more clients than are needed, and stop waiting when enough have reported."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, NamedTuple

from annotated_types import Ge, Le

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Policy
from fedfleet.core.records import Book, Decision


class _AskMemory(NamedTuple):
    """What the inner policy asked for in a round, in its own numbers; the first entries of the policy's memory.

    `seen` is how many selected clients the inner policy knew of when it last asked, `selected` how many there were.
    """

    round: float = 0.0
    wanted: float = 0.0
    seen: float = 0.0
    selected: float = 0.0


_OWN = len(_AskMemory._fields)
_NAME = "overcommit"


def overcommit(policy: Policy, *, factor: Annotated[float, Ge(1), Le(1000)] = 1.3) -> Policy:
    """Ask `factor` times as many clients as `policy` wants, and let it see only as many as it wanted.

    The first that report are enough; the others are dropped when the inner policy closes its round. A policy that asks again in a
    round (`timeout`) gets as many more each time, and one in whose round somebody else asked (`first_of`) sees all of those.
    """
    if _NAME in policy.wraps:
        raise BadInput(
            f"overcommit: {policy.name!r} asks for more clients than it needs already; multiply the two factors, and remove one"
        )

    def decide(book: Book) -> Decision:
        ask_memory = _current_memory(_AskMemory(*book.kept[:_OWN]), book)
        wanted, seen = int(ask_memory.wanted), int(ask_memory.seen)
        selected = seen + min(book.selected - int(ask_memory.selected), wanted - seen)
        if not wanted:  # whoever asked, it was not the inner policy
            wanted, selected = book.wanted, book.selected
        inner = policy.decide(book._replace(wanted=wanted, selected=selected, kept=book.kept[_OWN:]))
        if inner.ask and book.asking:
            ask_memory = ask_memory._replace(wanted=wanted + inner.ask)
        elif inner.ask:
            ask_memory = _AskMemory(book.round, selected + inner.ask, selected, book.selected)
        memory = (*ask_memory, *(book.kept[_OWN:] if inner.keep is None else inner.keep))
        # The small slack keeps 1.1 * 10 = 11.000000000000002 at eleven.
        return inner._replace(ask=math.ceil(inner.ask * factor - 1e-9), keep=None if memory == book.kept else memory)

    # What else can be known of the rounds of `policy` holds for these too.
    return replace(
        policy,
        name=f"overcommit({policy.name})",
        decide=decide,
        initial=(*_AskMemory(), *policy.initial),
        key=f"policy.{policy.key}",
        limit=f"policy.{policy.limit}",
        holds_key=f"policy.{policy.holds_key}",
        shows=tuple((name, _OWN + at) for name, at in policy.shows),
        wraps=(*policy.wraps, _NAME),
        # It asks more clients than these rules say.
        round_rules=None,
    )


def _current_memory(ask_memory: _AskMemory, book: Book) -> _AskMemory:
    """Memory of an earlier round counts no more, but for an ask that is still out: none of it has been answered."""
    if ask_memory.round == book.round:
        return ask_memory
    return _AskMemory(book.round, ask_memory.wanted - ask_memory.seen if book.asking else 0.0)
