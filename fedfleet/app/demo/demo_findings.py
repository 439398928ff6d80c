"""What the demo found: a recommendation for each fleet, and one for people with several devices; all of it from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from fedfleet.app.demo import demo_study
from fedfleet.app.demo.demo_study import HOURS, SECONDS, USERS, WITH_DEADLINE, RunsByWay
from fedfleet.app.studies.compare import recommend
from fedfleet.app.studies.compare.arms import draws_of, quote, seed_of
from fedfleet.app.studies.compare.criteria import CRITERIA, Yardstick, accuracy_in_hand
from fedfleet.app.studies.compare.moments import scores
from fedfleet.app.studies.compare.records import Arm, ComparedRun, Recommendation
from fedfleet.app.terminal.text import percent
from fedfleet.measure.statistics.blocked_design import Contrast, all_against_baseline
from fedfleet.measure.statistics.survival import median_time, target_time

TARGET, USER_TARGET = float(demo_study.STUDY.target or 0), float(demo_study.USER_STUDY.target or 0)


def arms_of(runs_by_way: RunsByWay, fleet: str) -> list[Arm]:
    """The ways to train on a fleet, or the methods for the devices of people, as arms of a comparison."""
    ways = demo_study.METHODS if fleet == USERS else demo_study.WAYS
    return [Arm(way, {}, tuple(runs_by_way[fleet, way])) for way in ways]


def recommendation(runs_by_way: RunsByWay, fleet: str) -> Recommendation:
    """What to use on a fleet: by accuracy when the hours are over; for the devices of people, by the time to the target."""
    if fleet == USERS:
        return recommend(arms_of(runs_by_way, fleet), aim="time", target=USER_TARGET)
    return recommend(arms_of(runs_by_way, fleet), at=SECONDS)


def fleet_name(fleet: str) -> str:
    """What a sentence calls it."""
    return "devices of one person" if fleet == USERS else f"{fleet} fleet"


def fleet_finding(runs_by_way: RunsByWay, fleet: str) -> str:
    """The finding on one fleet, in a line: what to use, how much better it is, how sure that is, and what it costs."""
    name = fleet_name(fleet)
    sentence = recommendation(runs_by_way, fleet).sentence
    return f"{name[0].upper()}{name[1:]}: {sentence[:1].lower()}{sentence[1:]}"


def headline(runs_by_way: RunsByWay) -> str:
    """The finding in one line: what to use on each fleet, and by how much."""
    short = "; ".join(f"{fleet} fleet: {_short(recommendation(runs_by_way, fleet))}" for fleet in demo_study.FLEETS)
    return f"{short[0].upper()}{short[1:]}"


def _short(result: Recommendation) -> str:
    """A recommendation in a few words."""
    if result.arm is None or result.difference is None:
        return "nothing to recommend"
    if result.equal_within is not None:
        return f"{quote(result.arm)} is as good as any"
    unsure = "" if result.decided else ", not decided yet"
    return f"{quote(result.arm)} is {100 * result.difference:.0f} points ahead{unsure}"


def paragraph(runs_by_way: RunsByWay) -> str:
    """The answer: what to use on each fleet, with interval and cost, and what sharing among one person's devices changes."""
    fleets = " ".join(_brief(fleet, recommendation(runs_by_way, fleet)) for fleet in demo_study.FLEETS)
    result = recommendation(runs_by_way, USERS)
    times = speedup_text(result)
    faster = f" Where a person's devices may share samples, {quote(result.arm or '')} reaches {percent(USER_TARGET)} {times}."
    return f"{fleets}{faster if times and result.decided else ''}"


