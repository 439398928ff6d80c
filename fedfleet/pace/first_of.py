"""Two policies for one round: whichever closes it first."""

from __future__ import annotations

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Policy
from fedfleet.core.records import Book, Decision


def first_of(first: Policy, second: Policy) -> Policy:
    """Both policies see the same round, and whichever wants to close it first does; each keeps its own memory.

    At one instant a commit goes before a failure, and `first` before `second`. Whoever did not close the round was not asked:
    its memory stays as it was. While the round is open as many are asked as either wants, not as both together, and what either
    gives up is given up. Who counts reports one by one (`buffered`) sees all of an instant at once, where the other is woken then.

    >>> from fedfleet.pace.rounds import deadline, readiness
    >>> first_of(readiness(20, ready_share=0.8), deadline(20, seconds=60.0)).name
    'first_of(readiness, deadline)'
    """
    if first is second:
        raise BadInput("first_of: both policies are the same, so that one is enough; name two that differ, or only one")
    own = len(first.initial)
    larger = ("first", first) if first.cohort >= second.cohort else ("second", second)
    shorter = ("first", first) if first.patience <= second.patience else ("second", second)
    fuller = ("first", first) if _most(first) >= _most(second) else ("second", second)
    shown = {"first": first.shows, "second": tuple((name, own + at) for name, at in second.shows)}
    both = {name for name, _ in first.shows} & {name for name, _ in second.shows}

    def decide(book: Book) -> Decision:
        mine, other = book.kept[:own], book.kept[own:]
        a, b = first.decide(book._replace(kept=mine)), second.decide(book._replace(kept=other))
        chosen = _closing(a, b)
        if chosen is None:
            keep = None if a.keep is b.keep is None else (*_kept(a, mine), *_kept(b, other))
            return _both(a, b)._replace(keep=keep)
        after = (*_kept(a if _closes(a) else None, mine), *_kept(b if _closes(b) else None, other))
        return chosen._replace(ask=0, keep=None if after == book.kept else after)

    return Policy(
        f"first_of({first.name}, {second.name})",
        decide,
        larger[1].cohort,
        (*first.initial, *second.initial),
        least=min(first.least, second.least),
        patience=shorter[1].patience,
        doubts=(*first.doubts, *second.doubts),
        prompt=first.prompt and second.prompt,
        key=f"{larger[0]}.{larger[1].key}",
        holds=None if first.holds is second.holds is None else _most(fuller[1]),
        limit=f"{shorter[0]}.{shorter[1].limit}",
        holds_key=f"{fuller[0]}.{fuller[1].key if fuller[1].holds is None else fuller[1].holds_key}",
        endless=first.endless and second.endless,
        rounds=first.rounds and second.rounds,
        shows=tuple((f"{who}.{n}" if n in both else n, at) for who, shows in shown.items() for n, at in shows),
        wraps=(*first.wraps, *second.wraps),
    )


def _most(policy: Policy) -> int:
    return policy.cohort if policy.holds is None else policy.holds


def _closes(decision: Decision) -> bool:
    return decision.commit or bool(decision.abandon)


def _closing(a: Decision, b: Decision) -> Decision | None:
    """The decision that closes the round, if one does."""
    found = [d for d in (a, b) if d.commit] or [d for d in (a, b) if d.abandon]
    return found[0] if found else None


def _kept(decision: Decision | None, before: tuple[float, ...]) -> tuple[float, ...]:
    return before if decision is None or decision.keep is None else decision.keep


def _both(a: Decision, b: Decision) -> Decision:
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
