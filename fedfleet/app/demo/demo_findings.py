"""What the demo found, in words: every figure is computed from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from fedfleet.app.demo import demo_study
from fedfleet.app.demo.demo_study import HOURS, MINUTES, USERS, WAITING, WITH_DEADLINE, RunsByWay
from fedfleet.app.studies.compare.arms import quote
from fedfleet.app.studies.compare.records import LEVEL, ComparedRun
from fedfleet.app.studies.compare.run_data import accuracy_at
from fedfleet.app.terminal.text import join_words, span
from fedfleet.measure.statistics.paired_tests import PairedResult, holm, paired_test_by_seed
from fedfleet.measure.statistics.survival import median_time, target_time

MOMENTS = (0.5, 1.0)  # shares of the demo's hours at which a difference must be significant to be called so
TARGET, USER_TARGET = float(demo_study.STUDY.target or 0), float(demo_study.USER_STUDY.target or 0)


def accuracy_at_hours(run: ComparedRun, share: float = 1.0) -> float | None:
    """Accuracy when this share of the demo's hours is over; None if no model had been made by then."""
    then = 3600.0 * HOURS * share
    return None if run.first is None or run.first > then else accuracy_at(run, then)


def mean_accuracy(runs: Sequence[ComparedRun]) -> float | None:
    """The mean over seeds when the hours are over; None if not every seed has a model."""
    result = [accuracy_at_hours(run) for run in runs]
    values = [value for value in result if value is not None]
    return fmean(values) if values and len(values) == len(result) else None


def against_deadline(runs_by_way: RunsByWay, fleet: str, share: float = 1.0) -> dict[str, tuple[PairedResult, float | None]]:
    """Every other way against FedAvg with a deadline on common seeds, at one moment; p corrected by Holm."""
    of_fleet = {way: runs_by_way[fleet, way] for way in demo_study.WAYS}
    values = {
        way: {run.seed: value for run in runs if (value := accuracy_at_hours(run, share)) is not None}
        for way, runs in of_fleet.items()
    }
    tested = min((run.tested for runs in of_fleet.values() for run in runs if run.tested), default=0)
    resolution = 1 / tested if tested else 0.0  # no accuracy is known more finely than to a sample
    result = {
        way: pair
        for way in of_fleet
        if way != WITH_DEADLINE and (pair := paired_test_by_seed(values[way], values[WITH_DEADLINE], grain=resolution)) is not None
    }
    return dict(zip(result, zip(result.values(), holm([pair.p for pair in result.values()]), strict=True), strict=True))


def significant_differences(runs_by_way: RunsByWay, fleet: str) -> tuple[list[str], list[str]]:
    """The ways that are significantly better than FedAvg with a deadline, and those that are worse: at every moment of MOMENTS.

    One evaluation of one model is noisy, and with few seeds a difference that is significant at one hour is gone at the next:
    looking at a single moment finds something sooner or later. So a difference must be significant, and of one sign, at both.
    """
    signs = [
        {
            way: pair.difference > 0
            for way, (pair, p) in against_deadline(runs_by_way, fleet, share).items()
            if p is not None and p < LEVEL
        }
        for share in MOMENTS
    ]
    always = [way for way in signs[0] if all(way in sign and sign[way] == signs[0][way] for sign in signs)]
    return [way for way in always if signs[0][way]], [way for way in always if not signs[0][way]]


def ranking(runs_by_way: RunsByWay, fleet: str) -> list[tuple[str, float]]:
    """The ways that have a model by then, the best first."""
    pairs = [(way, value) for way in demo_study.WAYS if (value := mean_accuracy(runs_by_way[fleet, way])) is not None]
    return sorted(pairs, key=lambda found: -found[1])


def never_took_part(runs: Sequence[ComparedRun]) -> float:
    """How many clients never took part, in the mean over seeds."""
    return fmean(float(run.metrics["participation"]["never"]) for run in runs)


def headline(runs_by_way: RunsByWay) -> str:
    """The finding in one line: how far ways are apart from fleet to fleet, and whether one of them is significantly better.

    No cause is claimed: seeds differ more on harder fleets, and that alone drives the best and the worst mean apart.
    """
    first, last = next(iter(demo_study.FLEETS)), list(demo_study.FLEETS)[-1]
    gaps = (
        f"After {HOURS} h the ways to train are {100 * accuracy_gap(runs_by_way, first):.0f} points apart on the "
        f"{first} fleet and {100 * accuracy_gap(runs_by_way, last):.0f} on the {last} one"
    )
    better = [
        f"{join_words(ways)} ({fleet})"
        for fleet in demo_study.FLEETS
        if (ways := [quote(way) for way in significant_differences(runs_by_way, fleet)[0]])
    ]
    if better:
        return f"{gaps}; significantly better than {quote(WITH_DEADLINE)}: {join_words(better)}"
    return f"{gaps}; no statistically significant winner over {_seeds()}"


def accuracy_gap(runs_by_way: RunsByWay, fleet: str) -> float:
    """Between the best and the worst way that have a model by then."""
    values = [value for _, value in ranking(runs_by_way, fleet)]
    return max(values) - min(values) if values else 0.0


