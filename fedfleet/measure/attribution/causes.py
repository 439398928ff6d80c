"""Causes of waiting, and the books that are kept of them: what a round's seconds went into, and who was waited for."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fedfleet.core.stages import STAGES

# What a second of a run can have gone into; the stages are those of the task that was waited for.
PAUSE, REACHABILITY, PROBES, STRAGGLERS, SLACK, FAILED, SERVER, UNKNOWN, UNFINISHED = (
    "pause", "reachability", "probes", "stragglers", "slack", "failed", "server", "unknown", "unfinished",
)  # fmt: skip
CAUSES = (PAUSE, REACHABILITY, PROBES, *STAGES, STRAGGLERS, SLACK, FAILED, SERVER, UNKNOWN, UNFINISHED)

# How tasks were cut that had begun before the round that waited for them: there were none, by the world, or evenly.
Cutting = Literal["none", "world", "evenly"]


@dataclass(frozen=True, slots=True)
class RoundTime:
    """The time of one round: from its opening to its closing, by cause; causes that took none are left out.

    `client` is the one whose report closed it (-1: none did), `reason` why it failed, if it did. The time after the last closing is
    a round that is not `closed`.
    """

    round: int
    start: float
    end: float
    causes: Mapping[str, float]
    client: int = -1
    reason: str = ""
    closed: bool = True

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Attribution:
    """A run's virtual time by cause, round by round and in all.

    `who` are, for each cause, the clients that were waited for, with their seconds; `failures` the seconds of failed rounds by
    reason. `ended`: the run is over. `cutting` says how tasks were divided that had begun before the round that waited for them.
    """

    virtual_seconds: float
    causes: Mapping[str, float]
    rounds: tuple[RoundTime, ...]
    who: Mapping[str, Mapping[int, float]]
    failures: Mapping[str, float]
    ended: bool
    cutting: Cutting


@dataclass(slots=True)
class Blame:
    """Who was waited for, by cause: filled while a run is walked through."""

    seconds: dict[str, dict[int, float]] = field(default_factory=dict[str, dict[int, float]])

    def add(self, cause: str, clients: Collection[int], seconds: float) -> None:
        """These clients were waited for together: each gets an equal share."""
        if not clients or seconds <= 0:
            return
        by_client, share = self.seconds.setdefault(cause, {}), seconds / len(clients)
        for client in clients:
            by_client[client] = by_client.get(client, 0.0) + share


def sum_by_cause(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds by cause, in the order of CAUSES.

    >>> sum_by_cause([("upload", 1.0), ("pause", 2.0), ("upload", 0.5)])
    {'pause': 2.0, 'upload': 1.5}
    """
    result: dict[str, list[float]] = {}
    for cause, seconds in parts:
        result.setdefault(cause, []).append(seconds)
    return {cause: math.fsum(result[cause]) for cause in CAUSES if cause in result}


def total_attribution(
    rounds: Iterable[RoundTime], who: Mapping[str, Mapping[int, float]], *, ended: bool, cutting: Cutting
) -> Attribution:
    """The books of all rounds, added up."""
    all_rounds = tuple(rounds)
    causes = dict.fromkeys(CAUSES, 0.0) | sum_by_cause((cause, s) for r in all_rounds for cause, s in r.causes.items())
    failures: dict[str, float] = {}
    for r in all_rounds:
        if r.reason:
            failures[r.reason] = failures.get(r.reason, 0.0) + r.seconds
    last = all_rounds[-1].end if all_rounds else 0.0
    sorted_who = {cause: dict(sorted(by_client.items(), key=lambda e: (-e[1], e[0]))) for cause, by_client in who.items()}
    return Attribution(last, causes, all_rounds, sorted_who, failures, ended, cutting)
