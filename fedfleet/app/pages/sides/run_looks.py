"""What a page needs of each run that it shows beside others, read from its folder once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from fedfleet.app.runs import open_run, stored_chance
from fedfleet.app.runs.explanation import attribute_simulated
from fedfleet.app.spec import Spec
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event, ModelCommitted, RunBegan
from fedfleet.core.records import FOLDED, Floats, Ints
from fedfleet.measure.accuracy import learning_curve
from fedfleet.measure.attribution.critical_path import attribution
from fedfleet.measure.participation import contributions
from fedfleet.measure.summary import summary
from fedfleet.measure.tasks import RUNNING, Tasks, task_table
from fedfleet.store.journal import digest_of, identity_of
from fedfleet.store.seals import kind_of

REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class PageRun:
    """One run. Accuracy is a step: from seconds[i] on it is accuracy[i].

    `first` is when it made its first model, `samples` what a task of a usual person trains on, `model_bytes` what it loads first. `used` and `late` count each person's reports that entered a model, and those that were asked for and did not; `causes` are the
    seconds by what the server waited for, real ones if it was `served`. `link` leads from the page to the run's report; empty where there is none.
    """

    seed: str
    link: str
    out: Path
    table: Mapping[str, Any]
    metrics: Mapping[str, Any]
    seconds: Floats
    accuracy: Floats
    first: float | None
    end: float
    ended: bool
    samples: float
    used: Ints
    late: Ints
    causes: Mapping[str, float]
    served: bool = False
    model_bytes: float = 0.0

    def accuracy_at(self, seconds: float) -> float | None:
        """Accuracy of the last model that was tried by then; None while no model had been made."""
        if self.first is None or self.first > seconds:
            return None
        known = int(np.searchsorted(self.seconds, seconds, side="right"))
        return float(self.accuracy[known - 1]) if known else None

    def seconds_to(self, target: float) -> float | None:
        """When an evaluation first had this accuracy; None if none did."""
        indices = np.flatnonzero(self.accuracy >= target)
        return float(self.seconds[indices[0]]) if len(indices) else None

    @property
    def last(self) -> float | None:
        """Accuracy of the last model."""
        return float(self.accuracy[-1]) if len(self.accuracy) else None


@dataclass(frozen=True, slots=True)
class Side:
    """Runs that differ in seeds only, and how they are drawn: a colour of 1 to 5, thin lines for the second of a colour.

    `group` is what several sides share, such as a fleet; empty where there is nothing.
    """

    name: str
    runs: tuple[PageRun, ...]
    colour: int = 1
    thin: bool = False
    group: str = ""

    @property
    def label(self) -> str:
        """Its name with that of its group."""
        return f"{self.group}, {self.name}" if self.group else self.name

    @property
    def link(self) -> str:
        """To the report of its first run that has one."""
        return next((run.link for run in self.runs if run.link), "")


def load_page_run(folder: Path, page: Path, *, seed: str = "", explained: bool = True) -> PageRun:
    """Read a run folder, finished or not; `page` is the file that will link to it. Where time went is only told if `explained`."""
    spec, events, ended = open_run(folder)
    curve, tasks = learning_curve(events), task_table(events)
    clients = next((e.clients for e in events if isinstance(e, RunBegan)), 0)
    unused = tasks.clients[(tasks.fate != RUNNING) & (tasks.fate != FOLDED)]
    return PageRun(
        seed=seed or str(spec.seed), link=link_to(folder, page), out=folder, table=spec.table(), metrics=_metrics(folder, events),
        seconds=curve.seconds, accuracy=curve.accuracy, end=float(events[-1].time) if events else 0.0, ended=ended,
        first=next((float(e.time) for e in events if isinstance(e, ModelCommitted)), None),
        samples=_usual_samples(tasks),
        used=contributions(tasks, clients), late=np.bincount(unused, minlength=clients),
        causes=_causes(folder, spec, events) if explained else {}, served=is_network_run(folder),
        model_bytes=float(tasks.bytes_down.max(initial=0.0)),
    )  # fmt: skip


def _usual_samples(tasks: Tasks) -> float:
    """What a task trains on: the mean over people of their own means, since who is asked often is no measure of the fleet."""
    times = np.bincount(tasks.clients)
    clients = np.flatnonzero(times)
    totals = np.bincount(tasks.clients, weights=tasks.samples)
    return float((totals[clients] / times[clients]).mean()) if len(clients) else 0.0


def link_to(folder: Path, page: Path) -> str:
    """The address of a run's report, relative to a page; empty if the run has no report."""
    report = folder / REPORT
    if not report.is_file():
        return ""
    way = Path(os.path.relpath(report.resolve(), page.resolve().parent)).as_posix()
    # A name may have # ? % in it, or a colon, which would make it another kind of address.
    return quote(os.fsencode(way))


def _metrics(folder: Path, events: Sequence[Event]) -> dict[str, Any]:
    """The sealed measures, or those of the journal so far."""
    try:
        return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {**summary(events, chance=stored_chance(folder)), "digest": digest_of(folder / "run.db")}


def _causes(folder: Path, spec: Spec, events: list[Event]) -> dict[str, float]:
    """Where the time of a run went; nothing if no time has passed."""
    if not events:
        return {}
    try:
        result = attribution(events) if is_network_run(folder) else attribute_simulated(spec, events)
    except FedFleetError:
        return {}
    return {cause: seconds for cause, seconds in result.causes.items() if seconds > 0}


def is_network_run(folder: Path) -> bool:
    """Whether a run was served over a network, so that its time is real."""
    return kind_of(identity_of(folder / "run.db")) == "served"


def clock_name(sides: Sequence[Side]) -> str:
    """What passes in these runs: virtual time, real time, or where both meet just time."""
    result = {one.served for side in sides for one in side.runs}
    return "time" if len(result) > 1 else "real time" if result == {True} else "virtual time"