def paragraph(runs_by_way: RunsByWay) -> str:
    """The answer: the best way on each fleet, what a deadline and waiting cost, what is significant, what users change."""
    fleets = demo_study.FLEETS
    best = [
        f"{quote(order[0][0])} with {percent(order[0][1])} on the {fleet} fleet "
        f"({quote(WITH_DEADLINE)}: {percent(mean_accuracy(runs_by_way[fleet, WITH_DEADLINE]))})"
        for fleet in fleets
        if (order := ranking(runs_by_way, fleet))
    ]
    excluded = [f"{never_took_part(runs_by_way[fleet, WITH_DEADLINE]):.0f}" for fleet in fleets]
    times = [span(fmean(run.end for run in runs_by_way[fleet, WAITING])) for fleet in fleets]
    ends = [percent(fmean(float(run.metrics["accuracy"]) for run in runs_by_way[fleet, WAITING])) for fleet in fleets]
    return " ".join([
        f"After {HOURS} hours the best mean over {_seeds()} is {join_words(best)}.",
        f"The deadline of {demo_study.DEADLINE:.0f} s excludes {join_words(excluded)} of {demo_study.CLIENTS} clients.",
        f"Waiting for all clients ends at {join_words(ends)}, but {demo_study.ROUNDS} rounds of it take {join_words(times)}.",
        _significance_sentence(runs_by_way),
        _sharing_sentence(runs_by_way),
    ])  # fmt: skip


def _significance_sentence(runs_by_way: RunsByWay) -> str:
    better = {fleet: significant_differences(runs_by_way, fleet)[0] for fleet in demo_study.FLEETS}
    parts = [f"{join_words([quote(way) for way in ways])} on the {fleet} fleet" for fleet, ways in better.items() if ways]
    if not parts:
        return f"No difference to {quote(WITH_DEADLINE)} is statistically significant over {_seeds()}, halfway and at the end."
    how = f"halfway and at the end, paired over {_seeds()}, Holm's correction, 5 %"
    return f"Significantly better than {quote(WITH_DEADLINE)} ({how}) is only {join_words(parts)}."


def _sharing_sentence(runs_by_way: RunsByWay) -> str:
    """What changes where a person's devices may share."""
    flat, shared = (median_time_to(runs_by_way[USERS, way], USER_TARGET) for way in ("FedAvg", "ShuffleFL"))
    head, target = "Where a person's devices may share samples, 'ShuffleFL'", percent(USER_TARGET)
    if shared is None:
        return f"{head} does not reach {target} within {MINUTES} min."
    other = f"'FedAvg' needs {span(flat)}" if flat is not None else f"'FedAvg' does not within {MINUTES} min"
    return f"{head} reaches {target} in {span(shared)}; {other}."


def _seeds() -> str:
    return f"{len(demo_study.STUDY.seeds)} seeds"


def median_time_to(runs: Sequence[ComparedRun], target: float) -> float | None:
    """The median time to an accuracy over seeds, by Kaplan and Meier."""
    reach_times = [target_time(run.seconds, run.accuracy, run.end, target) for run in runs]
    return median_time([r.seconds for r in reach_times], [r.reached for r in reach_times])


def result_rows(runs_by_way: RunsByWay) -> list[dict[str, Any]]:
    """Every run in the answer of `fedfleet demo`."""
    return [_row(fleet, way, run) for (fleet, way), runs in runs_by_way.items() for run in runs]


def way_rows(runs_by_way: RunsByWay) -> list[dict[str, Any]]:
    """The means over seeds of every way on every fleet, and its difference to FedAvg with a deadline."""
    tested = {fleet: against_deadline(runs_by_way, fleet) for fleet in demo_study.FLEETS}
    result = list[dict[str, Any]]()
    for (fleet, way), runs in runs_by_way.items():
        pair, p = tested.get(fleet, {}).get(way, (None, None))
        result.append({
            "fleet": fleet, "method": way, "seeds": len(runs),
            "accuracy": fmean(float(run.metrics["accuracy"] or 0.0) for run in runs),
            "accuracy_at_equal_time": None if fleet == USERS else mean_accuracy(runs),
            "virtual_seconds": fmean(run.end for run in runs), "never": never_took_part(runs),
            "against_deadline": None if pair is None else {**asdict(pair), "p_holm": p},
        })  # fmt: skip
    return result


def _row(fleet: str, way: str, run: ComparedRun) -> dict[str, Any]:
    metrics = run.metrics
    reach_time = target_time(run.seconds, run.accuracy, run.end, USER_TARGET if fleet == USERS else TARGET)
    keys = ("accuracy_bottom10", "accuracy_worst10_mean", "virtual_seconds", "commits", "rounds_failed")
    return {
        "fleet": fleet,
        "method": way,
        "pace": run.table["pace"]["use"],
        "seed": run.seed,
        "accuracy": metrics["accuracy"],
        "accuracy_at_equal_time": None if fleet == USERS else accuracy_at_hours(run),
        "seconds_to_target": reach_time.seconds if reach_time.reached else None,
        **{key: metrics[key] for key in keys},
        "never": metrics["participation"]["never"],
        "wasted_share": metrics["wasted"]["share"],
        "bytes_up": metrics["bytes_up"],
        "bytes_down": metrics["bytes_down"],
        "digest": metrics["digest"],
        "out": str(run.out),
    }


def percent(share: float | None) -> str:
    """Whole per cent."""
    return "no model" if share is None else f"{100 * share:.0f} %"
