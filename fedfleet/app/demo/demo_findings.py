"""What the demo found, in words: every figure is computed from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from fedfleet.app.demo import demo_runs, demo_users
from fedfleet.app.demo.demo_jobs import USERS, Done
from fedfleet.app.demo.demo_runs import DEADLINED, WAITING
from fedfleet.app.studies.compare.records import Compared
from fedfleet.app.studies.compare.run_data import accuracy_at
from fedfleet.app.studies.compare.significance import LEVEL
from fedfleet.app.terminal.text import listed, span
from fedfleet.measure.statistics.paired_tests import Paired, holm, paired_by_seed
from fedfleet.measure.statistics.survival import median_time, reaching

MOMENTS = (0.5, 1.0)  # shares of the demo's hours at which a difference must be clear to be called sure


def at_hours(run: Compared, share: float = 1.0) -> float | None:
    """Accuracy when this share of the demo's hours is over; None if no model had been made by then."""
    then = 3600.0 * demo_runs.HOURS * share
    return None if run.first is None or run.first > then else accuracy_at(run, then)


def standing(runs: Sequence[Compared]) -> float | None:
    """The mean over seeds when the hours are over; None if not every seed has a model."""
    found = [at_hours(run) for run in runs]
    known = [value for value in found if value is not None]
    return fmean(known) if known and len(known) == len(found) else None


def against_deadline(done: Done, fleet: str, share: float = 1.0) -> dict[str, tuple[Paired, float | None]]:
    """Every other way against FedAvg with a deadline on common seeds, at one moment; p corrected by Holm."""
    values = {
        way: {run.seed: value for run in done[fleet, way] if (value := at_hours(run, share)) is not None}
        for way in demo_runs.WAYS
    }
    tested = min((run.tested for way in demo_runs.WAYS for run in done[fleet, way] if run.tested), default=0)
    grain = 1 / tested if tested else 0.0  # no accuracy is known more finely than to a sample
    found = {
        way: pair
        for way in demo_runs.WAYS
        if way != DEADLINED and (pair := paired_by_seed(values[way], values[DEADLINED], grain=grain)) is not None
    }
    return dict(zip(found, zip(found.values(), holm([pair.p for pair in found.values()]), strict=True), strict=True))


def surely(done: Done, fleet: str) -> tuple[list[str], list[str]]:
    """The ways that are surely better than FedAvg with a deadline, and those that are surely worse: at every moment of MOMENTS.

    One evaluation of one model is a noisy thing, and with few seeds a difference that is clear at one hour is gone at the next:
    whoever reads off a single moment finds something sooner or later. So a difference must be clear, and of one sign, at both.
    """
    signs = [
        {way: pair.difference > 0 for way, (pair, p) in against_deadline(done, fleet, share).items() if p is not None and p < LEVEL}
        for share in MOMENTS
    ]  # fmt: skip
    always = [way for way in signs[0] if all(way in sign and sign[way] == signs[0][way] for sign in signs)]
    return [way for way in always if signs[0][way]], [way for way in always if not signs[0][way]]


def ranking(done: Done, fleet: str) -> list[tuple[str, float]]:
    """The ways that have a model by then, the best first."""
    known = [(way, value) for way in demo_runs.WAYS if (value := standing(done[fleet, way])) is not None]
    return sorted(known, key=lambda found: -found[1])


def left_out(runs: Sequence[Compared]) -> float:
    """How many people never took part, in the mean over seeds."""
    return fmean(float(run.metrics["participation"]["never"]) for run in runs)


def headline(done: Done) -> str:
    """The finding in one line: how far ways are apart from fleet to fleet, and whether one of them is surely better.

    No cause is claimed: seeds differ more on harder fleets, and that alone drives the best and the worst mean apart.
    """
    first, last = next(iter(demo_runs.FLEETS)), list(demo_runs.FLEETS)[-1]
    low, high = f"{100 * gap(done, first):.0f}", f"{100 * gap(done, last):.0f}"
    apart = f"After {demo_runs.HOURS} h the ways to train are {low} points apart on the {first} fleet and {high} on the {last} one"
    better = {fleet: ways for fleet in demo_runs.FLEETS if (ways := surely(done, fleet)[0])}
    if not better:
        return f"{apart}; {len(demo_runs.SEEDS)} seeds cannot tell which is best"
    return (
        f"{apart}; surely better than plain FedAvg: {listed([f'{listed(w)} ({fleet})' for fleet, w in better.items()])}"
    )


def gap(done: Done, fleet: str) -> float:
    """Between the best and the worst way that have a model by then."""
    values = [value for _, value in ranking(done, fleet)]
    return max(values) - min(values) if values else 0.0


def paragraph(done: Done) -> str:
    """The answer: where each fleet stands, whom a deadline leaves out, what waiting costs, how sure it is, what users change."""
    return " ".join([_stand(done), _left(done), _wait(done), _sure(done), _shared(done)])


