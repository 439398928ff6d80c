"""One trial of a search: its values, a run with each seed, and early stopping inside a run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.runs import Finished, perform
from fedfleet.app.runs.custom_task import Own
from fedfleet.app.spec import Spec
from fedfleet.app.studies.tune.aims import Aim
from fedfleet.app.studies.tune.search_file import Search
from fedfleet.app.studies.tune.search_store import MARKS, optuna, quietly, seeded, suggested
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import Evaluated, Event, ModelCommitted, RoundFailed
from fedfleet.store.files import write_whole

TRIALS, LOG, PRUNED = "trials", "trials.log", "pruned.json"
Watch = Callable[[Sequence[Event]], None]


class Stopped(FedFleetError):
    """A trial is stopped early: others did better by then."""


@dataclass(slots=True)
class Pace:
    """How far a run of a trial is: rounds so far, and up to which mark it has been judged."""

    rounds: int = 0
    mark: int = 0


def take(study: Any, search: Search, turn: int, number: int | None = None) -> Any:
    """The next trial of a study, or again the one of this number that somebody left unfinished."""
    seeded(study, search, turn)
    with quietly():
        if number is None:
            return study.ask()
        left = study.get_trials(deepcopy=False)[number]
        return optuna().trial.Trial(
            study, left._trial_id
        )  # the values that it has stay; the others are drawn as before


def attempt(study: Any, search: Search, trial: Any, out: Path) -> None:
    """Carry out a trial and tell the study how it ended: a value, stopped early, or the reason why it has none."""
    states = optuna().trial.TrialState
    with quietly(), (out / LOG).open("a", encoding="utf-8") as log, redirect_stderr(log):
        default = trial.user_attrs.get("default", False)
        inside = trial.user_attrs.get("inside", True)
        values = {axis.key: suggested(trial, axis) for axis in search.space} if inside else search.defaults()
        trial.set_user_attr("values", values)
        try:
            specs = [search.made({} if default else values, seed) for seed in search.seeds]
            twin = _twin(study, trial, specs[0][0].digest)
            trial.set_user_attr("digest", specs[0][0].digest)
            if twin is not None:
                _tell(study, trial, twin.user_attrs["value"], inside=inside, same_as=twin.number)
                return
            value = _value(search.aim, trial, specs, out / TRIALS / str(trial.number))
            _tell(study, trial, value, inside=inside)
        except Stopped as why:
            trial.set_user_attr("reason", str(why))
            study.tell(trial, state=states.PRUNED)
        except FedFleetError as wrong:
            trial.set_user_attr("reason", str(wrong))
            study.tell(trial, state=states.FAIL)
        except Exception as wrong:  # of a part; the search goes on without this trial, which says why
            trial.set_user_attr("reason", f"{type(wrong).__name__}: {wrong}")
            study.tell(trial, state=states.FAIL)


def _tell(study: Any, trial: Any, value: float, *, inside: bool, same_as: int | None = None) -> None:
    """A spec that lies outside of the space has a value, but its trial teaches nothing about the space."""
    trial.set_user_attr("value", value if math.isfinite(value) else None)
    if same_as is not None:
        trial.set_user_attr("same_as", same_as)
    state = optuna().trial.TrialState
    study.tell(trial, value) if inside else study.tell(trial, state=state.FAIL)


def _twin(study: Any, trial: Any, digest: str) -> Any:
    """An earlier trial of the very same spec, which need not be run again."""
    for other in study.get_trials(deepcopy=False):
        known = other.user_attrs.get("value") is not None and other.number != trial.number
        if known and other.user_attrs.get("digest") == digest:
            return other
    return None


def _value(aim: Aim, trial: Any, specs: Sequence[tuple[Spec, Own | None]], folder: Path) -> float:
    """The mean of the aim over a trial's seeds; whatever has been finished before is read."""
    found: list[float] = []
    rounds = 0
    for j, (spec, own) in enumerate(specs):
        out = folder if len(specs) == 1 else folder / f"seed-{spec.seed}"
        pace = Pace()
        try:
            done = perform(spec, out, resume=True, own=own, watch=_watching(aim, trial, spec, pace, found, j))
        except Stopped as why:
            trial.set_user_attr("rounds", rounds + pace.rounds)
            said = {"trial": trial.number, "pruned_after_rounds": pace.rounds, "seed": spec.seed, "reason": str(why)}
            write_whole(out / PRUNED, (json.dumps(said, indent=1) + "\n").encode())
            raise
        rounds += done.metrics["rounds"]
        trial.set_user_attr("rounds", rounds)
        found.append(_of(aim, done))
    return sum(found) / len(found)


def _of(aim: Aim, done: Finished) -> float:
    if not done.metrics["commits"]:
        failed: Mapping[str, int] = done.metrics["failed_rounds"]
        most = max(failed, key=lambda why: (failed[why], why), default="")
        raise BadInput(f"no model was made in {done.metrics['rounds']} rounds{f' ({most})' if most else ''}")
    value = aim.of(done.metrics)
    if math.isnan(value):
        raise BadInput(f"its {aim.metric} is not a number")
    return value


def _watching(aim: Aim, trial: Any, spec: Spec, pace: Pace, before: Sequence[float], j: int) -> Watch:
    """A listener that reports how a run does, so many times on its way, and stops it where others did better by then.

    A mark is a twentieth of the rounds that the run may take, so that runs of which some rounds fail are judged at equal moments.
    """
    most: int = spec.stop["commits"] or spec.stop["rounds"]
    every = max(1, most // MARKS)

    def watch(events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, ModelCommitted | RoundFailed):
                pace.rounds = event.round + 1
            elif isinstance(event, Evaluated) and aim.known_early and pace.rounds // every > pace.mark:
                pace.mark = pace.rounds // every
                _judge(aim, trial, event, pace, before, j, most)

    return watch


def _judge(aim: Aim, trial: Any, event: Evaluated, pace: Pace, before: Sequence[float], j: int, most: int) -> None:
    value = aim.early(event)
    if value is None:
        return
    trial.report((sum(before) + value) / (len(before) + 1), j * MARKS + pace.mark)
    if trial.should_prune() and pace.rounds < most:
        raise Stopped(f"{aim.said(value)} after {pace.rounds} of {most} rounds: too little beside the others by then")
