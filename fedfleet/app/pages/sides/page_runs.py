"""What a page of several runs shows: each run, read from its folder once, and the sides that runs of different seeds form."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from fedfleet.app.runs import open_run, stored_score
from fedfleet.app.runs.explanation import attribute_simulated
from fedfleet.app.spec import Spec
from fedfleet.app.studies.compare.arms import arm_names
from fedfleet.app.studies.compare.records import Arm
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event
from fedfleet.core.json_text import parse_json
from fedfleet.core.records import FOLDED, Floats, Ints
from fedfleet.measure.accuracy import learning_curve
from fedfleet.measure.attribution.critical_path import attribution
from fedfleet.measure.goal import Target, evaluations_at
from fedfleet.measure.participation import contributions
from fedfleet.measure.run_progress import COMMITTED
from fedfleet.measure.run_record import read_record
from fedfleet.measure.score_info import ScoreInfo, score_info_of
from fedfleet.measure.summary import summary
from fedfleet.measure.tasks import RUNNING, Tasks
from fedfleet.store.journal import digest_of, identity_of
from fedfleet.store.seals import kind_of

REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class PageRun:
    """One run. Accuracy, the score of whatever kind of task, is a step: from seconds[i] on it is accuracy[i]; so are `measures`.

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
    measures: Mapping[str, Floats] = field(default_factory=dict[str, Floats])

    @property
    def score(self) -> ScoreInfo:
        """What its score is called, and how it is read."""
        return score_info_of(self.metrics)

    def has_model(self, seconds: float | None) -> bool:
        """Had a model been made by then; None: at the end?"""
        return self.first is not None and (seconds is None or self.first <= seconds)

    def accuracy_at(self, seconds: float) -> float | None:
        """Accuracy of what a user holds then: the last model that was tried, before the first one the first weights, or chance where
        nobody tried them."""
        known = int(np.searchsorted(self.seconds, seconds, side="right"))
        return float(self.accuracy[known - 1]) if known else self._chance(seconds)

    def _chance(self, seconds: float | None) -> float | None:
        chance = self.metrics.get("chance")
        return None if self.has_model(seconds) or chance is None else float(chance)

    def seconds_to(self, target: Target) -> float | None:
        """When an evaluation first had reached this score, or this limit of a measure; None if none did."""
        indices = evaluations_at(target, self.accuracy, self.measures)
        return float(self.seconds[indices[0]]) if len(indices) else None

    @property
    def last(self) -> float | None:
        """Accuracy of the last model; of a run that made none as in `accuracy_at`."""
        return float(self.accuracy[-1]) if len(self.accuracy) else self._chance(None)


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
    def score(self) -> ScoreInfo:
        """What the score of its runs is called."""
        return self.runs[0].score if self.runs else ScoreInfo()

    @property
    def label(self) -> str:
        """Its name with that of its group."""
        return f"{self.group}, {self.name}" if self.group else self.name

    @property
    def link(self) -> str:
        """To the report of its first run that has one."""
        return next((run.link for run in self.runs if run.link), "")


def load_page_run(folder: Path, page: Path, *, seed: str = "", explained: bool = True) -> PageRun:
    """Read a run folder, finished or not; `page` is the file that will link to it. Where its time went is found only if `explained`."""
    spec, events, ended = open_run(folder)
    record = read_record(events)
    curve, tasks, clients = learning_curve(record.progress), record.tasks.table(), record.progress.clients
    unused = tasks.clients[(tasks.fate != RUNNING) & (tasks.fate != FOLDED)]
    return PageRun(
        seed=seed or str(spec.seed), link=link_to(folder, page), out=folder, table=spec.table(), metrics=_metrics(folder, events),
        seconds=curve.seconds, accuracy=curve.accuracy, end=float(events[-1].time) if events else 0.0, ended=ended,
        first=next((r.closed for r in record.progress.rounds if r.outcome == COMMITTED), None),
        samples=_usual_samples(tasks),
        used=contributions(tasks, clients), late=np.bincount(unused, minlength=clients),
        causes=_causes(folder, spec, events) if explained else {}, served=is_network_run(folder),
        model_bytes=float(tasks.bytes_down.max(initial=0.0)), measures=curve.measures,
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
        return parse_json((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {**summary(events, score=stored_score(folder)), "digest": digest_of(folder / "run.db")}


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


COLOURS = 5  # of series
PANELS, LONGEST = 4, 48  # groups side by side, and characters of a name among several


def group_arms(arms: Sequence[Arm]) -> dict[str, tuple[Arm, ...]]:
    """Arms by their world, each with a name that is unique in its group.

    Only where arms differ in their world and in something else too; else all are one group without a name.
    """
    worlds, rests = ([{k: v for k, v in arm.keys.items() if k.startswith("world.") == of} for arm in arms] for of in (True, False))
    if len(_distinct(worlds)) < 2 or len(_distinct(rests)) < 2:
        return {"": tuple(arms)}
    groups, names = _short_names(worlds), _short_names(rests)
    if len(groups) > PANELS or max(map(len, [*groups.values(), *names.values()])) > LONGEST:
        return {"": tuple(arms)}  # as many worlds as arms, or words that fill the page: each arm for itself
    result: dict[str, list[Arm]] = {}
    for arm, world, rest in zip(arms, worlds, rests, strict=True):
        result.setdefault(groups[_row_key(world)], []).append(replace(arm, name=names[_row_key(rest)]))
    return {group: tuple(members) for group, members in result.items()}


def _distinct(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(map(_row_key, rows)))


def _short_names(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    first = {_row_key(row): row for row in reversed(rows)}
    words = _distinct(rows)
    return dict(zip(words, arm_names([first[word] for word in words]), strict=True))


def _row_key(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def colour_sides(groups: Mapping[str, Sequence[tuple[str, tuple[PageRun, ...]]]]) -> list[Side]:
    """Sides with their colours: a group has one colour and its second side thin lines; without groups, each side has its own."""
    alone, sides = len(groups) == 1, list[Side]()
    for g, (group, members) in enumerate(groups.items()):
        for i, (name, runs) in enumerate(members):
            colour, thin = (i % COLOURS, i // COLOURS % 2) if alone else (g % COLOURS, i % 2)
            sides.append(Side(name, runs, 1 + colour, bool(thin), group))
    return sides


def sides_of(groups: Mapping[str, tuple[Arm, ...]], page_runs: Mapping[Path, PageRun]) -> list[Side]:
    """The sides of a comparison, from its grouped arms and what was read of each run."""
    read = {group: [(a.name, tuple(page_runs[run.out] for run in a.runs)) for a in arms] for group, arms in groups.items()}
    return colour_sides(read)
