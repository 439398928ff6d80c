"""Attackers: clients that send something else than what they learnt, so that robustness can be studied.

Who attacks is addressed by the seed and the client's key: the same clients for every method. Their harm is done where updates leave
the client, on whole stacks, so that attackers and honest clients still train together; of honest clients no bit is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Fraction, Positive
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import Passed
from fedfleet.core.rng import attackers
from fedfleet.learn.composition import with_pass
from fedfleet.learn.leaves import copy_of, is_floating


@dataclass(frozen=True, slots=True)
class Attack:
    """What attackers make of each leaf of their update, and which share of how many clients they are."""

    spoil: Callable[[Any], Any]
    share: float
    clients: int


def sign_flip(*, facts: RunFacts, share: Fraction = 0.2, factor: Positive = 4.0) -> Attack:
    """Attackers send -factor times their update: they push the model back to where it came from.

    With factor 4 a fifth of all clients cancels the other four fifths.

    >>> float(sign_flip(facts=RunFacts(10, 0, 5)).spoil(0.5))
    -2.0
    """
    return Attack(lambda leaf: leaf * -factor, share, facts.clients)


def scaled(*, facts: RunFacts, share: Fraction = 0.2, factor: Positive = 10.0) -> Attack:
    """Attackers send factor times their update: the model becomes theirs (Bagdasaryan et al. 2020).

    >>> float(scaled(facts=RunFacts(10, 0, 5)).spoil(0.5))
    5.0
    """
    return Attack(lambda leaf: leaf * factor, share, facts.clients)


def nan(*, facts: RunFacts, share: Fraction = 0.2) -> Attack:
    """Attackers send updates that are not numbers; every fold refuses such a report and says so.

    >>> float(nan(facts=RunFacts(10, 0, 5)).spoil(0.5))
    nan
    """
    return Attack(lambda leaf: leaf * float("nan"), share, facts.clients)


def with_attack(algorithm: Algorithm, attack: Attack) -> Algorithm:
    """The algorithm some of whose clients attack; everything that they remember, and honest clients, stay as they are."""
    if algorithm.pooled:
        raise BadInput(
            f"algorithm.attack: {algorithm.name!r} trains in one place, without clients that could attack; leave `attack` out"
        )

    def harm(passed: Passed) -> Passed:
        update = dict(passed.update)
        places = attackers(passed.seed, passed.keys, attack.share, attack.clients).nonzero()[0].tolist()
        for name, leaf in passed.update.items():
            if places and is_floating(leaf):
                update[name] = copy_of(leaf)
                for c in places:
                    update[name][c] = attack.spoil(leaf[c])
        return replace(passed, update=update)

    return with_pass(algorithm, "no attack can be put into it", lambda inner: replace(inner, after=(*inner.after, harm)))
