"""Small journals whose facts are known by hand, and the facts of a report made of them."""

import numpy as np

from fedfleet.app.pages.report.report_facts import collect_facts
from fedfleet.app.runs.hindsight import Hindsight, Needs
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    ModelCommitted,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    RunEnded,
    TaskArrived,
    TasksDropped,
    TasksSent,
)
from fedfleet.core.records import ClientScores, Roster
from fedfleet.measure.summary import summary

DEADLINE = 'seed = 1\n[pace]\nuse = "deadline"\ncohort = 4\nseconds = 60.0\n'
READINESS = 'seed = 1\n[pace]\nuse = "readiness"\ncohort = 4\n'


def roster(n):
    return Roster(np.arange(n), np.arange(n, dtype=np.uint64), np.ones(n, np.int64))


def journal(rounds, *, clients=10, accuracy=(), length=100.0, deadline=60.0, scores=None, end="rounds"):
    """A run in which each round is (clients in time, clients too late); a round without anyone in time fails."""
    log, task, version = [RunBegan(0.0, 1, clients, "", ""), Evaluated(0.0, 0, 10, 100, 2.3)], 0, 0
    for r, (came, late) in enumerate(rounds):
        start, asked = length * r, [*came, *late]
        n = len(asked)
        log.append(CandidatesSeen(start, roster(max(n, 1))))
        columns = (np.array(asked, np.int64), np.zeros(n, np.int64), np.ones(n), np.full(n, 5.0), np.full(n, 1e6))
        log.append(TasksSent(start, r, version, task, *columns))
        ids = np.arange(task, task + n)
        log += [TaskArrived(start + 50.0, int(t), c, 50.0, 1e6) for t, c in zip(ids, came, strict=False)]
        if late:
            dropped = ids[len(came) :]
            log.append(TasksDropped(start + deadline, dropped, np.array(late, np.int64), np.full(len(late), deadline)))
        if came:
            version += 1
            log.append(ReportsGathered(start + deadline, None, ids[: len(came)], {}))
            log.append(ModelCommitted(start + deadline, r, version, f"m{version}", len(came)))
            right = accuracy[version - 1] if version <= len(accuracy) else 50
            log.append(Evaluated(start + deadline, version, right, 100, 1.0, scores if r == len(rounds) - 1 else None))
        else:
            log.append(RoundFailed(start + deadline, r, "0 of at least 1 reports arrived"))
        task += n
    return [*log, RunEnded(length * len(rounds), end)] if end else log


def seen(samples, *, reached=None, mbps=None, ready=None, needs=None):
    """What a world would say."""
    n = len(samples)
    result = np.full(n, 3) if reached is None else np.array(reached)
    speed = np.full(n, 50.0) if mbps is None else np.array(mbps, float)
    there = np.ones(n) if ready is None else np.array(ready, float)
    return Hindsight(np.array(samples), result, 3, True, speed, there, 604_800.0, needs)


def needs(seconds, moving=20.0, worked=None):
    took = np.array(seconds, float)
    return Needs(took, took if worked is None else np.array(worked, float), np.full(len(took), moving))


def facts_of(log, text=DEADLINE, name="run", **more):
    return collect_facts(name, text, summary(log), log, **more)


def scores(shares, total=20):
    return ClientScores(np.arange(len(shares)), np.round(np.array(shares) * total).astype(np.int64), np.full(len(shares), total))
