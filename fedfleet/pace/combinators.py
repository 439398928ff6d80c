"""Policies around policies: whichever of two closes a round first, and more clients asked than are needed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, NamedTuple

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import UNSTEADY, Policy, Steady, SteadyDecide
from fedfleet.core.records import Book, Decision


def first_of(first: Policy, second: Policy) -> Policy:
    """Both policies see the same round, and whichever wants to close it first does; each keeps its own memory.

    At one instant a commit goes before a failure, and `first` before `second`. A policy that did not close the round was not asked:
    its memory stays as it was. While the round is open as many are asked as either wants, not as both together, and what either
    gives up is given up. Who counts reports one by one (`buffered`) sees all of an instant at once, where the other is woken then.

    >>> from fedfleet.pace.rounds import deadline, readiness
    >>> first_of(readiness(20, ready_share=0.8), deadline(20, seconds=60.0)).name
    'first_of(readiness, deadline)'
    """
    if first is second:
        raise BadInput("first_of: both policies are the same; name two different ones, or use one alone")
    own = len(first.initial)
    larger = ("first", first) if first.cohort >= second.cohort else ("second", second)
    shorter = ("first", first) if first.patience <= second.patience else ("second", second)
    fuller = ("first", first) if _max_reports(first) >= _max_reports(second) else ("second", second)
    shows_by_policy = {"first": first.shows, "second": tuple((name, own + at) for name, at in second.shows)}
    most = first.most_reports, second.most_reports
    both = {name for name, _ in first.shows} & {name for name, _ in second.shows}

    def decide(book: Book) -> Decision:
        own_memory, other_memory = book.kept[:own], book.kept[own:]
        a, b = first.decide(book._replace(kept=own_memory)), second.decide(book._replace(kept=other_memory))
        closing = [d for d in (a, b) if d.commit] or [d for d in (a, b) if d.abandon]
        if not closing:
            keep = None if a.keep is b.keep is None else (*_memory_after(a, own_memory), *_memory_after(b, other_memory))
            return _merge_decisions(a, b)._replace(keep=keep)
        after = (
            *_memory_after(a if _closes_round(a) else None, own_memory),
            *_memory_after(b if _closes_round(b) else None, other_memory),
        )
        return closing[0]._replace(ask=0, keep=None if after == book.kept else after)

    promises = first.decide, second.decide

    def steady(book: Book) -> Steady:
        a, b = promises
        if not isinstance(a, SteadyDecide) or not isinstance(b, SteadyDecide):
            return UNSTEADY
        both = a.steady(book._replace(kept=book.kept[:own])), b.steady(book._replace(kept=book.kept[own:]))
        wakes = [one.wake_at for one in both if one.wake_at is not None]
        return Steady(min(one.arrivals for one in both), min(wakes, default=None))

    return Policy(
        f"first_of({first.name}, {second.name})",
        SteadyDecide(decide, steady),
        larger[1].cohort,
        (*first.initial, *second.initial),
        least=min(first.least, second.least),
        patience=shorter[1].patience,
        doubts=(*first.doubts, *second.doubts),
        prompt=first.prompt and second.prompt,
        key=f"{larger[0]}.{larger[1].key}",
        holds=None if first.holds is second.holds is None else _max_reports(fuller[1]),
        limit=f"{shorter[0]}.{shorter[1].limit}",
        holds_key=f"{fuller[0]}.{fuller[1].key if fuller[1].holds is None else fuller[1].holds_key}",
        endless=first.endless and second.endless,
        rounds=first.rounds and second.rounds,
        shows=tuple((f"{who}.{n}" if n in both else n, at) for who, shows in shows_by_policy.items() for n, at in shows),
        wraps=(*first.wraps, *second.wraps),
        most_reports=None if None in most else sum(n for n in most if n is not None),
        late_reports=first.late_reports or second.late_reports,
    )


def _max_reports(policy: Policy) -> int:
    return policy.cohort if policy.holds is None else policy.holds


def _closes_round(decision: Decision) -> bool:
    return decision.commit or bool(decision.abandon)


def _memory_after(decision: Decision | None, before: tuple[float, ...]) -> tuple[float, ...]:
    return before if decision is None or decision.keep is None else decision.keep


def _merge_decisions(a: Decision, b: Decision) -> Decision:
    """What two decisions that leave the round open come to together; their memories apart."""
    wakes = [d.wake_at for d in (a, b) if d.wake_at is not None]
    versions = [d.drop for d in (a, b) if d.drop is not None]
    times = [d.drop_before for d in (a, b) if d.drop_before is not None]
    return Decision(
        ask=max(a.ask, b.ask),
        wake_at=min(wakes, default=None),
        drop=min(versions, default=None),
        others=a.others or b.others,
        drop_before=max(times, default=None),
        at_least=max(a.at_least, b.at_least),
    )


class _AskMemory(NamedTuple):
    """What the inner policy asked in a round; when it last asked it knew of `seen` clients, and there were `selected`."""

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
            f"overcommit: {policy.name!r} already asks for more clients than it needs; multiply the two factors and keep one"
        )

    def counts_of(ask_memory: _AskMemory, book: Book) -> tuple[int, int]:
        """How many clients the inner policy wanted and sees as selected."""
        wanted, seen = int(ask_memory.wanted), int(ask_memory.seen)
        if not wanted:  # another policy asked, not the inner one
            return book.wanted, book.selected
        return wanted, seen + min(book.selected - int(ask_memory.selected), wanted - seen)

    def decide(book: Book) -> Decision:
        ask_memory = _AskMemory(*book.kept[:_OWN])
        if ask_memory.round != book.round:
            # Memory of an earlier round counts no more, but for an ask that is still out: none of it has been answered.
            ask_memory = _AskMemory(book.round, ask_memory.wanted - ask_memory.seen if book.asking else 0.0)
        wanted, selected = counts_of(ask_memory, book)
        inner = policy.decide(book._replace(wanted=wanted, selected=selected, kept=book.kept[_OWN:]))
        if inner.ask and book.asking:
            ask_memory = ask_memory._replace(wanted=wanted + inner.ask)
        elif inner.ask:
            ask_memory = _AskMemory(book.round, selected + inner.ask, selected, book.selected)
        memory = (*ask_memory, *(book.kept[_OWN:] if inner.keep is None else inner.keep))
        # The small slack keeps 1.1 * 10 = 11.000000000000002 at eleven.
        return inner._replace(ask=math.ceil(inner.ask * factor - 1e-9), keep=None if memory == book.kept else memory)

    promise = policy.decide

    def steady(book: Book) -> Steady:
        ask_memory = _AskMemory(*book.kept[:_OWN])
        if not isinstance(promise, SteadyDecide) or ask_memory.round != book.round:
            return UNSTEADY
        wanted, selected = counts_of(ask_memory, book)
        return promise.steady(book._replace(wanted=wanted, selected=selected, kept=book.kept[_OWN:]))

    # What else can be known of the rounds of `policy` holds for these too.
    return replace(
        policy,
        name=f"overcommit({policy.name})",
        decide=SteadyDecide(decide, steady) if isinstance(promise, SteadyDecide) else decide,
        initial=(*_AskMemory(), *policy.initial),
        key=f"policy.{policy.key}",
        limit=f"policy.{policy.limit}",
        holds_key=f"policy.{policy.holds_key}",
        shows=tuple((name, _OWN + at) for name, at in policy.shows),
        wraps=(*policy.wraps, _NAME),
        # It asks more clients than these rules say.
        round_rules=None,
        most_reports=None if policy.most_reports is None else policy.most_reports * math.ceil(factor),
    )
