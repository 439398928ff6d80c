"""The conclusion of a report in words: what was reached, what it cost, what held it back, what to try. Every sentence is computed."""

from __future__ import annotations

import numpy as np

from fedfleet.app.pages.report.number_words import as_people, duration, many, part_of, per_cent
from fedfleet.app.pages.report.report_facts import NEVER, TOOK, Facts, give_or_take, judged_on, rounds_of
from fedfleet.app.pages.report.stragglers import deadline_to_try, lateness
from fedfleet.app.terminal.text import size, span
from fedfleet.measure.attribution.causes import FAILED, PAUSE, REACHABILITY, UNKNOWN
from fedfleet.measure.attribution.sentences import sentence, share
from fedfleet.measure.failures import cure, failures

_FEW = 0.9  # of all: where fewer take part, the title says how many
_RISING = 0.02  # accuracy that was won over the last fifth of the evaluations, to say that it still rose
_FELL = 0.02  # below the best, to say what the best was
_MOST = 0.5  # of the time: a cause that held a run back on its own
_REAL = "From the start of the server to its end, as its clock showed; while it was down, the clock stood still."
_OFTEN = 0.1  # of tasks or rounds: what happens less often held nothing back


def title(f: Facts) -> str:
    """The finding: how good the model is, and from whom it learnt."""
    m = f.metrics
    so_far = "" if f.ended else "So far "
    if not m["commits"]:
        return f"{so_far}no model: {_no_model(f)}" if so_far else f"No model was made: {_no_model(f)}"
    if f.personal and m["accuracy_clients"] is not None:
        return f"{so_far}{per_cent(m['accuracy_clients'])} on {f.people}'s own data: each keeps a part of the model"
    if m["accuracy"] is None:
        return f"{so_far}{many(m['commits'], 'model')} from {f.took:,} of {f.clients:,} {f.people}, never tested"
    reached = f"{so_far}{per_cent(m['accuracy'])}"
    if _no_better(f):
        return f"{reached}: no better than guessing"
    if f.clients == 1:
        return f"{reached}: trained in one place"
    if f.took == f.clients:
        return f"{reached}: the model learnt from all {f.clients:,} {f.people}"
    held = _held_by_those_who_took_part(f)
    if f.took < _FEW * f.clients and held is not None:
        return f"{reached}: the model learnt from {many(f.took, f.person, f.people)}, who {'holds' if f.took == 1 else 'hold'} {part_of(held)} of the data"
    return f"{reached}: the model learnt from {f.took:,} of {f.clients:,} {f.people}"


def _no_model(f: Facts) -> str:
    n = f.metrics["rounds"]
    return (
        f"all {many(n, 'round')} failed" if n > 1 else "its only round failed" if n else "its first round did not end"
    )


def _no_better(f: Facts) -> bool:
    return any("better than chance" in w or "nothing was learnt" in w for w in f.metrics["warnings"])


def _held_by_those_who_took_part(f: Facts) -> float | None:
    h = f.hindsight
    return None if h is None or not h.samples.sum() else float(h.samples[f.kind == TOOK].sum() / h.samples.sum())


def lead(f: Facts) -> str:
    """What was reached, what it cost, what held it back: facts beside each other."""
    return " ".join(said for said in (_reached(f), _cost(f), _held_back(f)) if said)


def _reached(f: Facts) -> str:
    m = f.metrics
    after = f"After {many(m['rounds'], 'round')} and {span(m['virtual_seconds'])}"
    if not m["commits"]:
        return f"{after} there is no new model."
    if m["accuracy"] is None:
        return (
            f"{after} there {'is' if m['commits'] == 1 else 'are'} {many(m['commits'], 'model')}, and none was tested."
        )
    if f.personal and m["accuracy_clients"] is not None:
        own = f"{after} what each {f.person} uses is right on {per_cent(m['accuracy_clients'])} of their own test data, on average"
        return f"{own}. The shared part with the first weights in place of theirs, which nobody uses, comes to {per_cent(m['accuracy'])}."
    fell = m["best_accuracy"] - m["accuracy"] >= _FELL
    best = f"; its best was {per_cent(m['best_accuracy'])}" if fell else ""
    aim = f.spec.get("stop", {}).get("target_accuracy")
    there = (
        f", and ended there: {per_cent(aim)} was its target" if aim and m.get("stopped_by") == "target_accuracy" else ""
    )
    return f"{after} the model is right on {per_cent(m['accuracy'])} of what it has never seen{best}{there}."


def _cost(f: Facts) -> str:
    m = f.metrics
    moved = m["bytes_down"] + m["bytes_up"]
    if not moved:
        return ""
    wasted = m["wasted"]["share"]
    thrown = f", and {per_cent(wasted)} of the devices' time was thrown away" if wasted >= _OFTEN else ""
    return f"It moved {size(moved)}{thrown}."


