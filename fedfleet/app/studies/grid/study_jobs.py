"""Having the runs of a study done: in worker processes, on a Ray cluster, or here; finished ones are left alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from fedfleet.app.runs import perform
from fedfleet.app.spec import Spec
from fedfleet.app.studies.grid.expansion import Cell
from fedfleet.app.studies.grid.joint_jobs import groups
from fedfleet.app.studies.grid.run_cache import sealed
from fedfleet.app.studies.grid.stack_forms import kept_forms
from fedfleet.app.studies.grid.study_worker import piece_of, told_by, work
from fedfleet.executors.worker_pool import Body, Said, Tell, Work, answered, crew

LOG = "workers.log"
_LOST = "a Ray worker finished it, but not in this folder; give an --out that all machines of the cluster share"
_HERE = Path(__file__).parents[4]  # what this package lies in


@dataclass(frozen=True, slots=True)
class Means:
    """By what the runs are done: so many processes (1: this one; 0: as many as there is room for), or a Ray cluster, at an address
    or started here. `work` is what is done with a group of runs: a function of a module that attends when it is started."""

    workers: int
    ray: bool = False
    address: str | None = None
    work: Work = work


@dataclass(frozen=True, slots=True)
class Heard:
    """News of one run, by its place: the round it is in, or that it is over. `again`: how many of its workers died so far."""

    cell: int
    round: int = 0
    over: bool = False
    failure: str = ""
    again: int = 0


Hear = Callable[[Heard], None]


def carried_out(
    cells: Sequence[Cell], outs: Sequence[Path], means: Means, *, log: Path, hear: Hear = lambda news: None
) -> list[str]:
    """Finish every run in its folder; for each the reason why it could not be, "" where it is finished.

    What one run cannot do stops no other. Whatever is interrupted goes on when it is carried out again.
    """
    failures = [""] * len(cells)

    def heard(news: Heard) -> None:
        if news.over:
            failures[news.cell] = news.failure
        hear(news)

    left = [i for i, out in enumerate(outs) if not sealed(out)]
    own, rest = [i for i in left if cells[i].own], [i for i in left if not cells[i].own]
    for i in own:
        _mine(cells[i], outs[i], i, log, heard)
    if rest:
        specs = [cells[i].spec for i in rest]
        with _hands(means, specs, log) as hands:
            parts = [[rest[i] for i in group] for group in groups(specs, workers=hands.workers)]
            given_up = _parts(cells, outs, parts, hands, log, heard)
            _parts(cells, outs, [[i] for part in given_up for i in part], hands, log, heard)  # to find out which it is
    return failures


@dataclass(frozen=True, slots=True)
class _Hands:
    """Those who do pieces: how many, and what they say of them; the function is what hears those who say it on the way.

    `afar`: they may be on other machines, whose folders are not ours unless someone shares them.
    """

    workers: int
    said: Callable[[Sequence[Body], Callable[[Body, int], None]], Generator[Said]]
    afar: bool = False


@contextmanager
def _hands(means: Means, specs: Sequence[Spec], log: Path) -> Iterator[_Hands]:
    """Processes, a Ray cluster that is there as long as it is needed, or this process."""
    if means.ray:
        from fedfleet.executors.ray import connect
        from fedfleet.executors.ray_jobs import errands

        gpus = 1 if any(spec.run["device"] == "cuda" for spec in specs) else 0
        cluster = connect(means.workers or None, means.address, max(spec.run["threads"] for spec in specs))
        try:
            yield _Hands(cluster.workers, lambda pieces, _: errands(cluster, means.work, pieces, gpus=gpus), afar=True)
        finally:
            cluster.close()
    elif means.workers > 1:
        # Wherever we were found, a worker finds us too; and -P, so that no module of the folder we are in hides one of ours.
        command = (sys.executable, "-P", "-m", means.work.__module__)
        here = os.pathsep.join(filter(None, (str(_HERE), os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": here}
        yield _Hands(means.workers, lambda pieces, _: crew(command, pieces, means.workers, log=log, env=env))
    else:
        yield _Hands(1, lambda pieces, passed_on: _here(pieces, means.work, log, passed_on))


def _here(pieces: Sequence[Body], work: Work, log: Path, passed_on: Callable[[Body, int], None]) -> Generator[Said]:
    for k, piece in enumerate(pieces):
        with log.open("a", encoding="utf-8") as file, redirect_stderr(file):
            body = answered(work, piece, lambda body, k=k: passed_on(body, k))
        yield Said(k, body, ended=True, failure=body.pop("failure", ""))


def _parts(
    cells: Sequence[Cell], outs: Sequence[Path], parts: Sequence[Sequence[int]], hands: _Hands, log: Path, heard: Hear
) -> list[Sequence[int]]:
    """Have these groups done; those of several runs that nobody came back from are the answer, and not over yet."""
    given_up: list[Sequence[int]] = []
    if not parts:
        return given_up
    forms = kept_forms(log.parent, [cells[part[0]].spec for part in parts])
    both = zip(parts, forms, strict=True)
    pieces = [piece_of([cells[i].spec for i in part], [outs[i] for i in part], form) for part, form in both]
    with closing(hands.said(pieces, lambda body, k: _passed_on(body, parts[k], heard))) as news:
        for said in news:
            part = parts[said.piece]
            if not said.ended:
                _passed_on(said.body, part, heard, said.died)
            elif said.died and said.failure and len(part) > 1:
                given_up.append(part)
            else:
                reasons = said.body.get("failures", [said.failure] * len(part))
                for i, reason in zip(part, reasons, strict=True):
                    lost = hands.afar and not reason and not sealed(outs[i])
                    heard(Heard(i, over=True, failure=_LOST if lost else reason, again=said.died))
    return given_up


def _passed_on(body: Body, part: Sequence[int], heard: Hear, died: int = 0) -> None:
    """What a worker said on the way, of the run that it said it of; of all where it only died."""
    for i in [part[body["run"]]] if "run" in body else part:
        heard(Heard(i, body.get("round", 0), over=body.get("over", False), again=died))


def _mine(cell: Cell, out: Path, i: int, log: Path, heard: Hear) -> None:
    """A run of a model that only this process has."""

    def alone(_: Body, tell: Tell) -> Body:
        watch = told_by(tell)
        perform(cell.spec, out, resume=True, own=cell.own, watch=lambda events: watch(0, events))
        return {}

    with log.open("a", encoding="utf-8") as file, redirect_stderr(file):
        body = answered(alone, {}, lambda body: _passed_on(body, [i], heard))
    heard(Heard(i, over=True, failure=body.get("failure", "")))
