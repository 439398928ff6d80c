"""What a report says and draws is made of: a run's measures, events and tasks, who took part, and what its world knows."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.app.fleets.hardness import Hardness
from fedfleet.app.runs.hindsight import Hindsight
from fedfleet.core.events import CandidatesSeen, Evaluated, Event, ModelCommitted, RoundFailed, RunBegan, TasksSent
from fedfleet.core.records import DROPPED, Bools, Ints
from fedfleet.measure.accuracy import Curve, learning_curve
from fedfleet.measure.attribution.causes import Attribution
from fedfleet.measure.participation import contributions
from fedfleet.measure.tasks import Tasks, task_table

Metrics = Mapping[str, Any]
TOOK_PART, LATE, NEVER = 0, 1, 2  # part; asked, but nothing of it was used; was never asked


@dataclass(frozen=True, slots=True)
class Facts:
    """A run as its report sees it. `used` and `asked` count by client; `kind` is TOOK, LATE or NEVER for each.

    `people` is what clients are called, `person` one of them. `spec` is the table of the resolved spec, `text` the same as TOML. What
    nobody knows is None.
    """

    name: str
    text: str
    spec: Mapping[str, Any]
    metrics: Metrics
    events: Sequence[Event]
    tasks: Tasks
    clients: int
    curve: Curve
    used: Ints
    asked: Ints
    kind: Ints
    ended: bool
    people: str
    person: str
    colour: int
    attribution: Attribution | None
    hindsight: Hindsight | None
    hardness: Hardness | None
    served: bool = False  # over a network, so that its time is real

    @property
    def clock(self) -> str:
        """What passes in this run."""
        return "real time" if self.served else "virtual time"

    @property
    def participants(self) -> int:
        """How many took part."""
        return int((self.kind == TOOK_PART).sum())

    @property
    def late_only(self) -> int:
        """How many were asked, and nothing of theirs was used."""
        return int((self.kind == LATE).sum())

    @property
    def never(self) -> int:
        """How many were never asked."""
        return int((self.kind == NEVER).sum())

    @property
    def deadline(self) -> float | None:
        """The seconds after which a round is closed, where the pacing has such a rule and no other."""
        pace = self.spec.get("pace", {})
        return float(pace["seconds"]) if pace.get("use") == "deadline" else None

    @property
    def personal(self) -> bool:
        """Whether parts of the model stay with each person, so that the server's model alone is nobody's."""
        return any("read accuracy_clients" in w for w in self.metrics["warnings"])

    @property
    def dropped_tasks(self) -> Bools:
        """The tasks that were given up."""
        return self.tasks.fate == DROPPED


def collect_facts(
    name: str,
    text: str,
    metrics: Metrics,
    events: Sequence[Event],
    *,
    attribution: Attribution | None = None,
    hindsight: Hindsight | None = None,
    hardness: Hardness | None = None,
    ended: bool = True,
    served: bool = False,
) -> Facts:
    """Count what the sentences and figures of a report need."""
    tasks, spec = task_table(events), tomllib.loads(text)
    clients = next((e.clients for e in events if isinstance(e, RunBegan)), 0)
    used = contributions(tasks, clients)
    asked = np.bincount(tasks.clients, minlength=clients)
    kind = np.where(used > 0, TOOK_PART, np.where(asked > 0, LATE, NEVER))
    fits = hindsight if hindsight is not None and len(hindsight.samples) == clients else None
    devices = "users" in spec.get("world", {}) and "edge" not in spec
    return Facts(
        name, text, spec, metrics, events, tasks, clients, learning_curve(events), used, asked, kind, ended,
        "devices" if devices else "people", "device" if devices else "person", colour_of(name),
        attribution, fits, hardness, served,
    )  # fmt: skip


def colour_of(name: str) -> int:
    """A run keeps its fleet's colour on every page: mild, middle and severe have theirs, all others the first."""
    known = {"mild": 1, "middle": 2, "severe": 3}
    return next((colour for word, colour in known.items() if word in name.lower()), 1)


def test_set_size(events: Sequence[Event]) -> int:
    """How many samples the last central evaluation saw."""
    return next((e.total for e in reversed(events) if isinstance(e, Evaluated) and e.total), 0)


def accuracy_margin(accuracy: float, total: int) -> float:
    """Half the 95 % interval that so many test samples leave to an accuracy (normal approximation).

    >>> round(accuracy_margin(0.55, 359), 3)
    0.051
    """
    return (
        1.96 * math.sqrt(max(accuracy * (1.0 - accuracy), 1.0 / (4 * total) if total else 0.0) / total)
        if total
        else 0.0
    )


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds of a run as columns: when each closed, how many tasks it sent, how many reports became part of its model, whether it
    failed, and how many could be asked when it looked (-1: it never did)."""

    number: Ints
    closed: Sequence[float]
    asked: Ints
    used: Ints
    failed: Bools
    reachable: Ints


def rounds_of(events: Sequence[Event]) -> Rounds:
    """Follow the rounds of a journal in the order in which they closed."""
    rows: list[tuple[int, float, int, int, bool, int]] = []
    asked_counts: dict[int, int] = {}
    reachable = -1
    for e in events:
        match e:
            case CandidatesSeen():
                reachable = max(reachable, len(e.roster.clients))
            case TasksSent():
                asked_counts[e.round] = asked_counts.get(e.round, 0) + len(e.clients)
            case ModelCommitted() | RoundFailed():
                used = e.folded if isinstance(e, ModelCommitted) else 0
                rows.append(
                    (e.round, e.time, asked_counts.get(e.round, 0), used, isinstance(e, RoundFailed), reachable)
                )
                reachable = -1
            case _:
                pass

    def column(i: int) -> Ints:
        return np.array([row[i] for row in rows], np.int64)

    return Rounds(column(0), [row[1] for row in rows], column(2), column(3), column(4).astype(np.bool_), column(5))