def _held_back(f: Facts) -> str:
    """At most two of what stood in the way: late reports, people never asked, failed rounds, waiting."""
    said = [s for s in (_failed(f), _late(f), _waiting(f), _unreached(f)) if s][:2]
    if said:
        return f"What stood in the way: {', and '.join(said)}."
    if f.attribution is not None and f.attribution.causes[UNKNOWN] < f.attribution.virtual_seconds:
        said = as_people(sentence(f.attribution), f.people, f.person)
        return said[:1].upper() + said[1:]
    return ""


def _failed(f: Facts) -> str:
    m = f.metrics
    if m["rounds_failed"] < _OFTEN * m["rounds"] or not m["rounds_failed"]:
        return ""
    reason, times = next(iter(m["failed_rounds"].items()))
    reason = as_people(reason, f.people, f.person)
    mostly = "" if len(m["failed_rounds"]) == 1 else f"{times:,} of them "
    lost = f.attribution.causes[FAILED] if f.attribution is not None else 0.0
    took = f" and {share(lost, m['virtual_seconds'])} of the time" if lost else ""
    which = "all" if m["rounds_failed"] == m["rounds"] > 1 else f"{m['rounds_failed']:,} of"
    return f"{which} {many(m['rounds'], 'round')}{took} {'was' if m['rounds_failed'] == 1 and not took else 'were'} lost ({mostly}because {reason})"


def _late(f: Facts) -> str:
    late, ended = int(f.dropped.sum()), int((f.tasks.fate >= 0).sum())
    if not late or late < _OFTEN * ended:
        return ""
    limit = f"missed the deadline of {duration(f.deadline)}" if f.deadline else "were given up before they came"
    found = lateness(f)
    by = ""
    if found is not None and f.deadline and np.isfinite(found.over).any():
        middle = float(np.median(found.over))
        by = (
            f", half of them by less than {duration(float(np.ceil(middle)))}"
            if np.isfinite(middle)
            else ", half of them by far"
        )
    return f"{late:,} of {ended:,} reports {limit}{by}"


def _waiting(f: Facts) -> str:
    """Waiting for somebody to come into reach, where that is most of the time."""
    found = f.attribution
    if found is None or found.causes[REACHABILITY] < _MOST * found.virtual_seconds:
        return ""
    return (
        f"{share(found.causes[REACHABILITY], found.virtual_seconds)} of the time went by until devices could be reached"
    )


def _unreached(f: Facts) -> str:
    if f.never <= _OFTEN * f.clients or not f.never:
        return ""
    h = f.hindsight
    if h is not None and h.every and h.looks:
        gone = int(((f.kind == NEVER) & (h.reached == 0)).sum())
        if gone == f.never:
            return f"{many(gone, f.person, f.people)} {'was' if gone == 1 else 'were'} out of reach whenever somebody was asked"
    return f"{many(f.never, f.person, f.people)} {'was' if f.never == 1 else 'were'} never asked"


def keys_of(f: Facts) -> list[tuple[str, str, str]]:
    """The six key figures: (value, what it is, gloss); ! marks an alarm."""
    m, total = f.metrics, judged_on(f.events)
    accuracy, none = m["accuracy"], not m["commits"]
    off = f", ±{100 * give_or_take(accuracy, total):.0f}" if accuracy is not None and total else ""
    alarm = "!" if _no_better(f) or (accuracy is not None and m["best_accuracy"] - accuracy >= 0.05) else ""
    low = m["accuracy_bottom10"]
    if f.personal:
        accuracy = m["accuracy_clients"]
    worst = (
        "-"
        if low is None or none
        else f"{'!' if accuracy is not None and low < 0.5 * accuracy else ''}{100 * low:.0f} %"
    )
    wall = f", {m['wall_seconds']:,.1f} s here" if m.get("wall_seconds") else ""
    return [
        ("-" if accuracy is None else f"{'' if none or f.personal else alarm}{100 * accuracy:.1f} %", *_judged(f, off, total)),
        (worst, f"worst tenth of {f.people}", f"Accuracy of the 10th-percentile {f.person}, on their own test data."),
        (f"{f.took:,} of {f.clients:,}", f"{f.people} in the model", "Whose reports became part of it at least once."),
        (span(m["virtual_seconds"]), f"{f.clock}{'' if f.served else wall}", _REAL if f.served else "Computed from link, speed and reachability of each device."),
        (size(m["bytes_down"] + m["bytes_up"]), f"traffic: {size(m['bytes_down'])} down, {size(m['bytes_up'])} up", ""),
        (per_cent(m["wasted"]["share"]), "of device time thrown away", "Time of tasks that entered no model."),
    ]  # fmt: skip


