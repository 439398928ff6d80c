"""The conclusion of a report in words: what was reached, what it cost, what held it back, what to try. Every sentence is computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedfleet.app.fleets.hardness import rules_of
from fedfleet.app.pages.report.number_words import as_people, count_noun, duration, per_cent, share_name
from fedfleet.app.pages.report.report_facts import NEVER, TOOK_PART, Facts, rounds_of, sampling_margin, size_of_test_set
from fedfleet.app.pages.report.stragglers import deadline_to_try, find_late_tasks
from fedfleet.app.terminal.text import size, span
from fedfleet.measure.attribution.causes import FAILED, PAUSE, REACHABILITY, UNKNOWN
from fedfleet.measure.attribution.sentences import sentence, share
from fedfleet.measure.failures import cure
from fedfleet.measure.goal import article, target_of, target_text
from fedfleet.measure.measure_info import measure_info
from fedfleet.measure.warnings import ONE_CLASS

_FEW = 0.9  # of all: where fewer take part, the title says how many
_RISING = 0.02  # accuracy that was won over the last fifth of the evaluations, to say that it still rose
_FELL = 0.02  # below the best, to say what the best was
_MOST = 0.5  # of the time: a cause that held a run back on its own
_SCORE_GLOSSES = {
    "classification": "", "regression": "R2 is the share of the variance that the model explains: 1 is perfect, 0 is the mean.",
    "multilabel": "F1 weighs wrong labels against missing ones, over all labels together.",
    "next_token": "The share of tokens that the model predicts correctly.",
    "sequence_labels": "The share of places whose label is correct.",
}  # fmt: skip
_REAL = "From the start of the server to its end; the time in which it was down is not counted."
_OFTEN = 0.1  # of tasks or rounds: what happens less often held nothing back


def title(f: Facts) -> str:
    """The finding: how good the model is, and from whom it learnt."""
    m = f.metrics
    so_far = "" if f.ended else "So far "
    if not m["commits"]:
        return f"{so_far}no model: {_no_model(f)}" if so_far else f"No model was made: {_no_model(f)}"
    if f.personal and m["accuracy_clients"] is not None:
        return f"{so_far}{_named(f, m['accuracy_clients'])} on the {f.people}' own data: each keeps a part of the model"
    if m["accuracy"] is None:
        return f"{so_far}{count_noun(m['commits'], 'model')} from {f.participants:,} of {f.clients:,} {f.people}, never tested"
    reached = f"{so_far}{_named(f, m['accuracy'])}"
    if _no_better(f):
        return f"{reached}: no better than {_GUESSES[f.score.kind.name]}"
    if any(ONE_CLASS in w for w in m["warnings"]):
        return f"{reached}: the test set has only one class"
    if f.clients == 1:
        return f"{reached}: trained in one place"
    if f.participants == f.clients:
        return f"{reached}: the model learnt from all {f.clients:,} {f.people}"
    h = f.hindsight
    if f.participants < _FEW * f.clients and h is not None and h.samples.sum():
        data_share = share_name(float(h.samples[f.kind == TOOK_PART].sum() / h.samples.sum()))
        verb = "holds" if f.participants == 1 else "hold"
        return f"{reached}: the model learnt from {count_noun(f.participants, f.person, f.people)} that {verb} {data_share} of the data"
    return f"{reached}: the model learnt from {f.participants:,} of {f.clients:,} {f.people}"


# What a model without knowledge does.
_GUESSES = {
    "classification": "guessing", "regression": "predicting the mean", "multilabel": "always giving the same labels",
    "next_token": "always giving the most frequent token", "sequence_labels": "always giving the most frequent label",
}  # fmt: skip


def _named(f: Facts, value: float) -> str:
    """A score in a title; only accuracy goes without its name."""
    return f.score.brief(value) if f.score.counts_answers else f"{f.score.title} {f.score.brief(value)}"


def _no_model(f: Facts) -> str:
    n = f.metrics["rounds"]
    return f"all {count_noun(n, 'round')} failed" if n > 1 else "its only round failed" if n else "its first round did not end"


def _no_better(f: Facts) -> bool:
    return any(
        "better than chance" in w or "better than predicting the mean" in w or "nothing was learnt" in w
        for w in f.metrics["warnings"]
    )


def lead(f: Facts) -> str:
    """What was reached, what it cost, and at most two obstacles: late reports, clients never asked, failed rounds, waiting."""
    m, result = f.metrics, [_result_sentence(f)]
    moved, wasted = m["bytes_down"] + m["bytes_up"], m["wasted"]["share"]
    waste_note = f", and {per_cent(wasted)} of the devices' time was wasted (updates not used)" if wasted >= _OFTEN else ""
    result += [f"It moved {size(moved)}{waste_note}."] if moved else []
    parts = [s for s in (_failed_rounds_clause(f), _late_clause(f), _waiting_clause(f), _never_asked_clause(f)) if s][:2]
    if parts:
        result.append(f"Main obstacles: {', and '.join(parts)}.")
    elif f.attribution is not None and f.attribution.causes[UNKNOWN] < f.attribution.virtual_seconds:
        said = as_people(sentence(f.attribution), f.people, f.person)
        result.append(said[:1].upper() + said[1:])
    return " ".join(result)


def _result_sentence(f: Facts) -> str:
    m = f.metrics
    after = f"After {count_noun(m['rounds'], 'round')} and {span(m['virtual_seconds'])}"
    if not m["commits"]:
        return f"{after} there is no new model."
    if m["accuracy"] is None:
        return f"{after} there {'is' if m['commits'] == 1 else 'are'} {count_noun(m['commits'], 'model')}, and none was tested."
    if f.personal and m["accuracy_clients"] is not None:
        own = f"{after} the model of each {f.person} {_reaches(f, m['accuracy_clients'], 'its own test data')}, on average"
        return f"{own}. The shared part alone, which no {f.person} uses, reaches {f.score.brief(m['accuracy'])}."
    has_fallen = m["best_accuracy"] - m["accuracy"] >= _FELL
    best = f"; its best was {f.score.brief(m['best_accuracy'])}" if has_fallen else ""
    return (
        f"{after} the model {_reaches(f, m['accuracy'], 'the unseen test data', m.get('measures') or {})}{best}{_target_note(f)}."
    )


def _reaches(f: Facts, value: float, of: str, measures: Mapping[str, float] | None = None) -> str:
    """What a model reaches on some data, with the other measures of its kind of task."""
    score, shown = f.score, f.score.brief(value)
    known = [measure_info(name, score) for name in score.kind.measures if name in (measures or {})]
    others = [f"{info.label} {info.text((measures or {})[info.name])}" for info in known]
    beside = f" ({', '.join(others)})" if others else ""
    match score.kind.name:
        case "classification":
            return f"is right on {shown} of {of}"
        case "next_token":
            return f"predicts {shown} of the tokens of {of} correctly{beside}"
        case "sequence_labels":
            return f"is right at {shown} of the places of {of}{beside}"
        case "regression" | "multilabel":
            return f"reaches {article(score.name)} {score.name} of {shown} on {of}{beside}"


def _target_note(f: Facts) -> str:
    """The target at which the run stopped, if it did."""
    stop, ended = f.spec.get("stop", {}), f.metrics.get("stopped_by")
    aim = target_of(stop)
    if aim is None or ended not in ("target_accuracy", "target"):
        return ""
    goal = f.score.brief(aim) if isinstance(aim, float) else target_text(aim, f.score)
    return f", and stopped at its target of {goal}"


def _failed_rounds_clause(f: Facts) -> str:
    m = f.metrics
    if m["rounds_failed"] < _OFTEN * m["rounds"] or not m["rounds_failed"]:
        return ""
    reason, times = next(iter(m["failed_rounds"].items()))
    reason = as_people(reason, f.people, f.person)
    mostly = "" if len(m["failed_rounds"]) == 1 else f"{times:,} of them "
    lost = f.attribution.causes[FAILED] if f.attribution is not None else 0.0
    took = f" and {share(lost, m['virtual_seconds'])} of the time" if lost else ""
    which = "all" if m["rounds_failed"] == m["rounds"] > 1 else f"{m['rounds_failed']:,} of"
    return f"{which} {count_noun(m['rounds'], 'round')}{took} {'was' if m['rounds_failed'] == 1 and not took else 'were'} lost ({mostly}because {reason})"


def _late_clause(f: Facts) -> str:
    late, ended = int(f.dropped_tasks.sum()), int((f.tasks.fate >= 0).sum())
    if not late or late < _OFTEN * ended:
        return ""
    limit = f"missed the deadline of {duration(f.deadline)}" if f.deadline else "were given up before they came"
    late_tasks = find_late_tasks(f)
    by = ""
    if late_tasks is not None and f.deadline and np.isfinite(late_tasks.excess).any():
        middle = float(np.median(late_tasks.excess))
        by = f", half of them by less than {duration(float(np.ceil(middle)))}" if np.isfinite(middle) else ", half of them by far"
    return f"{late:,} of {ended:,} reports {limit}{by}"


def _waiting_clause(f: Facts) -> str:
    """Waiting for reachable clients, where that is most of the time."""
    attribution = f.attribution
    if attribution is None or attribution.causes[REACHABILITY] < _MOST * attribution.virtual_seconds:
        return ""
    return f"{share(attribution.causes[REACHABILITY], attribution.virtual_seconds)} of the time was spent waiting for reachable devices"


def _never_asked_clause(f: Facts) -> str:
    if f.never <= _OFTEN * f.clients or not f.never:
        return ""
    h = f.hindsight
    if h is not None and h.all_moments and h.looks:
        unreachable = int(((f.kind == NEVER) & (h.reached == 0)).sum())
        if unreachable == f.never:
            return f"{count_noun(unreachable, f.person, f.people)} {'was' if unreachable == 1 else 'were'} out of reach whenever clients were asked"
    return f"{count_noun(f.never, f.person, f.people)} {'was' if f.never == 1 else 'were'} never asked"


def report_figures(f: Facts) -> list[tuple[str, str, str]]:
    """The six key figures: (value, what it is, gloss); ! marks an alarm."""
    m, score, total = f.metrics, f.score, size_of_test_set(f.record.progress, f.score)
    accuracy, none = m["accuracy"], not m["commits"]
    error = sampling_margin(score, accuracy, total)
    margin = "" if error is None else f", ±{100 * error:.0f}"
    alarm = "!" if _no_better(f) or (accuracy is not None and m["best_accuracy"] - accuracy >= 0.05) else ""
    low = m["accuracy_bottom10"]
    if f.personal:
        accuracy = m["accuracy_clients"]
    is_low = low is not None and accuracy is not None and (low < 0.5 * accuracy if score.kind.percent else low < 0 < accuracy)
    worst = (
        "-" if low is None or none else f"{'!' if is_low else ''}{f'{100 * low:.0f} %' if score.kind.percent else score.text(low)}"
    )
    wall = f", {m['wall_seconds']:,.1f} s here" if m.get("wall_seconds") else ""
    label = f"{score.name} {'of the first weights' if none else 'on unseen data'}{margin}"
    held_out = f"On {total:,} samples that no {f.person} holds" if total else f"On samples that no {f.person} holds"
    gloss = (
        f"{held_out}; ± is the 95 % interval for that many samples, not the spread over seeds."
        if margin
        else f"{held_out}. {_SCORE_GLOSSES[score.kind.name]}"
    )
    if f.personal:
        label = f"{score.name} on the {f.people}' own data"
        gloss = f"The mean over {f.people}, each with its own part of the model, on its own test data."
    return [
        ("-" if accuracy is None else f"{'' if none or f.personal else alarm}{score.text(accuracy)}", label, gloss),
        (worst, f"worst tenth of {f.people}", f"{score.title} of the 10th-percentile {f.person}, on its own test data."),
        (f"{f.participants:,} of {f.clients:,}", f"{f.people} that contributed", "At least one of their reports is in the model."),
        (span(m["virtual_seconds"]), f"{f.clock}{'' if f.served else wall}", _REAL if f.served else "Computed from link, speed and reachability of each device."),
        (size(m["bytes_down"] + m["bytes_up"]), f"traffic: {size(m['bytes_down'])} down, {size(m['bytes_up'])} up", ""),
        (per_cent(m["wasted"]["share"]), "of device time wasted", "Time of tasks whose updates were not used."),
    ]  # fmt: skip


def suggestions(f: Facts) -> list[str]:
    """What to change next, each with the figure that speaks for it; nothing that the journal cannot show."""
    m, fewer_failures = f.metrics, ""
    warned = any("rounds failed" in w for w in m["warnings"])  # a warning says it already
    if m["rounds_failed"] >= _OFTEN * m["rounds"] and m["rounds_failed"] and not warned:
        advice = as_people(cure(f.record.failures), f.people, f.person)
        fewer_failures = f"{advice[0].upper()}{advice[1:]}."
    return [text for text in (_longer_deadline(f), _stop_waiting(f), fewer_failures, _more_rounds(f)) if text]


def _longer_deadline(f: Facts) -> str:
    late_tasks = find_late_tasks(f)
    aim = None if late_tasks is None or f.deadline is None else deadline_to_try(late_tasks, f.deadline)
    if late_tasks is None or aim is None or f.deadline is None:
        return ""
    late, back = len(late_tasks.excess), int((late_tasks.excess <= aim - f.deadline).sum())
    return (
        f"A deadline of {duration(aim)} (pace.seconds={aim:g}): {back:,} of the {late:,} late reports would have come; a round that waits "
        f"for all of it takes {duration(aim - f.deadline)} longer."
    )


def _stop_waiting(f: Facts) -> str:
    """Where rounds wait for everybody: how long most of the reports took, and how long the rounds."""
    rules, used = rules_of(f.spec.get("pace", {})), f.tasks.folded_into > 0
    if rules is None or rules.by_deadline or int(used.sum()) < 20:
        return ""
    rounds = max(int(f.metrics["rounds"]), 1)
    paused = f.attribution.causes[PAUSE] if f.attribution is not None else rules.t_break * rounds
    fast, each = float(np.percentile(f.tasks.seconds[used], 80)), (f.metrics["virtual_seconds"] - paused) / rounds
    if each < 3.0 * fast:
        return ""
    return (
        f"A deadline instead of waiting for all (pace.use=deadline): four of five reports came within {duration(float(np.ceil(fast)))}, "
        f"and a round waited {duration(float(np.ceil(each)))} on average; slower {f.people} would be left out."
    )


def _more_rounds(f: Facts) -> str:
    accuracy, seconds = f.curve.accuracy, f.curve.seconds
    if f.personal or len(accuracy) < 10 or f.metrics.get("stopped_by") not in ("rounds", "commits", None):
        return ""
    tail = len(accuracy) // 5
    fifths = [float(np.mean(accuracy[i * tail : (i + 1) * tail])) for i in range(len(accuracy) // tail - 1)]
    last = float(np.mean(accuracy[-tail:]))
    if last - max(fifths) < _RISING or accuracy[-1] < last - _FELL:
        return ""  # it rises no more, or has begun to fall
    period = span(float(seconds[-1] - seconds[-tail]))
    gain = last - max(fifths)
    higher = f"{100 * gain:.0f} points" if f.score.kind.percent else f.score.difference(gain, sign=False)
    return f"More rounds (stop.rounds): over the last {period} {f.score.name} was {higher} higher than over any fifth of the evaluations before."


def confidence_sentence(f: Facts) -> str:
    """How sure the result is."""
    accuracy, total = f.metrics["accuracy"], size_of_test_set(f.record.progress, f.score)
    if accuracy is None or not f.metrics["commits"] or (f.score.counts_answers and not total):
        return ""
    error = sampling_margin(f.score, accuracy, total)
    interval = "" if error is None else f" ±{100 * error:.0f} points is the 95 % interval for {total:,} test samples."
    return f"This is one run with one seed; another seed gives another result.{'' if f.personal else interval}"


def abstract(f: Facts) -> str:
    """One sentence that describes the page."""
    return f"{title(f)}. {_result_sentence(f)}"


def usual_reachable(f: Facts) -> tuple[float, int, int] | None:
    """How many could be asked when rounds began, on average; in how many rounds fewer than were wanted; of how many rounds."""
    rounds, cohort = rounds_of(f.record.progress), f.spec.get("pace", {}).get("cohort")
    counts = rounds.reachable[rounds.reachable >= 0]
    if not len(counts) or not cohort:
        return None
    return float(counts.mean()), int((counts < cohort).sum()), len(counts)
