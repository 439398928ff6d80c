"""Counterfactuals: a run simulated again with causes removed, and what each cause costs by Shapley values.

Every counterfactual is a spec, and its run lies in a folder that is named by the spec's digest: it can be looked at like any
other, and an interrupted explanation goes on where it was.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import assemble
from fedfleet.app.runs.causes import CAUSES, NAMES, present_causes, without_causes
from fedfleet.app.runs.conditions import Conditions, missing_condition, single_machine_spec, stored_conditions
from fedfleet.app.runs.custom_task import load_custom_task
from fedfleet.app.runs.execution import perform
from fedfleet.app.runs.run_folder import FinishedRun, read_finished_run
from fedfleet.app.spec import Spec, resolve
from fedfleet.app.terminal.answers import say
from fedfleet.app.terminal.text import join_words, span
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.executors.worker_pool import map_in_processes
from fedfleet.measure.accuracy import learning_curve
from fedfleet.measure.goal import Target, evaluations_at, target_of, target_text
from fedfleet.measure.score_info import ScoreInfo, score_info_of
from fedfleet.measure.shapley import shapley, subsets
from fedfleet.store import journal as journals
from fedfleet.store.noise_source import SECRET
from fedfleet.store.seals import COUNTERFACTUALS, SEAL, kind_of

# Of the best accuracy of the run itself, which is its target where nobody names one: near the end of learning, and surely reached.
_NEAR_BEST = 0.95
_ACCURACY = ScoreInfo()
_DIGITS = 16  # of a digest, in the name of a folder


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One run to be simulated again: what is removed, its spec as text, and where it lies."""

    removed: tuple[str, ...]
    text: str
    folder: Path
    original: Path
    target: Target
    trust: str | None
    conditions: Conditions | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended; `reached` is None where it never had the target, `accuracy` its score."""

    virtual_seconds: float
    reached: float | None
    accuracy: float


def counterfactual_answer(
    folder: Path,
    *,
    target: Target | None = None,
    workers: int = 1,
    cache: Path | None = None,
    trust: str | None = None,
    tell: Callable[[str], None] = say,
) -> dict[str, Any]:
    """What the run in this folder would have been without each set of its causes, and the Shapley value of each cause.

    `target` is the score, or the limit of a measure, to be reached: default that of the spec's [stop], else 95 % of the best score
    that the run had. A run
    that never reaches it counts with the horizon, which is the longest of these runs, and is marked as censored.
    """
    finished_run = _load_simulated(folder)
    check_removable(finished_run, trust)
    target_accuracy = _target(finished_run, target)
    score = score_info_of(finished_run.metrics)
    causes, first = present_causes(finished_run.spec), outcome(finished_run, target_accuracy)
    counterfactuals = _counterfactuals(finished_run, causes, target_accuracy, cache or folder / COUNTERFACTUALS, trust)
    cached = sum((piece.folder / SEAL).is_file() for piece in counterfactuals)
    if counterfactuals:
        tell(_cost_text(finished_run, causes, len(counterfactuals), cached, workers))
    outcomes = {frozenset[str](): first}
    for counterfactual, run_outcome in map_in_processes(simulate_again, counterfactuals, workers):
        outcomes[frozenset(counterfactual.removed)] = run_outcome
        tell(
            f"without {_cause_names(counterfactual.removed)}: {_outcome_text(run_outcome, target_accuracy, score)} "
            f"({len(outcomes) - 1} of {len(counterfactuals)})"
        )
    return {**build_answer(causes, outcomes, target_accuracy, score), "runs": len(counterfactuals), "cached": cached}


def check_removable(finished_run: FinishedRun, trust: str | None = None) -> None:
    """Refuse runs from which nothing can be removed: they need a fleet, and a task that can be trained again here."""
    custom_task = load_custom_task(finished_run.out, finished_run.spec, trust, need_metrics=False)
    if custom_task is not None and custom_task.unusable_reason:
        raise BadInput(f"--counterfactuals train the run's own model again, but {custom_task.unusable_reason}")
    algorithm = assemble(finished_run.spec, custom_task.task if custom_task else None).plan.algorithm
    if algorithm.pooled:
        raise BadInput(
            f"--counterfactuals: {algorithm.name!r} trains in one place, so there is no fleet from which a cause could be removed"
        )


def simulate_again(counterfactual: Counterfactual) -> Outcome:
    """Simulate a run again, or read it if it has been; one that was interrupted goes on."""
    try:
        spec = resolve(tomllib.loads(counterfactual.text), counterfactual.folder.name)
        custom_task = load_custom_task(counterfactual.original, spec, counterfactual.trust, need_metrics=False)
        finished_run = perform(
            spec, counterfactual.folder, resume=True, custom_task=custom_task, conditions=counterfactual.conditions
        )
        return outcome(finished_run, counterfactual.target)
    except FedFleetError as error:
        raise type(error)(f"the run without {_cause_names(counterfactual.removed)}: {error}") from None


def outcome(finished_run: FinishedRun, target: Target) -> Outcome:
    """How a finished run ended, by its journal."""
    curve = learning_curve(finished_run.events)
    if not len(curve.accuracy):
        raise BadInput(
            f"{finished_run.out} was never evaluated on the test set, so its "
            f"{score_info_of(finished_run.metrics).name} is unknown; lower stop.evaluate_every"
        )
    reached = evaluations_at(target, curve.accuracy, curve.measures)
    when = float(curve.seconds[reached[0]]) if len(reached) else None
    return Outcome(float(finished_run.metrics["virtual_seconds"]), when, float(curve.accuracy[-1]))


def _load_simulated(folder: Path) -> FinishedRun:
    finished_run = read_finished_run(folder)
    if kind_of(journals.identity_of(folder / "run.db")) != "simulated":
        raise BadInput(
            f"--counterfactuals: {folder} was served over a network, which cannot be repeated; only simulations can be "
            "repeated with a cause removed"
        )
    return finished_run


def _target(finished_run: FinishedRun, wanted: Target | None) -> Target:
    goal = target_of(finished_run.spec.stop) if wanted is None else wanted
    if goal is not None:
        return goal
    curve = learning_curve(finished_run.events)
    best = float(max(curve.accuracy, default=1.0))
    if best < 0:  # an R2 that never got so far as the mean
        return best
    return _NEAR_BEST * best


def _counterfactuals(
    finished_run: FinishedRun, causes: Sequence[str], target: Target, cache_folder: Path, trust: str | None
) -> list[Counterfactual]:
    """The runs that are needed, those that were made before among them: one for each set of causes but the empty one."""
    stored = stored_conditions(finished_run.out)
    spec, difference = single_machine_spec(finished_run.spec, stored), missing_condition(stored)
    if difference is not None:
        say(f"{finished_run.out} was computed with {difference}: what is simulated here may differ from it in the last bits")
    same_machine = difference is None and stored.noise.get("from") != SECRET
    conditions = replace(stored, execute=stored.kernel) if same_machine else None
    if len(causes):
        _make_cache_folder(cache_folder)
    return [
        _counterfactual(spec, removed, causes, (cache_folder, finished_run.out, target, trust, conditions))
        for removed in subsets(causes)
        if removed
    ]


def _counterfactual(
    spec: Spec, removed_set: frozenset[str], causes: Sequence[str], rest: tuple[Path, Path, Target, Any, Any]
) -> Counterfactual:
    removed = tuple(cause for cause in causes if cause in removed_set)
    new_spec, (cache_folder, original, target, trust, conditions) = without_causes(spec, removed), rest
    return Counterfactual(removed, new_spec.toml(), cache_folder / new_spec.digest[:_DIGITS], original, target, trust, conditions)


def _make_cache_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the folder {folder}: {error.strerror}; name another one with --cache") from None


def _cost_text(finished_run: FinishedRun, causes: Sequence[str], runs: int, cached: int, workers: int) -> str:
    """What is going to be done, and for how long, from the real time that the run itself took."""
    remaining, each = runs - cached, float(finished_run.metrics["wall_seconds"])
    cached_text = f", {cached} of which are kept from before" if cached else ""
    duration = span(math.ceil(remaining / min(workers, remaining)) * each) if remaining else "no time"
    return (
        f"{runs} re-simulations without one or more of {_cause_names(causes)}{cached_text}; this takes about "
        f"{duration}: {remaining} runs of "
        f"{each:.2g} s, the time of the run itself, by {workers} worker{'s' if workers > 1 else ''}"
    )


def build_answer(
    causes: Sequence[str], outcomes: dict[frozenset[str], Outcome], target: Target, score: ScoreInfo = _ACCURACY
) -> dict[str, Any]:
    """The answer, from how the run ended without each set of its causes."""
    horizon = max(run_outcome.virtual_seconds for run_outcome in outcomes.values())
    times = {removed: horizon if got.reached is None else got.reached for removed, got in outcomes.items()}
    by_time, by_accuracy = shapley(times, causes), shapley({s: got.accuracy for s, got in outcomes.items()}, causes)
    answer: dict[str, Any] = {
        "target": target,
        "score": score.to_dict(),
        "horizon": horizon,
        "present": list(causes),
        "counterfactuals": [
            {
                "without": [cause for cause in causes if cause in some],
                "virtual_seconds": outcomes[some].virtual_seconds,
                "time_to_accuracy": times[some],
                "accuracy": outcomes[some].accuracy,
                "censored": outcomes[some].reached is None,
            }
            for some in subsets(causes)
        ],
        "shapley": {
            cause: {
                "time_to_accuracy": float(by_time.get(cause, Fraction(0))),
                "accuracy": float(by_accuracy.get(cause, Fraction(0))),
            }
            for cause in CAUSES
        },
    }
    return {**answer, "sentence": sentence(answer)}


def sentence(answer: dict[str, Any]) -> str:
    """The answer in one sentence: what an ideal fleet would have changed, and by which causes, the greatest first."""
    causes = answer["present"]
    if not causes:
        return "Nothing can be removed: all devices are alike and always there, the data are IID, and nothing goes wrong."
    first, last = answer["counterfactuals"][0], answer["counterfactuals"][-1]
    effects = {cause: answer["shapley"][cause]["time_to_accuracy"] for cause in causes}
    effect_texts = [
        f"{NAMES[cause]} {'cost' if effect < 0 else 'saved'} {span(abs(effect))}"
        for cause, effect in sorted(effects.items(), key=lambda item: -abs(item[1]))
        if effect
    ]
    score = score_info_of(answer)
    goal = f" have reached {target_text(answer['target'], score)}"
    return (
        f"Without {_cause_names(causes)} the run would{_reach_text(last, goal)}, and really did{_reach_text(first)}"
        f"{': ' + ', '.join(effect_texts) if effect_texts else ''}; its last model would have had "
        f"{score.named(last['accuracy'])}, and has "
        f"{score.text(first['accuracy'])}."
    )


def _reach_text(row: dict[str, Any], what: str = "") -> str:
    return f"{' not' if row['censored'] else ''}{what} {'within' if row['censored'] else 'after'} {span(row['time_to_accuracy'])}"


def _cause_names(causes: Sequence[str]) -> str:
    return join_words([NAMES[cause] for cause in causes])


def _outcome_text(run_outcome: Outcome, target: Target, score: ScoreInfo) -> str:
    when = "never" if run_outcome.reached is None else f"after {span(run_outcome.reached)}"
    return f"{target_text(target, score)} {when}, {score.named(run_outcome.accuracy)} at the end"