def _brief(fleet: str, result: Recommendation) -> str:
    """A recommendation with its interval and what speaks against it; what each way reached stands below it on the page."""
    if result.arm is None or result.difference is None or result.value is None:
        return f"On the {fleet} fleet there is nothing to recommend."
    head = f"On the {fleet} fleet use {quote(result.arm)}: after {HOURS} h it reaches {percent(result.value)}"
    against = f" Trade-off: {'; '.join(result.tradeoffs)}." if result.tradeoffs else ""
    if result.equal_within is not None:
        return f"{head}, and no way is more than {100 * result.equal_within:.1f} points better.{against}"
    between = (
        "" if result.low is None or result.high is None else f" (95 % interval {100 * result.low:.1f} to {100 * result.high:.1f})"
    )
    more = f"; about {result.more_seeds} more seeds would decide it" if result.more_seeds else ""
    unsure = "" if result.decided else f" This is not decided yet{more}."
    return f"{head}, {100 * result.difference:.1f} points more than {quote(result.against or '')}{between}.{unsure}{against}"


def speedup_text(result: Recommendation) -> str:
    """How many times as fast the recommended method is, with its interval; nothing where that is not known."""
    if result.difference is None or result.low is None or result.high is None or result.high >= 1.0:
        return ""
    times, low, high = (1.0 / (1.0 - saved) for saved in (result.difference, result.low, result.high))
    return f"{times:.1f} times as fast as {quote(result.against or '')} (95 % interval {low:.1f} to {high:.1f})"


def against_deadline(runs_by_way: RunsByWay, fleet: str) -> dict[str, Contrast]:
    """Every other way minus FedAvg with a deadline on common seeds when the hours are over, by Dunnett's test."""
    arms = arms_of(runs_by_way, fleet)
    found = scores(arms, CRITERIA["accuracy"], Yardstick(SECONDS))
    draws = {seed_of(run): draws_of(run) for arm in arms for run in arm.runs}
    known = {arm: values for arm, values in found.values.items() if values}
    tested = min((run.tested for arm in arms for run in arm.runs if run.tested), default=0)
    apart = [arm for arm in known if found.without[arm]]
    return all_against_baseline(WITH_DEADLINE, known, draws, grain=1 / tested if tested else 0.0, apart=apart)


def accuracy_at_hours(run: ComparedRun) -> float | None:
    """Accuracy when the demo's hours are over; a run without a model counts with its first weights."""
    return accuracy_in_hand(run, SECONDS)


def never_took_part(runs: Sequence[ComparedRun]) -> float:
    """How many clients never took part, in the mean over seeds."""
    return fmean(float(run.metrics["participation"]["never"]) for run in runs)


def median_time_to(runs: Sequence[ComparedRun], target: float) -> float | None:
    """The median time to an accuracy over seeds, by Kaplan and Meier."""
    reach_times = [target_time(run.seconds, run.accuracy, run.end, target) for run in runs]
    return median_time([r.seconds for r in reach_times], [r.reached for r in reach_times])


def result_rows(runs_by_way: RunsByWay) -> list[dict[str, Any]]:
    """Every run in the answer of `fedfleet demo`."""
    return [_row(fleet, way, run) for (fleet, way), runs in runs_by_way.items() for run in runs]


def recommendation_rows(runs_by_way: RunsByWay) -> list[dict[str, Any]]:
    """What to use on each fleet, in the answer of `fedfleet demo`."""
    return [{"fleet": fleet, **asdict(recommendation(runs_by_way, fleet))} for fleet in (*demo_study.FLEETS, USERS)]


def way_rows(runs_by_way: RunsByWay) -> list[dict[str, Any]]:
    """The means over seeds of every way on every fleet, and its difference to FedAvg with a deadline."""
    tested = {fleet: against_deadline(runs_by_way, fleet) for fleet in demo_study.FLEETS}
    result = list[dict[str, Any]]()
    for (fleet, way), runs in runs_by_way.items():
        contrast = tested.get(fleet, {}).get(way)
        paired = None if contrast is None else contrast.paired
        at_hours = [value for run in runs if (value := accuracy_at_hours(run)) is not None]
        result.append({
            "fleet": fleet, "method": way, "seeds": len(runs),
            "accuracy": fmean(float(run.metrics["accuracy"] or 0.0) for run in runs),
            "accuracy_at_equal_time": fmean(at_hours) if at_hours and fleet != USERS else None,
            "virtual_seconds": fmean(run.end for run in runs), "never": never_took_part(runs),
            "against_deadline": None if contrast is None or paired is None else {**asdict(paired), "p_holm": contrast.p},
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
