"""Having the runs of a study done: in worker processes, on a Ray cluster, or here; finished ones are left alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from fedfleet.app.runs import perform
from fedfleet.app.spec import Spec
from fedfleet.app.studies.grid.joint_jobs import joint_groups, load_forms
from fedfleet.app.studies.grid.study_runs import Cell, has_seal
from fedfleet.app.studies.grid.study_worker import piece_of, progress_listener, work
from fedfleet.executors.worker_pool import (
    Body,
    Tell,
    Work,
    WorkerMessage,
    WorkerPool,
    answer_piece,
    run_in_workers,
)

LOG = "workers.log"
_NOT_SHARED = "a Ray worker finished it, but not in this folder; give an --out that all machines of the cluster share"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """By what the runs are done: so many processes (1: this one; 0: as many as there is room for), or a Ray cluster, at an address
    or started here. `work` is what is done with a group of runs: a function of a module. `pool`: workers
    that are there already, used if they are as many."""

    workers: int
    ray: bool = False
    address: str | None = None
    work: Work = work
    pool: WorkerPool | None = None


@dataclass(frozen=True, slots=True)
class RunNews:
    """News of one run, by its place: the round it is in, or that it is over. `again`: how many of its workers died so far."""

    cell: int
    round: int = 0
    is_over: bool = False
    failure: str = ""
    worker_deaths: int = 0


NewsListener = Callable[[RunNews], None]


def carry_out_runs(
    cells: Sequence[Cell],
    outs: Sequence[Path],
    worker_settings: WorkerSettings,
    *,
    log: Path,
    on_news: NewsListener = lambda news: None,
    turns: Sequence[str] = (),
) -> list[str]:
    """Finish every run in its folder; for each the reason why it could not be, "" where it is finished.

    What one run cannot do stops no other. Whatever is interrupted goes on when it is carried out again. `turns` names for each run
    the part of the study that it belongs to: one part is begun after the other, so that its result is there early.
    """
    failures = [""] * len(cells)

    def record_news(news: RunNews) -> None:
        if news.is_over:
            failures[news.cell] = news.failure
        on_news(news)

    pending = [i for i, out in enumerate(outs) if not has_seal(out)]
    own, rest = [i for i in pending if cells[i].own], [i for i in pending if not cells[i].own]
    for i in own:
        _run_here(cells[i], outs[i], i, log, record_news)
    if rest:
        specs = [cells[i].spec for i in rest]
        with _open_workforce(worker_settings, specs, log) as workforce:
            parts = list[list[int]]()
            for turn in dict.fromkeys(turns) or [""]:
                members = [i for i in rest if not turns or turns[i] == turn]
                groups = joint_groups([cells[i].spec for i in members], workers=workforce.workers)
                parts += [[members[k] for k in group] for group in groups]
            lost_parts = _run_parts(cells, outs, parts, workforce, log, record_news)
            _run_parts(
                cells, outs, [[i] for part in lost_parts for i in part], workforce, log, record_news
            )  # to find out which it is
    return failures


@dataclass(frozen=True, slots=True)
class _Workforce:
    """Workers that perform pieces: how many, and the function that yields their messages and passes on those of their progress.

    `remote`: they may be on other machines, which need not share our folders.
    """

    workers: int
    run_pieces: Callable[[Sequence[Body], Callable[[Body, int], None]], Generator[WorkerMessage]]
    remote: bool = False


@contextmanager
def _open_workforce(worker_settings: WorkerSettings, specs: Sequence[Spec], log: Path) -> Iterator[_Workforce]:
    """Processes, a Ray cluster that is there as long as it is needed, or this process."""
    if worker_settings.ray:
        from fedfleet.executors.ray import connect
        from fedfleet.executors.ray_jobs import run_ray_jobs

        gpus = 1 if any(spec.run["device"] == "cuda" for spec in specs) else 0
        cluster = connect(worker_settings.workers or None, worker_settings.address, max(spec.run["threads"] for spec in specs))
        try:
            yield _Workforce(
                cluster.workers, lambda pieces, _: run_ray_jobs(cluster, worker_settings.work, pieces, gpus=gpus), remote=True
            )
        finally:
            cluster.close()
    elif (pool := worker_settings.pool) is not None and len(pool.workers) == worker_settings.workers:
        pool.log_to(log)
        yield _Workforce(worker_settings.workers, lambda pieces, _: pool(pieces))
    elif worker_settings.workers > 1:
        yield _Workforce(
            worker_settings.workers,
            lambda pieces, _: run_in_workers(worker_settings.work, pieces, worker_settings.workers, log=log),
        )
    else:
        yield _Workforce(1, lambda pieces, passed_on: _run_in_process(pieces, worker_settings.work, log, passed_on))


def _run_in_process(
    pieces: Sequence[Body], work: Work, log: Path, on_message: Callable[[Body, int], None]
) -> Generator[WorkerMessage]:
    for k, piece in enumerate(pieces):
        with log.open("a", encoding="utf-8") as file, redirect_stderr(file):
            body = answer_piece(work, piece, lambda body, k=k: on_message(body, k))
        yield WorkerMessage(k, body, ended=True, failure=body.pop("failure", ""))


def _run_parts(
    cells: Sequence[Cell],
    outs: Sequence[Path],
    parts: Sequence[Sequence[int]],
    workforce: _Workforce,
    log: Path,
    on_news: NewsListener,
) -> list[Sequence[int]]:
    """Perform these groups; the answer are those of several runs whose worker died, which are not over yet."""
    lost_parts: list[Sequence[int]] = []
    if not parts:
        return lost_parts
    forms = load_forms(log.parent, [cells[part[0]].spec for part in parts])
    part_forms = zip(parts, forms, strict=True)
    pieces = [piece_of([cells[i].spec for i in part], [outs[i] for i in part], form) for part, form in part_forms]
    with closing(workforce.run_pieces(pieces, lambda body, k: _forward_message(body, parts[k], on_news))) as messages:
        for message in messages:
            part = parts[message.piece]
            if not message.ended:
                _forward_message(message.body, part, on_news, message.deaths)
            elif message.deaths and message.failure and len(part) > 1:
                lost_parts.append(part)
            else:
                reasons = message.body.get("failures", [message.failure] * len(part))
                for i, reason in zip(part, reasons, strict=True):
                    is_missing = workforce.remote and not reason and not has_seal(outs[i])
                    on_news(RunNews(i, is_over=True, failure=_NOT_SHARED if is_missing else reason, worker_deaths=message.deaths))
    return lost_parts


def _forward_message(body: Body, part: Sequence[int], on_news: NewsListener, died: int = 0) -> None:
    """Pass on a message of a worker to the run that it is about; to all of the piece where the worker died."""
    for i in [part[body["run"]]] if "run" in body else part:
        on_news(RunNews(i, body.get("round", 0), is_over=body.get("over", False), worker_deaths=died))


def _run_here(cell: Cell, out: Path, i: int, log: Path, on_news: NewsListener) -> None:
    """A run of a model that only this process has."""

    def perform_alone(_: Body, tell: Tell) -> Body:
        watch = progress_listener(tell)
        perform(cell.spec, out, resume=True, custom_task=cell.own, watch=lambda events: watch(0, events))
        return {}

    with log.open("a", encoding="utf-8") as file, redirect_stderr(file):
        body = answer_piece(perform_alone, {}, lambda body: _forward_message(body, [i], on_news))
    on_news(RunNews(i, is_over=True, failure=body.get("failure", "")))