def _stand(done: Done) -> str:
    parts = list[str]()
    for fleet in demo_runs.FLEETS:
        order = ranking(done, fleet)
        plain = percent(standing(done[fleet, DEADLINED]))
        if order:
            parts.append(f"{order[0][0]} with {percent(order[0][1])} on the {fleet} fleet ({DEADLINED}: {plain})")
    return f"After {demo_runs.HOURS} hours the highest mean over {len(demo_runs.SEEDS)} seeds is {listed(parts)}."


def _left(done: Done) -> str:
    said = [f"{left_out(done[fleet, DEADLINED]):.0f}" for fleet in demo_runs.FLEETS]
    return f"Its deadline of {demo_runs.DEADLINE:.0f} s leaves out {listed(said)} of {demo_runs.CLIENTS} people."


def _wait(done: Done) -> str:
    """What it takes to wait for everybody."""
    times = [span(fmean(run.end for run in done[fleet, WAITING])) for fleet in demo_runs.FLEETS]
    ends = [
        percent(fmean(float(run.metrics["accuracy"]) for run in done[fleet, WAITING])) for fleet in demo_runs.FLEETS
    ]
    return f"Waiting for everybody ends at {listed(ends)}, but {demo_runs.ROUNDS} rounds of it take {listed(times)}."


def _sure(done: Done) -> str:
    better = {fleet: surely(done, fleet)[0] for fleet in demo_runs.FLEETS}
    named = [f"{listed(ways)} on the {fleet} fleet" for fleet, ways in better.items() if ways]
    if not named:
        seeds = f"with {len(demo_runs.SEEDS)} seeds"
        return f"None of this is sure: {seeds}, no way differs clearly from FedAvg with that deadline, halfway and at the end."
    how = f"halfway and at the end, paired over {len(demo_runs.SEEDS)} seeds, Holm's correction, 5 %"
    return f"Surely better than FedAvg with that deadline ({how}) is only {listed(named)}."


def _shared(done: Done) -> str:
    """What changes where a person's devices may share."""
    said = {way: time_to(done[USERS, way], demo_users.TARGET) for way in demo_users.METHODS}
    flat, shared, target = said["FedAvg"], said["ShuffleFL"], percent(demo_users.TARGET)
    head = "Where a person's devices may share samples, ShuffleFL"
    if shared is None:
        return f"{head} does not reach {target} within {demo_users.MINUTES} min."
    instead = f"FedAvg in {span(flat)}" if flat is not None else f"FedAvg does not within {demo_users.MINUTES} min"
    return f"{head} reaches {target} in {span(shared)}; {instead}."


def time_to(runs: Sequence[Compared], target: float) -> float | None:
    """The median time to an accuracy over seeds, by Kaplan and Meier."""
    seen = [reaching(run.seconds, run.accuracy, run.end, target) for run in runs]
    return median_time([r.seconds for r in seen], [r.reached for r in seen])


def result_rows(done: Done) -> list[dict[str, Any]]:
    """Every run in the answer of `fedfleet demo`."""
    return [_row(fleet, way, run) for (fleet, way), runs in done.items() for run in runs]


def way_rows(done: Done) -> list[dict[str, Any]]:
    """The means over seeds of every way on every fleet, and how sure it differs from FedAvg with a deadline."""
    tested = {fleet: against_deadline(done, fleet) for fleet in demo_runs.FLEETS}
    found = list[dict[str, Any]]()
    for (fleet, way), runs in done.items():
        pair, p = tested.get(fleet, {}).get(way, (None, None))
        found.append({
            "fleet": fleet, "method": way, "seeds": len(runs),
            "accuracy": fmean(float(run.metrics["accuracy"] or 0.0) for run in runs),
            "accuracy_at_equal_time": None if fleet == USERS else standing(runs),
            "virtual_seconds": fmean(run.end for run in runs), "never": left_out(runs),
            "against_deadline": None if pair is None else {**asdict(pair), "p_holm": p},
        })  # fmt: skip
    return found


def _row(fleet: str, way: str, run: Compared) -> dict[str, Any]:
    m, target = run.metrics, demo_users.TARGET if fleet == USERS else demo_runs.TARGET
    to = reaching(run.seconds, run.accuracy, run.end, target)
    return {
        "fleet": fleet, "method": way, "pace": run.table["pace"]["use"], "seed": run.seed, "accuracy": m["accuracy"],
        "accuracy_at_equal_time": None if fleet == USERS else at_hours(run),
        "accuracy_bottom10": m["accuracy_bottom10"], "accuracy_worst10_mean": m["accuracy_worst10_mean"],
        "seconds_to_target": to.seconds if to.reached else None, "virtual_seconds": m["virtual_seconds"], "commits": m["commits"],
        "rounds_failed": m["rounds_failed"], "never": m["participation"]["never"], "wasted_share": m["wasted"]["share"],
        "bytes_up": m["bytes_up"], "bytes_down": m["bytes_down"], "digest": m["digest"], "out": str(run.out),
    }  # fmt: skip


def percent(share: float | None) -> str:
    """Whole per cent."""
    return "no model" if share is None else f"{100 * share:.0f} %"
