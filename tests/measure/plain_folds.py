"""What measures say of a journal, each read from its events by a fold of its own: slow and plain, to compare the record with."""

import math
from collections import Counter

import numpy as np

from fedfleet.core.events import (
    CandidatesSeen,
    ModelCommitted,
    PaceSet,
    Probed,
    ReportRejected,
    ReportUnwanted,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TasksSpent,
    TaskStruck,
)
from fedfleet.core.stages import STAGES
from fedfleet.measure.failures import Cause


def only(kinds, log):
    """The events of these kinds."""
    return [event for event in log if isinstance(event, kinds)]


def failures_of(log):
    """The causes of failed rounds, and what else is told of them."""
    causes, unable, lost = Counter(), Counter(), Counter()
    reachable, waited, fastest, last = 0, 0.0, None, 0.0
    online, given_up, lost_tasks = 0, 0.0, set()
    here, seen_at, most = Counter(), None, 0
    for event in log:
        match event:
            case CandidatesSeen():
                seen_at, online = event.time, len(event.roster.clients)
                most = max(most, online)
            case TaskLost() if math.isnan(event.seconds):
                here["unable"] += 1
                unable[event.reason] += 1
            case TaskLost() | TaskStruck():
                here["lost"] += 1
                lost[event.reason] += 1
                lost_tasks.add(event.task)
            case ReportRejected():
                here["refused"] += 1
            case TaskArrived():
                fastest = event.seconds if fastest is None else min(fastest, event.seconds)
            case TasksDropped():
                given_up = float(event.seconds.max(initial=0.0))
                here["late"] += len(set(event.tasks.tolist()) - lost_tasks)
            case RoundFailed():
                at_once = (seen_at is not None and not most) or seen_at == event.time
                if here["refused"]:
                    cause = Cause.REFUSED
                elif at_once and not (here["lost"] or here["unable"]):
                    cause = Cause.FEW
                elif here["unable"] >= max(here["lost"], 1):
                    cause = Cause.UNABLE
                else:
                    cause = Cause.LOST if here["lost"] >= max(here["late"], 1) else Cause.LATE
                causes[cause] += 1
                last = event.time
                if cause is Cause.FEW:
                    reachable = max(reachable, online)
                elif cause is Cause.LATE:
                    waited = max(waited, given_up)
                here, seen_at, most = Counter(), None, 0
            case ModelCommitted():
                here, seen_at, most = Counter(), None, 0
            case _:
                pass
    return causes, reachable, waited, fastest, unable, lost, last


def column_sum(log, name, *kinds):
    """The sum of a column over events of these kinds; None if none has it."""
    values = [float(np.nansum(e.spent[name])) for e in only(kinds, log) if name in e.spent]
    return sum(values) if values else None


def probes_of(log):
    """How many were asked, how many answered, and the seconds of devices."""
    probes = only(Probed, log)
    worked = sum(float(np.nansum(e.spent[s])) for e in probes for s in STAGES if s in e.spent)
    return sum(len(e.clients) for e in probes), sum(int(np.isfinite(e.values).sum()) for e in probes), worked


def duplicate_bytes_of(log):
    """Bytes of reports that came once more."""
    return sum(e.bytes_up for e in only(ReportUnwanted, log) if e.reason == "again")


def waits_of(log):
    """What the policy showed."""
    names = {e.name for e in only(PaceSet, log)}
    return {name: [[e.time, e.seconds] for e in only(PaceSet, log) if e.name == name] for name in names}


def notable_of(log):
    """The usual round and the worst."""
    closings = only((ModelCommitted, RoundFailed), log)
    active = {e.round for e in only(TasksSent, log)}
    opened = dict(zip((e.round for e in closings), (log[0].time, *(e.time for e in closings)), strict=False))
    length = {e.round: e.time - opened[e.round] for e in closings if e.round in active or isinstance(e, ModelCommitted)}
    committed = sorted((e.round for e in only(ModelCommitted, closings)), key=lambda r: (length[r], r))
    failed = [e.round for e in only(RoundFailed, closings) if e.round in length]
    result = {"usual": committed[(len(committed) - 1) // 2]} if committed else {}
    worst = max(failed or committed, key=lambda r: (length[r], -r), default=None)
    return result if worst is None or worst in result.values() else {**result, "worst": worst}


def broadcasts_of(log, number):
    """When clients were asked in a round, and how many."""
    return tuple((e.time, len(e.clients)) for e in only(TasksSent, log) if e.round == number and len(e.clients))


def stages_of(log, task):
    """What a task's seconds went into; None if nobody said so, or not of every stage."""
    result = None
    for event in only(TasksSpent, log):
        for i in np.flatnonzero(event.tasks == task).tolist():
            stages = {name: float(event.spent[name][i]) for name in STAGES if name in event.spent}
            if stages and not any(np.isnan(took) for took in stages.values()):
                result = {name: took for name, took in stages.items() if took > 0}
    return result


def reason_of(log, task):
    """The first misfortune of a task."""
    for event in log:
        match event:
            case TaskLost() | TaskStruck() | ReportRejected() if event.task == task:
                return event.reason
            case ReportUnwanted() if event.task == task and event.reason == "late":
                return "its report came too late"
            case _:
                pass
    return None