def _judged(f: Facts, off: str, total: int) -> tuple[str, str]:
    """What the first figure is, and its gloss: of whose model, on which data."""
    if f.personal:
        return (
            f"accuracy on {f.people}'s own data",
            f"The mean over {f.people}, each with their own part of the model, on their own test data.",
        )
    gloss = f"On {total:,} samples that no {f.person} holds; ± is what so few samples leave open (95 %), not what another seed would change."
    return f"accuracy {'on unseen data' if f.metrics['commits'] else 'of the first weights'}{off}", gloss


def to_try(f: Facts) -> list[str]:
    """What to change next, each with the figure that speaks for it; nothing that the journal cannot show."""
    return [said for said in (_longer_deadline(f), _stop_waiting(f), _cure(f), _more_rounds(f)) if said]


def _longer_deadline(f: Facts) -> str:
    found = lateness(f)
    aim = None if found is None or f.deadline is None else deadline_to_try(found, f.deadline)
    if found is None or aim is None or f.deadline is None:
        return ""
    late, back = len(found.over), int((found.over <= aim - f.deadline).sum())
    return (
        f"A deadline of {duration(aim)} (pace.seconds={aim:g}): {back:,} of the {late:,} late reports would have come; a round that waits "
        f"for all of it takes {duration(aim - f.deadline)} longer."
    )


def _stop_waiting(f: Facts) -> str:
    """Where rounds wait for everybody: how long most of the reports took, and how long the rounds."""
    pace, came = f.spec.get("pace", {}), f.tasks.folded_into > 0
    if pace.get("use") != "readiness" or int(came.sum()) < 20:
        return ""
    rounds = max(int(f.metrics["rounds"]), 1)
    paused = f.attribution.causes[PAUSE] if f.attribution is not None else float(pace.get("t_break", 0.0)) * rounds
    fast, each = float(np.percentile(f.tasks.seconds[came], 80)), (f.metrics["virtual_seconds"] - paused) / rounds
    if each < 3.0 * fast:
        return ""
    return (
        f"A deadline instead of waiting for all (pace.use=deadline): four of five reports came within {duration(float(np.ceil(fast)))}, "
        f"and a round waited {duration(float(np.ceil(each)))} on average; whoever is slower would be left out."
    )


def _cure(f: Facts) -> str:
    m = f.metrics
    if (
        m["rounds_failed"] < _OFTEN * m["rounds"]
        or not m["rounds_failed"]
        or any("rounds failed" in w for w in m["warnings"])
    ):
        return ""  # a warning says it already
    said = as_people(cure(failures(f.events)), f.people, f.person)
    return f"{said[0].upper()}{said[1:]}."


def _more_rounds(f: Facts) -> str:
    seen, at = f.curve.accuracy, f.curve.seconds
    if f.personal or len(seen) < 10 or f.metrics.get("stopped_by") not in ("rounds", "commits", None):
        return ""
    tail = len(seen) // 5
    fifths = [float(np.mean(seen[i * tail : (i + 1) * tail])) for i in range(len(seen) // tail - 1)]
    last = float(np.mean(seen[-tail:]))
    if last - max(fifths) < _RISING or seen[-1] < last - _FELL:
        return ""  # it rises no more, or has begun to fall
    over = span(float(at[-1] - at[-tail]))
    return f"More rounds (stop.rounds): over the last {over} accuracy was {100 * (last - max(fifths)):.0f} points higher than over any fifth of the evaluations before."


def how_sure(f: Facts) -> str:
    """What one run cannot tell."""
    accuracy, total = f.metrics["accuracy"], judged_on(f.events)
    if accuracy is None or not total or not f.metrics["commits"]:
        return ""
    if f.personal:
        return "One run with one seed; another seed may end elsewhere."
    return f"One run with one seed. The ±{100 * give_or_take(accuracy, total):.0f} points are what {total:,} test samples leave open; another seed may end elsewhere."


def abstract(f: Facts) -> str:
    """One sentence for whoever shares the page."""
    return f"{title(f)}. {_reached(f)}"


def usual_reachable(f: Facts) -> tuple[float, int, int] | None:
    """How many could be asked when rounds began, on average; in how many rounds fewer than were wanted; of how many rounds."""
    rounds, wanted = rounds_of(f.events), f.spec.get("pace", {}).get("cohort")
    seen = rounds.seen[rounds.seen >= 0]
    if not len(seen) or not wanted:
        return None
    return float(seen.mean()), int((seen < wanted).sum()), len(seen)
