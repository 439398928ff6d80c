"""A search from its declaration to its answer: trials here or in processes, what was begun before goes on, the best is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.runs.run_folder import claim_folder, make_folder
from fedfleet.app.studies.tune.search_file import Search, grid_points, search_of
from fedfleet.app.studies.tune.search_result import FILE, Row, Tuned, collect_result, trial_rows
from fedfleet.app.studies.tune.search_store import DATABASE, close_study, enqueue_grid, import_optuna, open_study, silence_warnings
from fedfleet.app.studies.tune.trial import LOG, TRIALS, run_trial, take_trial
from fedfleet.core.errors import RunFailed
from fedfleet.executors.worker_pool import run_in_workers
from fedfleet.store.files import write_atomically
from fedfleet.store.lock import LOCK, hold_lock

BEST = "best.toml"
_OWN_FILES = {DATABASE, TRIALS, LOG, FILE, BEST, LOCK, "report.html", "workers.log"}

RowListener = Callable[[Row], None]


def default_folder(name: str) -> Path:
    """The folder of a search without --out."""
    return Path("runs") / f"{name}-tune"


def tune(
    search: Search,
    out: Path,
    *,
    workers: int = 1,
    on_row: RowListener = lambda row: None,
    prepare: Callable[[], None] = lambda: None,
) -> Tuned:
    """Carry out a search in a folder: trials that have ended stay, those that were interrupted go on, the others are begun.

    `on_row` receives every trial that ends; `prepare` is called once the folder is there and nothing has begun. With
    one worker the same search gives the same answer, however often it was killed.
    """
    import_optuna()
    if search.sampler == "grid":
        grid_points(search.space)  # before anything is written
    search.spec({}, search.seeds[0])
    claim_folder(out, "search", marker=DATABASE, known=_OWN_FILES)
    make_folder(out / TRIALS)
    with hold_lock(out):
        study = open_study(out, search)
        try:
            prepare()
            enqueue_grid(study, search)
            _run_trials(study, search, out, workers, on_row)
            with silence_warnings():
                result = collect_result(study, search, out)
        finally:
            close_study(study)
        _write_result(search, result, out)
    return result


def _run_trials(study: Any, search: Search, out: Path, workers: int, on_row: RowListener) -> None:
    todo = _missing_trials(study, search)
    if workers > 1 and len(todo) > 1:
        _in_processes(study, search, out, todo, workers, on_row)
        return
    for turn, number in todo:
        trial = take_trial(study, search, turn, number)
        run_trial(study, search, trial, out)
        on_row(trial_rows(study, search, [trial.number])[0])


def _missing_trials(study: Any, search: Search) -> list[tuple[int, int | None]]:
    """What is left to do: a turn for each trial that is missing, with its number if it was begun already."""
    state = import_optuna().trial.TrialState
    trials = study.get_trials(deepcopy=False)
    ended = sum(t.state.is_finished() for t in trials)
    started = [t.number for t in trials if t.state == state.RUNNING]
    waiting = sum(t.state == state.WAITING for t in trials)
    wanted = max(search.trials - ended - len(started), 0)
    new = min(wanted, waiting) if search.sampler == "grid" else wanted
    numbers: list[int | None] = [*started, *([None] * new)]
    return [(ended + i, number) for i, number in enumerate(numbers)]


def _in_processes(
    study: Any, search: Search, out: Path, todo: Sequence[tuple[int, int | None]], workers: int, on_row: RowListener
) -> None:
    """Perform trials in processes that share the database; a trial whose process died has failed."""
    pieces = [piece_of(search, out, turn, number) for turn, number in todo]
    message_stream = run_in_workers(run_piece, pieces, workers, log=out / "workers.log")
    trial_of_piece, reasons = dict[int, int](), dict[int | None, str]()
    with closing(message_stream) as messages:  # pyright: ignore[reportArgumentType]
        for message in messages:
            if "trial" in message.body:
                trial_of_piece[message.piece] = message.body["trial"]
            if message.ended and not message.failure:
                on_row(trial_rows(study, search, [message.body["trial"]])[0])
            elif message.ended:
                reasons[trial_of_piece.get(message.piece)] = message.failure
    state = import_optuna().trial.TrialState
    for frozen in study.get_trials(deepcopy=False):
        if frozen.state == state.RUNNING:
            trial = import_optuna().trial.Trial(study, frozen._trial_id)
            reason = reasons.get(frozen.number, "its worker died")
            trial.set_user_attr("reason", f"{reason}; for details see {out / 'workers.log'}")
            study.tell(trial, state=state.FAIL)
    if None in reasons:
        raise RunFailed(
            f"a trial could not start: {reasons[None]}; for details see {out / 'workers.log'}; the other trials are kept"
        )


def piece_of(search: Search, out: Path, turn: int, number: int | None = None) -> dict[str, Any]:
    """One trial as a worker gets it: the search as it was declared, and which of its trials is resumed, if any."""
    options = {"sampler": search.sampler, "pruner": search.pruner, "trials": search.trials}
    table = json.dumps({**search.base, "tune": search.declared})
    return {"table": table, "name": search.name, "asked": options, "out": str(out.resolve()), "turn": turn, "trial": number}


def run_piece(piece: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Carry out one trial in a worker; its result is in the study."""
    search, out = replace(search_of(json.loads(piece["table"]), piece["name"]), **piece["asked"]), Path(piece["out"])
    study = open_study(out, search)
    try:
        trial = take_trial(study, search, piece["turn"], piece["trial"])
        tell({"trial": trial.number})
        run_trial(study, search, trial, out)
        return {"trial": trial.number}
    finally:
        close_study(study)


def _write_result(search: Search, result: Tuned, out: Path) -> None:
    """The answer as JSON, and the spec with the best values, which can be run as it is."""
    write_atomically(out / FILE, result.text().encode())
    best = result.winner
    if best is not None:
        values = {} if best.default else best.values
        base_seed = search.base.get(
            "seed", 0
        )  # where that was one of the seeds, the file is the spec with other values and no more
        spec = search.spec(values, base_seed if base_seed in search.seeds else search.seeds[0])
        write_atomically(out / BEST, spec.toml().encode())
