"""Predicting: accuracy, commits, virtual time and who will be left out, before anything is trained on the fleet."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup, assemble
from fedfleet.app.runs.custom_task import CustomTask, fingerprint
from fedfleet.app.spec import Spec
from fedfleet.app.studies.predict.participation import (
    Fleet,
    clock_names,
    closed_form,
    exclusion_summary,
    expected_participation,
    fleet_of,
    other_seeds,
    predictable_plan,
    staleness_factors,
)
from fedfleet.app.studies.predict.prediction_result import Predicted, Range
from fedfleet.app.studies.predict.reference_runs import Reference, cohort_of, reference_of
from fedfleet.core.parts import Plan, Task
from fedfleet.core.records import Floats
from fedfleet.measure.class_clock import Clock, Participation, class_clock, clock_score, predict_accuracy

# ---- the error band -----------------------------------------------------------------------------------------------
# How far predictions were off on fleets that were trained to find out, by how much had been learnt. band.json is made by
# `python -m studies.predict --split development --band FILE` and says how.

_FILE = Path(__file__).with_name("band.json")


@dataclass(frozen=True, slots=True)
class Band:
    """How far below and above a prediction nine of ten trained runs lay, as a share of all that can be learnt.

    `progress` is where on the way from the untrained to the ideal model that was; between these places it is interpolated.
    """

    progress: Floats
    below: Floats
    above: Floats
    note: str

    def margins_at(self, progress: Floats) -> tuple[Floats, Floats]:
        """The band at these places."""
        return np.interp(progress, self.progress, self.below), np.interp(progress, self.progress, self.above)


@cache
def band() -> Band:
    """The band that comes with this version."""
    table = json.loads(_FILE.read_text(encoding="utf-8"))
    columns = (np.array(table[name], np.float64) for name in ("progress", "below", "above"))
    return Band(*columns, note=str(table["said"]))


# ---- prediction ---------------------------------------------------------------------------------------------------

# Draws of a prediction; fewer where these have more rounds than that together.
_DRAWS, _WORK = 4, 2000
_POINTS = 60  # of a predicted curve
_NINETY = 1.64  # standard deviations, between which nine of ten lie


NOT_PREDICTED = (
    "{} is not predicted: the prediction of a score applies to classification only; participation and time are predicted"
)


@dataclass(frozen=True, slots=True)
class PredictedDraw:
    """One draw of a run: who is in its models, its clock, and the predicted accuracy after each commit."""

    part: Participation
    clock: Clock
    accuracy: Floats


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run will come to: all of its draws, and what they were predicted from; without a `reference` no score is predicted."""

    setup: Setup
    fleet: Fleet
    reference: Reference | None
    draws: tuple[PredictedDraw, ...]
    notes: tuple[str, ...]
    seconds: float  # of real time, without the reference runs


