"""What the demo found, in words: every figure is computed from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from fedfleet.app.demo import demo_runs, demo_users
from fedfleet.app.demo.demo_jobs import USERS, RunsByWay
from fedfleet.app.demo.demo_runs import WAITING, WITH_DEADLINE
from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.compare.run_data import accuracy_at
from fedfleet.app.studies.compare.significance import LEVEL
from fedfleet.app.terminal.text import join_words, span
from fedfleet.measure.statistics.paired_tests import PairedResult, holm, paired_test_by_seed
from fedfleet.measure.statistics.survival import median_time, target_time

MOMENTS = (0.5, 1.0)  # shares of the demo's hours at which a difference must be clear to be called sure


def accuracy_at_hours(run: ComparedRun, share: float = 1.0) -> float | None:
    """Accuracy when this share of the demo's hours is over; None if no model had been made by then."""
    then = 3600.0 * demo_runs.HOURS * share
    return None if run.first is None or run.first > then else accuracy_at(run, then)


def mean_accuracy(runs: Sequence[ComparedRun]) -> float | None:
    """The mean over seeds when the hours are over; None if not every seed has a model."""
    result = [accuracy_at_hours(run) for run in runs]
    values = [value for value in result if value is not None]
    return fmean(values) if values and len(values) == len(result) else None


def against_deadline(
    runs_by_way: RunsByWay, fleet: str, share: float = 1.0
) -> dict[str, tuple[PairedResult, float | None]]:
    """Every other way against FedAvg with a deadline on common seeds, at one moment; p corrected by Holm."""
    values = {
        way: {
            run.seed: value for run in runs_by_way[fleet, way] if (value := accuracy_at_hours(run, share)) is not None
        }
        for way in demo_runs.WAYS
    }
    tested = min((run.tested for way in demo_runs.WAYS for run in runs_by_way[fleet, way] if run.tested), default=0)
    resolution = 1 / tested if tested else 0.0  # no accuracy is known more finely than to a sample
    result = {
        way: pair
        for way in demo_runs.WAYS
        if way != WITH_DEADLINE
        and (pair := paired_test_by_seed(values[way], values[WITH_DEADLINE], grain=resolution)) is not None
    }
    return dict(zip(result, zip(result.values(), holm([pair.p for pair in result.values()]), strict=True), strict=True))


