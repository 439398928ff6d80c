"""Overcommitment: ask more clients than are needed, and stop waiting when enough have reported."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

from annotated_types import Ge

from fedfleet.core.parts import Policy
from fedfleet.core.records import Book, Decision


def overcommit(policy: Policy, *, factor: Annotated[float, Ge(1)] = 1.3) -> Policy:
    """Ask `factor` times as many clients as `policy` wants, and let it see only as many as it wanted.

    The first that report are enough; the others are dropped when the inner policy closes its round.
    """

    def decide(book: Book) -> Decision:
        # ceil(n f) was wanted, so floor(wanted / f) is n again.
        wanted = math.floor(book.wanted / factor + 1e-9)
        seen = book._replace(wanted=wanted, selected=min(book.selected, wanted) if book.wanted else 0)
        decision = policy.decide(seen)
        return replace(decision, ask=math.ceil(decision.ask * factor - 1e-9)) if decision.ask else decision

    return Policy(f"overcommit({policy.name})", decide, policy.cohort)