def predict(
    spec: Spec,
    *,
    cache: Path | None = None,
    own: CustomTask | None = None,
    setup: Setup | None = None,
    reference: Reference | None = None,
    draws: int = _DRAWS,
    seeds: Sequence[int] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Prediction:
    """Predict the run of a spec. `setup` and `reference` are made unless they are given; `own`: the task that a person gave.

    Choices are drawn anew with seeds that the run itself does not have, so that no prediction uses what is not known of the fleet;
    `seeds` names others.
    """
    setup = assemble(spec, own.task if own else None) if setup is None else setup
    predictable_plan(setup)  # what cannot be predicted is refused before anything is trained
    if reference is None and setup.task.dataset.kind.per_label:
        reference = reference_for(spec, own, cache=cache, tell=tell)
    start = time.perf_counter()
    fleet = fleet_of(setup)
    draw_seeds = other_seeds(spec.training_seed, _affordable_draws(spec, draws)) if seeds is None else seeds
    parts, notes = expected_participation(setup, draw_seeds)
    if reference is None:
        result = tuple(_participation_draw(part, fleet, setup) for part in parts)
    else:
        result = tuple(_predict_draw(part, fleet, reference, setup.plan) for part in parts)
    return Prediction(setup, fleet, reference, result, (*notes, *_limitations(setup, parts)), time.perf_counter() - start)


def reference_for(
    spec: Spec, own: CustomTask | None, *, cache: Path | None = None, tell: Callable[[str], None] | None = None
) -> Reference:
    """The reference runs of a spec, or of an own task: kept by the text of its model too, which its first weights do not tell."""
    if own is None:
        return reference_of(spec, cache=cache, tell=tell)
    code = fingerprint(own)
    if code is None and tell is not None:
        tell(
            "the model or its loss has no name in a module (a lambda has none) and cannot be recognised: its reference runs "
            "are not kept"
        )
    return reference_of(spec, cache=cache, task=own.task, code=code, tell=tell)


def _affordable_draws(spec: Spec, draws: int) -> int:
    return min(draws, max(1, _WORK // spec.stop["rounds"]))


def _predict_draw(part: Participation, fleet: Fleet, reference: Reference, plan: Plan) -> PredictedDraw:
    ideal, factors = reference.ideal, staleness_factors(plan, part)
    clock = class_clock(part, fleet.labels, cohort=ideal.cohort, noise=ideal.noise, factors=factors)
    return PredictedDraw(part, clock, predict_accuracy(clock, ideal, fleet.test))


def _participation_draw(part: Participation, fleet: Fleet, setup: Setup) -> PredictedDraw:
    """Who takes part, where no score can be predicted: that needs a curve for each class."""
    factors = staleness_factors(setup.plan, part)
    clock = class_clock(part, fleet.labels, cohort=cohort_of(setup.spec), factors=factors)
    return PredictedDraw(part, clock, np.zeros(0))


def clock_of(spec: Spec, *, task: Task | None = None, draws: int = _DRAWS) -> dict[str, Any]:
    """The class clock of a spec's fleet under its own pacing and rounds, without any training; the answer of `measure SPEC`.

    `score` is the mean over classes of ln(1 + T_c) / ln(1 + R): 1 is what an ideal fleet has after all rounds R. `rounds_done` are
    fewer than `rounds` where something else ends the run, such as its virtual time.
    """
    setup = assemble(spec, task)
    fleet, rounds = fleet_of(setup), spec.stop["rounds"]
    parts, notes = expected_participation(setup, other_seeds(spec.training_seed, _affordable_draws(spec, draws)))
    clocks = [class_clock(part, fleet.labels, cohort=cohort_of(spec)) for part in parts]
    at_end = np.mean([clock.classes[-1] for clock in clocks], axis=0)
    return {
        "score": float(np.mean([clock_score(clock, rounds)[-1] for clock in clocks])),
        "commits": float(np.mean([part.commits for part in parts])),
        "rounds": rounds,
        "rounds_done": float(np.mean([part.rounds for part in parts])),
        "classes": {name: float(t) for name, t in zip(clock_names(fleet, len(at_end)), at_end, strict=True)},
        **({} if fleet.noun == "label" else {"by": fleet.noun}),
        "effective": float(np.mean([clock.effective for clock in clocks])),
        "notes": notes,
    }


def summarise(result: Prediction, page: Path | None = None) -> Predicted:
    """What the draws of a prediction say together."""
    reference, parts = result.reference, [draw.part for draw in result.draws]
    ideal = None if reference is None else reference.ideal
    cohort, noise = (cohort_of(result.setup.spec), 0.0) if ideal is None else (ideal.cohort, ideal.noise)
    curve = curve_of(result)
    clock = np.mean([draw.clock.classes[-1] for draw in result.draws], axis=0)
    return Predicted(
        accuracy=None if ideal is None else Range(curve["accuracy"][-1], curve["low"][-1], curve["high"][-1]),
        ideal_accuracy=None if ideal is None else float(ideal.accuracy[-1]),
        commits=_range([p.commits for p in parts]),
        rounds=float(np.mean([p.rounds for p in parts])),
        failed_rounds=_failed_rounds(parts),
        virtual_seconds=_range([p.seconds for p in parts]),
        target=_target(result, curve),
        curve={name: np.array(values) for name, values in curve.items()},
        clock={name: float(t) for name, t in zip(clock_names(result.fleet, len(clock)), clock, strict=True)},
        effective=float(np.mean([draw.clock.effective for draw in result.draws])),
        noise=noise,
        exponent=0.0 if ideal is None else ideal.exponent,
        cohort=cohort,
        closed_form=closed_form(result.setup, result.fleet.labels, cohort=cohort, noise=noise),
        left_out=exclusion_summary(result.setup, parts, clock, result.fleet),
        draws=len(parts),
        reference=None
        if reference is None or ideal is None
        else {
            "commits": len(ideal.accuracy) - 1,
            "seconds": reference.seconds,
            "kept": reference.cached,
            "flat": reference.flat,
        },
        band="" if reference is None else band().note,
        notes=result.notes,
        seconds=result.seconds,
        score=result.setup.task.dataset.kind.score,
        by=result.fleet.noun,
        page=page,
    )


def _target(result: Prediction, curve: dict[str, list[float]]) -> dict[str, float | None] | None:
    """When the accuracy is reached that the spec stops at, if it names one; None: not within its rounds."""
    target = result.setup.spec.stop["target_accuracy"]
    if target is None or result.reference is None:
        return None
    times = [seconds for seconds, value in zip(curve["seconds"], curve["accuracy"], strict=True) if value >= target]
    return {"accuracy": target, "seconds": times[0] if times else None}


def curve_of(result: Prediction) -> dict[str, list[float]]:
    """The predicted accuracy at evenly spaced moments up to the last end of a draw, with its band; commits alone where no score is
    predicted."""
    end = max(draw.part.seconds for draw in result.draws)
    times = np.linspace(0.0, end, _POINTS)
    places = [np.searchsorted(draw.part.times, times, side="right") for draw in result.draws]
    if result.reference is None:
        return {"seconds": times.tolist(), "commits": np.mean(places, axis=0).tolist()}
    accuracies = np.stack([draw.accuracy[at] for draw, at in zip(result.draws, places, strict=True)])
    mean, sd = accuracies.mean(axis=0), accuracies.std(axis=0, ddof=1) if len(accuracies) > 1 else np.zeros(len(times))
    low, high = band_around(band(), mean, sd, result.reference)
    return {
        "seconds": times.tolist(), "commits": np.mean(places, axis=0).tolist(), "accuracy": mean.tolist(),
        "low": low.tolist(), "high": high.tolist(),
    }  # fmt: skip


def band_around(known: Band, mean: Floats, sd: Floats, reference: Reference) -> tuple[Floats, Floats]:
    """The band around predicted accuracies: errors of held-out fleets at the same progress, the spread of the draws, and luck."""
    curve = reference.ideal.accuracy
    gain = max(float(curve[-1] - curve[0]), 1e-9)
    below, above = known.margins_at((mean - curve[0]) / gain)
    spread = _NINETY * np.hypot(sd, reference.luck)
    return np.clip(mean - np.hypot(below * gain, spread), 0.0, 1.0), np.clip(mean + np.hypot(above * gain, spread), 0.0, 1.0)


def _range(values: Sequence[float]) -> Range:
    return Range(float(np.mean(values)), float(min(values)), float(max(values)))


def _failed_rounds(parts: Sequence[Participation]) -> dict[str, float]:
    """Failed rounds by reason, on average over draws, the most frequent first."""
    reasons = dict.fromkeys(reason for part in parts for reason in part.failed)
    result = {reason: sum(part.failed.get(reason, 0) for part in parts) / len(parts) for reason in reasons}
    return dict(sorted(result.items(), key=lambda item: -item[1]))


def _limitations(setup: Setup, parts: Sequence[Participation]) -> list[str]:
    """What this prediction cannot see, in plain words."""
    plan = setup.plan
    result = ["the prediction uses label counts only, not features: people who write or move differently count as alike"]
    if not setup.task.dataset.kind.per_label:
        result = [NOT_PREDICTED.format(setup.task.dataset.kind.score)]
    late = [float(part.staleness.mean()) for part in parts if len(part.staleness)]
    if late and np.mean(late) > 0:
        short = [by for by in (staleness_factors(plan, part) for part in parts) if by is not None]
        counted = (
            f"{np.mean([by.mean() for by in short]):.2f} of a report that is not late" if short else "as if they were not late"
        )
        result.append(
            f"reports are {np.mean(late):.2g} versions late on average; they count {counted}, and no other effect of an old model "
            "is predicted"
        )
    if plan.algorithm.personal is not None or plan.algorithm.tune is not None:
        result.append("the prediction is of the server's model: models that clients keep for themselves are not predicted")
    if setup.world.users is not None:
        result.append("devices of one person count as independent clients")
    return result
