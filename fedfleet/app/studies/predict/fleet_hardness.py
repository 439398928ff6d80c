"""How hard the fleet of a spec is: the six metrics under its own pacing and work, the class clock, and a verdict in words."""

from __future__ import annotations

import math
from typing import Any

from fedfleet.app.assemble import assemble
from fedfleet.app.fleets.hardness import Hardness, Measure, hardness, share_word, wait_word
from fedfleet.app.spec import Spec
from fedfleet.app.studies.predict.participation import mean_bytes, mean_samples
from fedfleet.app.studies.predict.prediction import clock_of
from fedfleet.app.terminal.text import percent, span
from fedfleet.core.errors import FedFleetError
from fedfleet.core.limits import MAX_CLIENTS
from fedfleet.core.parts import Task
from fedfleet.measure.montecarlo.published_values import PUBLISHED, placement_text

METRIC_WORDS = {"Dev": "devices alone", "Stat": "reachability alone", "Inter": "devices and reachability together"}
# By the word for the most under-represented label.
_LABEL_LOSS = {
    "easy": "Its labels lose little", "tight": "Its labels lose something", "hard": "A label loses much",
    "very hard": "A label loses most",
}  # fmt: skip
_NO_CLOCK = "there is no class clock"


def measure_spec(spec: Spec, *, seeds: int = 3, task: Task | None = None) -> dict[str, Any]:
    """The answer of `fedfleet measure SPEC`: each metric by its name, what it was measured under, the clock and the verdict.

    `task` is the one that a person gave in Python, where the spec names none.
    """
    setup = assemble(spec, task)
    clock, why = _clock(spec, task)
    rounds = int(spec.stop["rounds"]) if clock is None else max(round(clock["rounds_done"]), 1)
    hard = hardness(
        spec, mean_samples(setup), rounds, seeds=seeds, model_bytes=mean_bytes(setup), most=MAX_CLIENTS, waiting_too=True
    )
    return {
        "verdict": verdict(hard, clock),
        **{name: _metric_answer(name, measure, hard, seeds) for name, measure in hard.measures.items()},
        "clock": clock,
        "under": _conditions(spec, hard, seeds),
        "published": {name: {p.word: p.share for p in known} for name, known in PUBLISHED.items()},
        "not_measured": [reason for reason in (hard.missing_reason, why) if reason],
    }


def _clock(spec: Spec, task: Task | None) -> tuple[dict[str, Any] | None, str]:
    """The class clock, or why there is none: a fleet can be hard to foresee and easy to measure."""
    try:
        return clock_of(spec, task=task), ""
    except FedFleetError as error:
        return None, f"{_NO_CLOCK}: {error}"


def _metric_answer(name: str, measure: Measure, hard: Hardness, seeds: int) -> dict[str, Any]:
    answer: dict[str, Any] = {"value": measure.raw, "sd": measure.sd, "seeds": seeds, "notes": list(measure.notes)}
    range95 = None if measure.range95 is None else list(measure.range95)
    if name.endswith("-R"):
        share = hard.relative(measure.plain)
        return {
            **answer,
            "fair_work": measure.plain,
            "ci95": range95,
            "word": share_word(share),
            "beside": placement_text(name, share),
        }
    times = measure.plain / undisturbed_seconds(hard)
    return {**answer, "round_seconds": measure.plain, "ci95": range95, "word": wait_word(times), "times_undisturbed": times}


def undisturbed_seconds(hard: Hardness) -> float:
    """How long a round would take if all were as fast as a usual client and always there, in seconds, with its pause."""
    return max(hard.settings.t_break_asked + hard.trip, 1e-9)


def _conditions(spec: Spec, hard: Hardness, seeds: int) -> dict[str, Any]:
    s, rules = hard.settings, hard.rules
    deadline = None if rules is None or not math.isfinite(rules.time_limit) else rules.seconds
    return {
        "clients": int(spec.world["clients"]), "pace": spec.pace["use"], "cohort": s.k, "rounds": s.rounds,
        "deadline_seconds": deadline, "ready_share": s.ready_share, "pause_seconds": s.t_break_asked,
        "model_bytes": 1000.0 * s.size_kb, "samples": s.samples, "trip_seconds": hard.trip, "seeds": seeds,
        "ideal_fair_work": hard.ideal,
    }  # fmt: skip


def verdict(hard: Hardness, clock: dict[str, Any] | None) -> str:
    """How hard, in a few sentences: what gets through or how long it takes, beside published fleets; and which label suffers."""
    sentences = list[str]()
    by_share = [name for name in hard.measures if name.endswith("-R")]
    name = (by_share or list(hard.measures) or [""])[-1]
    if by_share:
        sentences.append(_share_sentence(name, hard.measures[name], hard))
    elif name:
        sentences.append(_wait_sentence(name, hard.measures[name], hard))
    if clock is not None and len(clock["classes"]) > 1:
        sentences.append(_clock_sentence(clock))
    return " ".join(sentences) or "Nothing about this fleet could be measured."


def _share_sentence(name: str, measure: Measure, hard: Hardness) -> str:
    share, limit = hard.relative(measure.plain), hard.settings.deadline
    known = {p.word: percent(p.share) for p in PUBLISHED[name]}
    under = f"under a deadline of {span(limit)}" if math.isfinite(limit) else "even without a deadline"
    return (
        f"This fleet is {share_word(share)} {under}: {percent(measure.plain)} of fair work gets through, and {percent(hard.ideal)} "
        f"would on an ideal fleet ({METRIC_WORDS[name.partition('MC')[0]]}). FLHetBench's fleets let through "
        f"{known['mild']} (mild), "
        f"{known['moderate']} (moderate) and {known['severe']} (severe): this one is {placement_text(name, share)}."
    )


def _wait_sentence(name: str, measure: Measure, hard: Hardness) -> str:
    times = measure.plain / undisturbed_seconds(hard)
    metric_words = METRIC_WORDS[name.partition("MC")[0]]
    return (
        f"This fleet is {wait_word(times)} to wait for: a round takes {span(measure.plain)} ({metric_words}), "
        f"{times:.3g} times as long as "
        f"one of usual clients that are always there ({span(undisturbed_seconds(hard))})."
    )


def _clock_sentence(clock: dict[str, Any]) -> str:
    """The most under-represented label decides: a mean over labels hides the one that is never learnt."""
    classes, rounds = clock["classes"], max(round(clock["rounds_done"]), 1)
    worst, best = min(classes, key=lambda c: classes[c]), max(classes, key=lambda c: classes[c])
    noun = clock.get("by", "label")
    loss = _LABEL_LOSS[share_word(classes[worst] / rounds)]
    if noun != "label":
        loss = loss.replace("Its labels lose", "Its ranges of the target lose").replace("A label", "A range of the target")
    return (
        f"{loss} here: {noun} {worst} is under-represented most; "
        f"{rounds} rounds train it as much as {classes[worst]:.3g} rounds of an ideal fleet ({noun} {best}: "
        f"{classes[best]:.3g})."
    )
