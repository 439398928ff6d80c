"""One trial of a search: its values, a run with each seed, and early stopping inside a run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedfleet.app.runs import FinishedRun, perform
from fedfleet.app.runs.custom_task import CustomTask
from fedfleet.app.spec import Spec
from fedfleet.app.studies.tune.aims import Aim
from fedfleet.app.studies.tune.search_file import Search
from fedfleet.app.studies.tune.search_store import PROGRESS_MARKS, import_optuna, seed_sampler, silence_warnings, suggest_value
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import Evaluated, Event, ModelCommitted, RoundFailed
from fedfleet.measure.score_info import ScoreInfo, kind_of_measures, score_info_of
from fedfleet.store.files import write_atomically

TRIALS, LOG, PRUNED_FILE = "trials", "trials.log", "pruned.json"
EventListener = Callable[[Sequence[Event]], None]


class TrialPruned(FedFleetError):
    """A trial is stopped early: others did better by then."""


@dataclass(slots=True)
class TrialProgress:
    """How far a run of a trial is: rounds so far, and up to which mark it has been compared."""

    rounds: int = 0
    mark: int = 0


def take_trial(study: Any, search: Search, turn: int, number: int | None = None) -> Any:
    """The next trial of a study, or again the unfinished one of this number."""
    seed_sampler(study, search, turn)
    with silence_warnings():
        if number is None:
            return study.ask()
        unfinished = study.get_trials(deepcopy=False)[number]
        return import_optuna().trial.Trial(
            study, unfinished._trial_id
        )  # the values that it has stay; the others are drawn as before


def run_trial(study: Any, search: Search, trial: Any, out: Path) -> None:
    """Perform a trial and report to the study how it ended: a value, stopped early, or the reason why it has none."""
    states = import_optuna().trial.TrialState
    with silence_warnings(), (out / LOG).open("a", encoding="utf-8") as log, redirect_stderr(log):
        default = trial.user_attrs.get("default", False)
        inside = trial.user_attrs.get("inside", True)
        values = {axis.key: suggest_value(trial, axis) for axis in search.space} if inside else search.defaults()
        trial.set_user_attr("values", values)
        try:
            specs = [search.resolve_run({} if default else values, seed) for seed in search.seeds]
            twin = _same_spec_trial(study, trial, specs[0][0].digest)
            trial.set_user_attr("digest", specs[0][0].digest)
            if twin is not None:
                _report_value(study, trial, twin.user_attrs["value"], inside=inside, same_as=twin.number)
                return
            value = _trial_value(search.aim, trial, specs, out / TRIALS / str(trial.number))
            _report_value(study, trial, value, inside=inside)
        except TrialPruned as pruned:
            trial.set_user_attr("reason", str(pruned))
            study.tell(trial, state=states.PRUNED)
        except FedFleetError as error:
            trial.set_user_attr("reason", str(error))
            study.tell(trial, state=states.FAIL)
        except Exception as error:  # of a part; the search goes on without this trial, which says why
            trial.set_user_attr("reason", f"{type(error).__name__}: {error}")
            study.tell(trial, state=states.FAIL)


def _report_value(study: Any, trial: Any, value: float, *, inside: bool, same_as: int | None = None) -> None:
    """A spec that lies outside of the space has a value, but its trial teaches nothing about the space."""
    trial.set_user_attr("value", value if math.isfinite(value) else None)
    if same_as is not None:
        trial.set_user_attr("same_as", same_as)
    state = import_optuna().trial.TrialState
    study.tell(trial, value) if inside else study.tell(trial, state=state.FAIL)


def _same_spec_trial(study: Any, trial: Any, digest: str) -> Any:
    """An earlier trial of the same spec, which need not be run again."""
    for other in study.get_trials(deepcopy=False):
        known = other.user_attrs.get("value") is not None and other.number != trial.number
        if known and other.user_attrs.get("digest") == digest:
            return other
    return None


def _trial_value(aim: Aim, trial: Any, specs: Sequence[tuple[Spec, CustomTask | None]], folder: Path) -> float:
    """The mean of the aim over a trial's seeds; whatever has been finished before is read."""
    result: list[float] = []
    rounds = 0
    for j, (spec, own) in enumerate(specs):
        out = folder if len(specs) == 1 else folder / f"seed-{spec.seed}"
        progress = TrialProgress()
        try:
            run = perform(spec, out, resume=True, custom_task=own, watch=_pruning_listener(aim, trial, spec, progress, result, j))
        except TrialPruned as pruned:
            trial.set_user_attr("rounds", rounds + progress.rounds)
            record = {"trial": trial.number, "pruned_after_rounds": progress.rounds, "seed": spec.seed, "reason": str(pruned)}
            write_atomically(out / PRUNED_FILE, (json.dumps(record, indent=1) + "\n").encode())
            raise
        trial.set_user_attr("kind", score_info_of(run.metrics).kind.name)
        rounds += run.metrics["rounds"]
        trial.set_user_attr("rounds", rounds)
        result.append(_run_value(aim, run))
    return sum(result) / len(result)


def trial_runs(out: Path, number: int) -> dict[str, Path]:
    """The folders of a trial's runs that have begun, by names; none if another trial has the same spec."""
    folder, name = out / TRIALS / str(number), f"trial-{number}"
    if (folder / "run.db").is_file():
        return {name: folder}
    return {f"{name}-{path.parent.name}": path.parent for path in sorted(folder.glob("seed-*/run.db"))}


def _run_value(aim: Aim, run: FinishedRun) -> float:
    if not run.metrics["commits"]:
        failed: Mapping[str, int] = run.metrics["failed_rounds"]
        most = max(failed, key=lambda why: (failed[why], why), default="")
        raise BadInput(f"no model was made in {run.metrics['rounds']} rounds{f' ({most})' if most else ''}")
    value = aim.value_of(run.metrics)
    if math.isnan(value):
        raise BadInput(f"its {aim.metric} is not a number")
    return value


def _pruning_listener(
    aim: Aim, trial: Any, spec: Spec, progress: TrialProgress, earlier_values: Sequence[float], j: int
) -> EventListener:
    """A listener that reports the progress of a run at its marks, and stops it where others did better by then.

    A mark is a twentieth of the rounds that the run may take, so that runs of which some rounds fail are compared at equal moments.
    """
    most: int = spec.stop["commits"] or spec.stop["rounds"]
    every = max(1, most // PROGRESS_MARKS)

    def watch(events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, ModelCommitted | RoundFailed):
                progress.rounds = event.round + 1
            elif isinstance(event, Evaluated) and aim.known_early and progress.rounds // every > progress.mark:
                progress.mark = progress.rounds // every
                _compare_progress(aim, trial, event, progress, earlier_values, j, most)

    return watch


def _compare_progress(
    aim: Aim, trial: Any, event: Evaluated, progress: TrialProgress, earlier_values: Sequence[float], j: int, most: int
) -> None:
    value = aim.early_value(event)
    if value is None:
        return
    trial.report((sum(earlier_values) + value) / (len(earlier_values) + 1), j * PROGRESS_MARKS + progress.mark)
    if trial.should_prune() and progress.rounds < most:
        shown = replace(aim, score=ScoreInfo(kind_of_measures(event.measures)))
        raise TrialPruned(
            f"{shown.format_value(value)} after {progress.rounds} of {most} rounds: "
            f"{'more' if aim.minimise else 'less'} than the other trials had by then"
        )
