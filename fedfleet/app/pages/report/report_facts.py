"""The facts that a report is made of: a run's measures, events and tasks, its participants, and what its world knows."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.app.fleets.hardness import Hardness, rules_of
from fedfleet.app.runs.hindsight import Hindsight
from fedfleet.core.events import Event
from fedfleet.core.records import DROPPED, Bools, Ints
from fedfleet.measure.accuracy import Curve, learning_curve
from fedfleet.measure.attribution.causes import Attribution
from fedfleet.measure.participation import contributions
from fedfleet.measure.run_progress import FAILED, Log, read_progress
from fedfleet.measure.run_record import RunRecord, read_record
from fedfleet.measure.score_info import ScoreInfo, score_info_of
from fedfleet.measure.tasks import Tasks

Metrics = Mapping[str, Any]
TOOK_PART, LATE, NEVER = 0, 1, 2  # part; asked, but nothing of it was used; was never asked


@dataclass(frozen=True, slots=True)
class Facts:
    """A run as its report sees it. `used` and `asked` count by client; `kind` is TOOK_PART, LATE or NEVER for each.

    `spec` is the table of the resolved spec, `text` the same as TOML. What is unknown is None.
    """

    name: str
    text: str
    spec: Mapping[str, Any]
    metrics: Metrics
    events: Sequence[Event]
    record: RunRecord
    tasks: Tasks
    used: Ints
    asked: Ints
    kind: Ints
    ended: bool
    attribution: Attribution | None
    hindsight: Hindsight | None
    hardness: Hardness | None
    served: bool = False  # over a network, so that its time is real

    @property
    def clients(self) -> int:
        """How many clients the run has."""
        return self.record.progress.clients

    @property
    def curve(self) -> Curve:
        """The evaluations on the central test set."""
        return learning_curve(self.record.progress)

    @property
    def score(self) -> ScoreInfo:
        """What the score of this run is called, and how it is read."""
        return score_info_of(self.metrics)

    @property
    def person(self) -> str:
        """What a client is called: a device where users have several, and each of them is a client."""
        return "device" if "users" in self.spec.get("world", {}) and "edge" not in self.spec else "client"

    @property
    def people(self) -> str:
        """What clients are called."""
        return f"{self.person}s"

    @property
    def colour(self) -> int:
        """That of the run's fleet, which it keeps on every page: mild, middle and severe have theirs, all others the first."""
        known = {"mild": 1, "middle": 2, "severe": 3}
        return next((colour for word, colour in known.items() if word in self.name.lower()), 1)

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
        rules = rules_of(self.spec.get("pace", {}))
        return None if rules is None else rules.seconds

    @property
    def personal(self) -> bool:
        """Whether parts of the model stay with each client, so that no client uses the server's model alone."""
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
    record: RunRecord | None = None,
    attribution: Attribution | None = None,
    hindsight: Hindsight | None = None,
    hardness: Hardness | None = None,
    ended: bool = True,
    served: bool = False,
) -> Facts:
    """Count what the sentences and figures of a report need."""
    record = read_record(events) if record is None else record
    tasks, clients = record.tasks.table(), record.progress.clients
    used = contributions(tasks, clients)
    asked = np.bincount(tasks.clients, minlength=clients)
    kind = np.where(used > 0, TOOK_PART, np.where(asked > 0, LATE, NEVER))
    fits = hindsight if hindsight is not None and len(hindsight.samples) == clients else None
    return Facts(
        name, text, tomllib.loads(text), metrics, events, record, tasks, used, asked, kind, ended,
        attribution, fits, hardness, served,
    )  # fmt: skip


def size_of_test_set(log: Log, score: ScoreInfo | None = None) -> int:
    """How many samples the last central evaluation used; 0 where that is not known. Of a score that does not count right answers
    the journal does not tell."""
    if score is not None and not score.counts_answers:
        return score.samples or 0
    return next((e.total for e in reversed(read_progress(log).evaluations) if e.total), 0)


def sampling_margin(score: ScoreInfo, value: float | None, total: int) -> float | None:
    """Half the 95 % interval that the size of the test set leaves to a score; None where it is not a share of right answers."""
    return accuracy_margin(value, total) if value is not None and total and score.counts_answers else None


def accuracy_margin(accuracy: float, total: int) -> float:
    """Half the 95 % interval that so many test samples leave to an accuracy (normal approximation).

    >>> round(accuracy_margin(0.55, 359), 3)
    0.051
    """
    return 1.96 * math.sqrt(max(accuracy * (1.0 - accuracy), 1.0 / (4 * total) if total else 0.0) / total) if total else 0.0


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


def rounds_of(log: Log) -> Rounds:
    """The rounds of a run that have ended, in order."""
    rounds = read_progress(log).closed_rounds

    def column(name: str) -> Ints:
        return np.array([getattr(r, name) for r in rounds], np.int64)

    failed = np.array([r.outcome == FAILED for r in rounds], np.bool_)
    return Rounds(column("number"), [r.closed for r in rounds], column("asked"), column("used"), failed, column("reachable"))
