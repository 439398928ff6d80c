"""A search from its declaration to its answer: trials here or in processes, what was begun before goes on, the best is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fedfleet.app.runs.run_folder import make_folder
from fedfleet.app.studies.tune.search_file import Search, grid
from fedfleet.app.studies.tune.search_result import FILE, Row, Tuned, rows_of, tuned
from fedfleet.app.studies.tune.search_store import DATABASE, close, opened, optuna, planned, quietly
from fedfleet.app.studies.tune.search_worker import COMMAND, piece_of
from fedfleet.app.studies.tune.trial import LOG, TRIALS, attempt, take
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors.worker_pool import crew
from fedfleet.store.files import write_whole
from fedfleet.store.lock import LOCK, locked

BEST = "best.toml"
_OURS = {DATABASE, TRIALS, LOG, FILE, BEST, LOCK, "report.html", "workers.log"}
_HERE = Path(__file__).parents[4]  # what this package lies in

Hear = Callable[[Row], None]


def place_of(name: str) -> Path:
    """The folder of a search for which nobody named one."""
    return Path("runs") / f"{name}-tune"


def tune(
    search: Search,
    out: Path,
    *,
    workers: int = 1,
    hear: Hear = lambda row: None,
    prepare: Callable[[], None] = lambda: None,
) -> Tuned:
    """Carry out a search in a folder: trials that have ended stay, those that were interrupted go on, the others are begun.

    `hear` is told of every trial that ends; `prepare` is called once the folder is there and nothing has begun. With
    one worker the same search gives the same answer, however often it was killed.
    """
    optuna()
    if search.sampler == "grid":
        grid(search.space)  # before anything is written
    search.spec({}, search.seeds[0])
    _take(out)
    with locked(out):
        study = opened(out, search)
        try:
            prepare()
            planned(study, search)
            _carry_out(study, search, out, workers, hear)
            with quietly():
                found = tuned(study, search, out)
        finally:
            close(study)
        _write(search, found, out)
    return found


def _carry_out(study: Any, search: Search, out: Path, workers: int, hear: Hear) -> None:
    todo = _missing(study, search)
    if workers > 1 and len(todo) > 1:
        _in_processes(study, search, out, todo, workers, hear)
        return
    for turn, number in todo:
        trial = take(study, search, turn, number)
        attempt(study, search, trial, out)
        hear(rows_of(study, search, [trial.number])[0])


def _missing(study: Any, search: Search) -> list[tuple[int, int | None]]:
    """What is left to do: a turn for each trial that is missing, with its number if it was begun already."""
    state = optuna().trial.TrialState
    there = study.get_trials(deepcopy=False)
    ended = sum(t.state.is_finished() for t in there)
    begun = [t.number for t in there if t.state == state.RUNNING]
    waiting = sum(t.state == state.WAITING for t in there)
    wanted = max(search.trials - ended - len(begun), 0)
    fresh = min(wanted, waiting) if search.sampler == "grid" else wanted
    numbers: list[int | None] = [*begun, *([None] * fresh)]
    return [(ended + i, number) for i, number in enumerate(numbers)]


def _in_processes(
    study: Any, search: Search, out: Path, todo: Sequence[tuple[int, int | None]], workers: int, hear: Hear
) -> None:
    """Have trials done by processes that share the database; one whose process died is told as failed."""
    pieces = [piece_of(search, out, turn, number) for turn, number in todo]
    here = os.pathsep.join(filter(None, (str(_HERE), os.environ.get("PYTHONPATH"))))
    said = crew(COMMAND, pieces, workers, log=out / "workers.log", env={**os.environ, "PYTHONPATH": here})
    taken, why = dict[int, int](), dict[int | None, str]()
    with closing(said) as news:  # pyright: ignore[reportArgumentType]
        for one in news:
            if "trial" in one.body:
                taken[one.piece] = one.body["trial"]
            if one.ended and not one.failure:
                hear(rows_of(study, search, [one.body["trial"]])[0])
            elif one.ended:
                why[taken.get(one.piece)] = one.failure
    state = optuna().trial.TrialState
    for left in study.get_trials(deepcopy=False):
        if left.state == state.RUNNING:
            trial = optuna().trial.Trial(study, left._trial_id)
            how = why.get(left.number, "its worker died")
            trial.set_user_attr("reason", f"{how}; {out / 'workers.log'} says more")
            study.tell(trial, state=state.FAIL)
    if None in why:
        raise RunFailed(
            f"a trial could not be begun: {why[None]}; {out / 'workers.log'} says more, and the others are kept"
        )


def _take(out: Path) -> None:
    """Refuse a folder that is not a search's, and make a new one."""
    try:
        there = {p.name for p in out.iterdir()} if out.is_dir() else set[str]()
    except OSError as wrong:
        raise BadInput(f"--out: cannot read {out}: {wrong.strerror}; choose another folder") from None
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out: {out} is a file; name a folder")
    strange = sorted(name for name in there - _OURS if not name.startswith(DATABASE) and not name.endswith(".part"))
    if strange and DATABASE not in there:
        raise BadInput(f"--out: {out} holds something else than a search ({strange[0]}); choose another folder")
    make_folder(out / TRIALS)


def _write(search: Search, found: Tuned, out: Path) -> None:
    """The answer as JSON, and the spec with the best values, which can be run as it is."""
    write_whole(out / FILE, found.text().encode())
    best = found.winner
    if best is not None:
        values = {} if best.default else best.values
        own = search.base.get(
            "seed", 0
        )  # where that was one of the seeds, the file is the spec with other values and no more
        spec = search.spec(values, own if own in search.seeds else search.seeds[0])
        write_whole(out / BEST, spec.toml().encode())
