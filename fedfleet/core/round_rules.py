"""The numbers of a policy with synchronous rounds, which say what a round waits for and when it succeeds.

A policy that declares them (`Policy.round_rules`) can be measured, predicted and explained without running it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoundRules:
    """What a round asks for and waits for, by the names of the parameters of `readiness` and `deadline`.

    A round begins `t_break` seconds after the last one. It asks `cohort` clients and fails with fewer than `min_clients` of
    them. It closes when `ready_share` of the selected clients have reported, when no selected client is still working, or
    `seconds` after its first broadcast. `seconds` is None for a policy that waits for reports, and infinite for a
    deadline that never comes. A round succeeds with `min_share` of the cohort; where `ready_share` is below 1, with `ready_share`
    of the selected clients if that is less. So one more report never makes a success a failure, nor does one client fewer that
    was selected and did not report. With `wait_if_few` a round waits for enough clients to be reachable, and does not fail.
    Reports up to `max_staleness` versions late are folded. A task that runs for `lease` seconds is given up.
    """

    cohort: int
    ready_share: float = 1.0
    seconds: float | None = None
    t_break: float = 20.0
    min_clients: int = 2
    min_share: float = 0.1
    wait_if_few: bool = False
    max_staleness: int = 0
    lease: float = math.inf

    @property
    def by_deadline(self) -> bool:
        """Whether time closes a round, whatever has arrived."""
        return self.seconds is not None

    @property
    def time_limit(self) -> float:
        """After how many seconds a round closes at the latest, apart from leases; infinite without a deadline."""
        return math.inf if self.seconds is None else self.seconds

    @property
    def independent(self) -> bool:
        """Whether each round is on its own: no report comes late, and no lease ends a task."""
        return not self.max_staleness and self.lease == math.inf

    def ready(self, selected: int) -> int:
        """How many reports end the wait. The small slack keeps 0.14 * 50 = 7.000000000000001 at seven."""
        return math.ceil(self.ready_share * selected - 1e-9)

    def success(self, wanted: int) -> int:
        """How many reports `min_share` of the cohort are."""
        return max(1, math.ceil(self.min_share * wanted - 1e-9))

    def need(self, wanted: int, selected: int) -> int:
        """How many reports make a success: a policy that asks for a share of the reports has enough when that share is there.

        Never fewer for more selected clients.

        >>> rules = RoundRules(20, ready_share=0.8, min_share=0.5)
        >>> [rules.need(20, selected) for selected in (2, 4, 5, 10, 20)]
        [2, 4, 4, 8, 10]
        """
        success = self.success(wanted)
        return success if self.ready_share >= 1.0 else min(success, self.ready(selected))

    def waits_for(self) -> int:
        """For how many clients a round waits before it begins: with that many it succeeds though a share of them never reports, or
        has what a whole cohort needs."""
        few, enough = max(self.min_clients, 1), self.success(self.cohort)
        return self._first(few, lambda n: n >= enough or self.ready(n) < n)

    def least(self) -> int:
        """With how many clients a round can succeed: those that it waits for, or, if it begins with those that are there, as many
        as can report enough."""
        few = max(self.min_clients, 1)
        if self.wait_if_few:
            return self.waits_for()
        return self._first(few, lambda n: n >= self.need(self.cohort, n))

    def _first(self, few: int, is_enough: Callable[[int], bool]) -> int:
        """From how many clients on this holds, searched by halves: cohorts may have millions. What holds for n holds for n + 1."""
        return few + bisect_left(range(few, self.cohort + 1), True, key=is_enough)