def sure_differences(runs_by_way: RunsByWay, fleet: str) -> tuple[list[str], list[str]]:
    """The ways that are surely better than FedAvg with a deadline, and those that are surely worse: at every moment of MOMENTS.

    One evaluation of one model is a noisy thing, and with few seeds a difference that is clear at one hour is gone at the next:
    whoever reads off a single moment finds something sooner or later. So a difference must be clear, and of one sign, at both.
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
    pairs = [(way, value) for way in demo_runs.WAYS if (value := mean_accuracy(runs_by_way[fleet, way])) is not None]
    return sorted(pairs, key=lambda found: -found[1])


def never_took_part(runs: Sequence[ComparedRun]) -> float:
    """How many people never took part, in the mean over seeds."""
    return fmean(float(run.metrics["participation"]["never"]) for run in runs)


def headline(runs_by_way: RunsByWay) -> str:
    """The finding in one line: how far ways are apart from fleet to fleet, and whether one of them is surely better.

    No cause is claimed: seeds differ more on harder fleets, and that alone drives the best and the worst mean apart.
    """
    first, last = next(iter(demo_runs.FLEETS)), list(demo_runs.FLEETS)[-1]
    low, high = f"{100 * accuracy_gap(runs_by_way, first):.0f}", f"{100 * accuracy_gap(runs_by_way, last):.0f}"
    distance_text = (
        f"After {demo_runs.HOURS} h the ways to train are {low} "
        f"points apart on the {first} fleet and {high} on the {last} one"
    )
    better = {fleet: ways for fleet in demo_runs.FLEETS if (ways := sure_differences(runs_by_way, fleet)[0])}
    if not better:
        return f"{distance_text}; {len(demo_runs.SEEDS)} seeds cannot tell which is best"
    return (
        f"{distance_text}; "
        f"surely better than plain FedAvg: {join_words([f'{join_words(w)} ({fleet})' for fleet, w in better.items()])}"
    )


def accuracy_gap(runs_by_way: RunsByWay, fleet: str) -> float:
    """Between the best and the worst way that have a model by then."""
    values = [value for _, value in ranking(runs_by_way, fleet)]
    return max(values) - min(values) if values else 0.0


def paragraph(runs_by_way: RunsByWay) -> str:
    """The answer: where each fleet stands, whom a deadline leaves out, what waiting costs, how sure it is, what users change."""
    return " ".join(
        [
            _standing_sentence(runs_by_way),
            _left_out_sentence(runs_by_way),
            _waiting_sentence(runs_by_way),
            _certainty_sentence(runs_by_way),
            _sharing_sentence(runs_by_way),
        ]
    )


def _standing_sentence(runs_by_way: RunsByWay) -> str:
    parts = list[str]()
    for fleet in demo_runs.FLEETS:
        order = ranking(runs_by_way, fleet)
        plain = percent(mean_accuracy(runs_by_way[fleet, WITH_DEADLINE]))
        if order:
            parts.append(f"{order[0][0]} with {percent(order[0][1])} on the {fleet} fleet ({WITH_DEADLINE}: {plain})")
    return f"After {demo_runs.HOURS} hours the highest mean over {len(demo_runs.SEEDS)} seeds is {join_words(parts)}."


def _left_out_sentence(runs_by_way: RunsByWay) -> str:
    counts = [f"{never_took_part(runs_by_way[fleet, WITH_DEADLINE]):.0f}" for fleet in demo_runs.FLEETS]
    return f"Its deadline of {demo_runs.DEADLINE:.0f} s leaves out {join_words(counts)} of {demo_runs.CLIENTS} people."


def _waiting_sentence(runs_by_way: RunsByWay) -> str:
    """What it takes to wait for everybody."""
    times = [span(fmean(run.end for run in runs_by_way[fleet, WAITING])) for fleet in demo_runs.FLEETS]
    ends = [
        percent(fmean(float(run.metrics["accuracy"]) for run in runs_by_way[fleet, WAITING]))
        for fleet in demo_runs.FLEETS
    ]
    return f"Waiting for everybody ends at {join_words(ends)}, but {demo_runs.ROUNDS} rounds of it take {join_words(times)}."


def _certainty_sentence(runs_by_way: RunsByWay) -> str:
    better = {fleet: sure_differences(runs_by_way, fleet)[0] for fleet in demo_runs.FLEETS}
    fleets_text = [f"{join_words(ways)} on the {fleet} fleet" for fleet, ways in better.items() if ways]
    if not fleets_text:
        seeds = f"with {len(demo_runs.SEEDS)} seeds"
        return f"None of this is sure: {seeds}, no way differs clearly from FedAvg with that deadline, halfway and at the end."
    how = f"halfway and at the end, paired over {len(demo_runs.SEEDS)} seeds, Holm's correction, 5 %"
    return f"Surely better than FedAvg with that deadline ({how}) is only {join_words(fleets_text)}."


def _sharing_sentence(runs_by_way: RunsByWay) -> str:
    """What changes where a person's devices may share."""
    times = {way: median_time_to(runs_by_way[USERS, way], demo_users.TARGET) for way in demo_users.METHODS}
    flat, shared, target = times["FedAvg"], times["ShuffleFL"], percent(demo_users.TARGET)
    head = "Where a person's devices may share samples, ShuffleFL"
    if shared is None:
        return f"{head} does not reach {target} within {demo_users.MINUTES} min."
    instead = f"FedAvg in {span(flat)}" if flat is not None else f"FedAvg does not within {demo_users.MINUTES} min"
    return f"{head} reaches {target} in {span(shared)}; {instead}."


def median_time_to(runs: Sequence[ComparedRun], target: float) -> float | None:
    """The median time to an accuracy over seeds, by Kaplan and Meier."""
    reach_times = [target_time(run.seconds, run.accuracy, run.end, target) for run in runs]
    return median_time([r.seconds for r in reach_times], [r.reached for r in reach_times])


def result_rows(runs_by_way: RunsByWay) -> list[dict[str, Any]]:
    """Every run in the answer of `fedfleet demo`."""
    return [_row(fleet, way, run) for (fleet, way), runs in runs_by_way.items() for run in runs]


def way_rows(runs_by_way: RunsByWay) -> list[dict[str, Any]]:
    """The means over seeds of every way on every fleet, and how sure it differs from FedAvg with a deadline."""
    tested = {fleet: against_deadline(runs_by_way, fleet) for fleet in demo_runs.FLEETS}
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
    metrics, target = run.metrics, demo_users.TARGET if fleet == USERS else demo_runs.TARGET
    reach_time = target_time(run.seconds, run.accuracy, run.end, target)
    return {
        "fleet": fleet,
        "method": way,
        "pace": run.table["pace"]["use"],
        "seed": run.seed,
        "accuracy": metrics["accuracy"],
        "accuracy_at_equal_time": None if fleet == USERS else accuracy_at_hours(run),
        "accuracy_bottom10": metrics["accuracy_bottom10"],
        "accuracy_worst10_mean": metrics["accuracy_worst10_mean"],
        "seconds_to_target": reach_time.seconds if reach_time.reached else None,
        "virtual_seconds": metrics["virtual_seconds"],
        "commits": metrics["commits"],
        "rounds_failed": metrics["rounds_failed"],
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
