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
from fedfleet.app.runs.causes import CAUSES, NAMES, present, without
from fedfleet.app.runs.conditions import Conditions, alone, kept_conditions, unlike
from fedfleet.app.runs.custom_task import reopened
from fedfleet.app.runs.execution import perform
from fedfleet.app.runs.run_folder import Finished, finished
from fedfleet.app.spec import Spec, resolve
from fedfleet.app.terminal.answers import say
from fedfleet.app.terminal.text import listed, percent, span
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.executors.process_map import in_processes
from fedfleet.measure.accuracy import learning_curve, time_to_accuracy
from fedfleet.measure.shapley import shapley, subsets
from fedfleet.store import journal as journals
from fedfleet.store.noise_source import SECRET
from fedfleet.store.seals import COUNTERFACTUALS, SEAL, kind_of

# Of the best accuracy of the run itself, which is its target where nobody names one: near the end of learning, and surely reached.
_NEAR_BEST = 0.95
_DIGITS = 16  # of a digest, in the name of a folder


@dataclass(frozen=True, slots=True)
class Piece:
    """One run to be simulated again: what is removed, its spec as text, and where it lies."""

    removed: tuple[str, ...]
    text: str
    folder: Path
    original: Path
    target: float
    trust: str | None
    conditions: Conditions | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended; `reached` is None where it never had the target accuracy."""

    virtual_seconds: float
    reached: float | None
    accuracy: float


def counterfactual_answer(
    folder: Path,
    *,
    target: float | None = None,
    workers: int = 1,
    cache: Path | None = None,
    trust: str | None = None,
    tell: Callable[[str], None] = say,
) -> dict[str, Any]:
    """What the run in this folder would have been without each set of its causes, and the Shapley value of each cause.

    `target` is the accuracy to be reached: default the spec's stop.target_accuracy, else 95 % of the best that the run had. A run
    that never reaches it counts with the horizon, which is the longest of these runs, and is marked as censored.
    """
    done = _simulated(folder)
    check_removable(done, trust)
    aim = _target(done, target)
    causes, first = present(done.spec), outcome(done, aim)
    pieces = _pieces(done, causes, aim, cache or folder / COUNTERFACTUALS, trust)
    kept = sum((piece.folder / SEAL).is_file() for piece in pieces)
    if pieces:
        tell(_cost(done, causes, len(pieces), kept, workers))
    found = {frozenset[str](): first}
    for piece, got in in_processes(resimulated, pieces, workers):
        found[frozenset(piece.removed)] = got
        tell(f"without {_listed(piece.removed)}: {_outcome_said(got, aim)} ({len(found) - 1} of {len(pieces)})")
    return {**answered(causes, found, aim), "runs": len(pieces), "cached": kept}


def check_removable(done: Finished, trust: str | None = None) -> None:
    """Refuse runs from which nothing can be removed: they need a fleet, and a task that can be trained again here."""
    own = reopened(done.out, done.spec, trust, judging=False)
    if own is not None and own.lacking:
        raise BadInput(f"--counterfactuals train the run's own model again, and {own.lacking}")
    algorithm = assemble(done.spec, own.task if own else None).plan.algorithm
    if algorithm.pooled:
        raise BadInput(
            f"--counterfactuals: {algorithm.name!r} trains in one place, so there is no fleet from which a cause could be removed"
        )


def resimulated(piece: Piece) -> Outcome:
    """Simulate a run again, or read it if it has been; one that was interrupted goes on."""
    try:
        spec = resolve(tomllib.loads(piece.text), piece.folder.name)
        own = reopened(piece.original, spec, piece.trust, judging=False)
        done = perform(spec, piece.folder, resume=True, own=own, conditions=piece.conditions)
        return outcome(done, piece.target)
    except FedFleetError as wrong:
        raise type(wrong)(f"the run without {_listed(piece.removed)}: {wrong}") from None


def outcome(done: Finished, target: float) -> Outcome:
    """How a finished run ended, by its journal."""
    curve = learning_curve(done.events)
    if not len(curve.accuracy):
        raise BadInput(
            f"{done.out} was never tried on the test set, so nothing can be said of its accuracy; lower stop.evaluate_every"
        )
    reached = time_to_accuracy(done.events, target)
    return Outcome(float(done.metrics["virtual_seconds"]), reached, float(curve.accuracy[-1]))


def _simulated(folder: Path) -> Finished:
    done = finished(folder)
    if kind_of(journals.identity_of(folder / "run.db")) != "simulated":
        raise BadInput(
            f"--counterfactuals: {folder} was served over a network, and reality has no second try; only simulations can be "
            "repeated with a cause removed"
        )
    return done


def _target(done: Finished, asked: float | None) -> float:
    if asked is not None:
        return asked
    if done.spec.stop["target_accuracy"] is not None:
        return float(done.spec.stop["target_accuracy"])
    curve = learning_curve(done.events)
    return _NEAR_BEST * float(max(curve.accuracy, default=1.0))


def _pieces(done: Finished, causes: Sequence[str], target: float, place: Path, trust: str | None) -> list[Piece]:
    """The runs that are needed, those that were made before among them: one for each set of causes but the empty one."""
    kept = kept_conditions(done.out)
    spec, lacking = alone(done.spec, kept), unlike(kept)
    if lacking is not None:
        say(f"{done.out} was computed with {lacking}: what is simulated here may differ from it in the last bits")
    same = lacking is None and kept.noise.get("from") != SECRET
    conditions = replace(kept, execute=kept.kernel) if same else None
    if len(causes):
        _make_place(place)
    return [
        _piece(spec, some, causes, (place, done.out, target, trust, conditions)) for some in subsets(causes) if some
    ]


def _piece(spec: Spec, some: frozenset[str], causes: Sequence[str], rest: tuple[Path, Path, float, Any, Any]) -> Piece:
    removed = tuple(cause for cause in causes if cause in some)
    changed, (place, original, target, trust, conditions) = without(spec, removed), rest
    return Piece(removed, changed.toml(), place / changed.digest[:_DIGITS], original, target, trust, conditions)


def _make_place(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise BadInput(f"cannot make the folder {place}: {wrong.strerror}; name another one with --cache") from None


def _cost(done: Finished, causes: Sequence[str], runs: int, kept: int, workers: int) -> str:
    """What is going to be done, and for how long, from the real time that the run itself took."""
    left, each = runs - kept, float(done.metrics["wall_seconds"])
    before = f", {kept} of which are kept from before" if kept else ""
    long = span(math.ceil(left / min(workers, left)) * each) if left else "no time"
    return (
        f"{runs} re-simulations without one or more of {_listed(causes)}{before}; this takes about {long}: {left} runs of "
        f"{each:.2g} s, the time of the run itself, by {workers} worker{'s' if workers > 1 else ''}"
    )


def answered(causes: Sequence[str], found: dict[frozenset[str], Outcome], target: float) -> dict[str, Any]:
    """The answer, from how the run ended without each set of its causes."""
    horizon = max(got.virtual_seconds for got in found.values())
    times = {some: horizon if got.reached is None else got.reached for some, got in found.items()}
    by_time, by_accuracy = shapley(times, causes), shapley({s: got.accuracy for s, got in found.items()}, causes)
    answer: dict[str, Any] = {
        "target": target,
        "horizon": horizon,
        "present": list(causes),
        "counterfactuals": [
            {
                "without": [cause for cause in causes if cause in some],
                "virtual_seconds": found[some].virtual_seconds,
                "time_to_accuracy": times[some],
                "accuracy": found[some].accuracy,
                "censored": found[some].reached is None,
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
        return (
            "Nothing can be removed: all devices are alike and always there, the data are IID, and nothing goes wrong."
        )
    first, last = answer["counterfactuals"][0], answer["counterfactuals"][-1]
    effects = {cause: answer["shapley"][cause]["time_to_accuracy"] for cause in causes}
    said = [
        f"{NAMES[cause]} {'cost' if effect < 0 else 'saved'} {span(abs(effect))}"
        for cause, effect in sorted(effects.items(), key=lambda item: -abs(item[1]))
        if effect
    ]
    aim = f" have reached {percent(answer['target'])}"
    return (
        f"Without {_listed(causes)} the run would{_reached(last, aim)}, and really did{_reached(first)}"
        f"{': ' + ', '.join(said) if said else ''}; its last model would have had {percent(last['accuracy'])}, and has "
        f"{percent(first['accuracy'])}."
    )


def _reached(row: dict[str, Any], what: str = "") -> str:
    return f"{' not' if row['censored'] else ''}{what} {'within' if row['censored'] else 'after'} {span(row['time_to_accuracy'])}"


def _listed(causes: Sequence[str]) -> str:
    return listed([NAMES[cause] for cause in causes])


def _outcome_said(got: Outcome, target: float) -> str:
    when = "never" if got.reached is None else f"after {span(got.reached)}"
    return f"{percent(target)} {when}, {percent(got.accuracy)} at the end"
