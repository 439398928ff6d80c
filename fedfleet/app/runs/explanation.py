"""Explaining a run folder: where its time went, from its journal, and from its world where only that can tell."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import assemble
from fedfleet.app.runs.run_folder import open_run
from fedfleet.app.spec import Spec
from fedfleet.app.terminal.text import span
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import Event
from fedfleet.measure.attribution.causes import Attribution, RoundTime
from fedfleet.measure.attribution.critical_path import attribution
from fedfleet.measure.attribution.path_cursor import Progress
from fedfleet.measure.attribution.sentences import MEANINGS, clients_text, sentence, share
from fedfleet.measure.goal import target_text
from fedfleet.measure.score_info import score_info_of
from fedfleet.simulation.trips import ready_seconds
from fedfleet.store.journal import identity_of
from fedfleet.store.seals import kind_of

_BEHIND = 10  # clients that are named for each cause
_LEADING = 3  # causes that are named for a round


def explain_run(folder: Path, *, longest: int = 0) -> dict[str, Any]:
    """Where the time of a run went, as `fedfleet explain` answers; with so many of its `longest` rounds.

    A run that is still going on is explained as far as it is. `counterfactuals` and `shapley` stay empty: they need other runs.
    """
    result, served = attribute_run(folder)
    answer = attribution_answer(result)
    answer |= {"clock": "real" if served else "virtual", "notes": notes(result, served=served)}
    if longest:
        rounds = sorted(result.rounds, key=lambda r: (-r.seconds, r.round))[:longest]
        answer["longest_rounds"] = [_round(r) for r in rounds]
    return {**answer, "out": str(folder)}


def attribute_run(folder: Path) -> tuple[Attribution, bool]:
    """The books of a run folder, and whether it was served over a real network."""
    spec, events, _ = open_run(folder)
    if not events:
        raise BadInput(f"the journal in {folder} is empty, so there is nothing to explain yet")
    return attribute_events(folder, spec, events)


def attribute_events(folder: Path, spec: Spec, events: list[Event]) -> tuple[Attribution, bool]:
    """The same of a folder that was read already."""
    served = kind_of(identity_of(folder / "run.db")) == "served"
    return (attribution(events), True) if served else (attribute_simulated(spec, events), False)


def attribute_simulated(spec: Spec, events: list[Event]) -> Attribution:
    """The books of a simulated run; its world is built again only if a task has to be cut where a round began."""
    try:
        return attribution(events, progress_of(spec))
    except FedFleetError:  # the world of an own model, or one whose files are gone: then evenly, which the answer says
        return attribution(events)


def progress_of(spec: Spec) -> Progress:
    """How far tasks had come by a time, as the world of this spec says."""
    world = cache(lambda: assemble(spec).world)

    def progress(client: int, sent: float, time: float) -> float:
        return float(ready_seconds(world().states, np.array([client], np.int64), sent, np.array([time]))[0])

    return progress


def attribution_answer(result: Attribution) -> dict[str, Any]:
    """The contract of `fedfleet explain`, from the books of a run: causes add up to virtual_seconds."""
    clients_by_cause = {c: dict(list(waits.items())[:_BEHIND]) for c, waits in result.who.items() if waits}
    return {
        "virtual_seconds": result.virtual_seconds,
        "causes": dict(result.causes),
        "counterfactuals": [],
        "shapley": {},
        "sentence": sentence(result),
        "rounds": sum(r.closed for r in result.rounds),
        "ended": result.ended,
        "failures": dict(result.failures),
        "waited_for": {cause: [[c, s] for c, s in mine.items()] for cause, mine in clients_by_cause.items()},
        "behind": {cause: text for cause, mine in result.who.items() if (text := clients_text(mine, result.causes[cause]))},
        "cutting": result.cutting,
    }


def notes(result: Attribution, *, served: bool) -> list[str]:
    """What whoever reads the figures must know."""
    texts: list[str] = []
    if not result.ended:
        texts.append("the run has not ended: this is what its journal holds so far")
    if served and result.causes["unknown"] > 0:
        texts.append(
            "devices measure fetching and training; the time that a report was on its way is not measured, so it is unknown"
        )
    if result.cutting == "evenly":
        texts.append(
            "tasks that began before the round that waited for them were divided evenly over its time, since nothing says how far "
            "they had come"
        )
    return texts


def _round(r: RoundTime) -> dict[str, Any]:
    return {
        "round": r.round,
        "start": r.start,
        "seconds": r.seconds,
        "causes": dict(r.causes),
        "client": None if r.client < 0 else r.client,
        "reason": r.reason or None,
        "closed": r.closed,
    }


def explanation_text(answer: dict[str, Any]) -> str:
    """Causes from the largest down, what they mean, and who was waited for; causes that took no time are left out."""
    total = answer["virtual_seconds"]
    rounds = f"{answer['rounds']} {'round' if answer['rounds'] == 1 else 'rounds'}"
    causes = sorted((c for c, s in answer["causes"].items() if s > 0), key=lambda c: -answer["causes"][c])
    lines = [f"{span(total)} of {answer.get('clock', 'virtual')} time, {rounds}", ""] if causes else []
    for cause in causes:
        seconds = answer["causes"][cause]
        who = answer["behind"].get(cause, "")
        lines.append(f"{cause:<13} {span(seconds):>10} {share(seconds, total):>9}  {MEANINGS[cause]}{f', {who}' if who else ''}")
    lines += _failure_lines(answer["failures"])
    lines += _round_lines(answer.get("longest_rounds", []))
    lines += _shapley_lines(answer)
    return "\n".join([*lines, *([""] if lines else []), answer["sentence"], *(f"note: {note}" for note in answer["notes"])])


def _shapley_lines(answer: Mapping[str, Any]) -> list[str]:
    """What removing each cause would change, on average over all orders of removing them; nothing where nobody asked."""
    if not answer.get("present"):
        return []
    score = score_info_of(answer)
    heading = f"time to {target_text(answer['target'], score)}"
    wide = max(20, len(heading))
    lines = ["", f"{'without':<18} {heading:>{wide}} {'last model':>12}"]
    for cause in answer["present"]:
        value = answer["shapley"][cause]
        seconds = value["time_to_accuracy"]
        points = f"{100 * value['accuracy']:+.1f} %" if score.kind.percent else score.difference(value["accuracy"])
        longer = f"{'-' if seconds < 0 else '+'}{span(abs(seconds))}"
        lines.append(f"{cause:<18} {longer:>{wide}} {points:>12}")
    return [*lines, f"more is in {answer['page']}"] if "page" in answer else lines


def _failure_lines(failures: Mapping[str, float]) -> list[str]:
    """Why rounds failed, and how long that took."""
    ranked = sorted(failures, key=lambda reason: -failures[reason])
    return ["", *(f"failed: {span(failures[reason])} because {reason}" for reason in ranked)] if ranked else []


def _round_lines(longest: list[dict[str, Any]]) -> list[str]:
    """The longest rounds, each with what most of it went into."""
    if not longest:
        return []
    lines = ["", f"{'round':>7} {'seconds':>12}  went into"]
    for r in longest:
        ranked = sorted(r["causes"], key=lambda c: -r["causes"][c])[:_LEADING]
        parts = ", ".join(f"{share(r['causes'][c], r['seconds'])} {c}" for c in ranked)
        closed = f"; closed by client {r['client']}" if r["client"] is not None else f"; {r['reason']}" if r["reason"] else ""
        lines.append(f"{r['round'] + 1:>7} {r['seconds']:>12,.1f}  {parts}{closed}")
    return lines
