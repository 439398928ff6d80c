"""Progress by events agrees with the measures that are made of the whole journal."""

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.core.events import Evaluated, ModelCommitted, RoundFailed, RunEnded, TasksSent
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, WASTED, Stop
from fedfleet.measure.run_progress import Progress
from fedfleet.measure.tasks import RUNNING, task_table
from tests.faulty import world_of
from tests.laws.test_faults import wrongs
from tests.worlds import even_fleet, events_of, fleets, paces, toy_plan
from tests.worlds import world_of as plain_world


def followed(events):
    progress = Progress()
    for event in events:
        progress.on(event)
    return progress


@settings(deadline=None, derandomize=True, max_examples=25)
@given(fleets(), paces(), wrongs)
def test_fates_are_those_of_the_journal_at_every_moment(fleet, pace, wrong):
    stop = Stop(rounds=4, virtual_seconds=4096.0)
    events, _ = events_of(toy_plan(pace.policy(), len(fleet), stop=stop), world_of(fleet, wrong.recipe()))
    progress = Progress()
    for event in events:
        progress.on(event)
        assert min(progress.running, progress.arrived, *progress.fates.values()) >= 0
    tasks, fates = task_table(events), progress.fates
    for name, code in (("folded", FOLDED), ("rejected", REJECTED), ("wasted", WASTED)):
        assert fates[name] == int((tasks.fate == code).sum()), name
    # A task that was struck in silence is dropped for the server, which learns nothing of it.
    assert fates["lost"] + fates["dropped"] == int(np.isin(tasks.fate, (LOST, DROPPED)).sum())
    assert fates["late"] == int(tasks.late.sum()) and fates["again"] == int(tasks.again.sum())
    assert progress.running == int((tasks.fate == RUNNING).sum()) == 0
    assert progress.commits == sum(isinstance(e, ModelCommitted) for e in events)
    assert progress.failed_rounds == sum(isinstance(e, RoundFailed) for e in events)
    assert progress.ended == events[-1].reason


def test_the_round_under_way_and_what_is_out():
    from tests.worlds import commits_at

    events, _ = events_of(toy_plan(commits_at(3, 3), 5, stop=Stop(rounds=2)), plain_world(even_fleet(5)))
    at = next(i for i, e in enumerate(events) if isinstance(e, TasksSent))
    first = followed(events[: at + 1])
    assert (first.round, first.running, first.arrived, first.version, first.committed_at) == (0, 3, 0, 0, None)
    commit = next(i for i, e in enumerate(events) if isinstance(e, ModelCommitted))
    here = followed(events[:commit])
    assert (here.running, here.arrived) == (0, 3)
    after = followed(events[: commit + 1])
    assert (after.round, after.version, after.arrived, after.committed_at) == (1, 1, 0, events[commit].time)
    assert after.fates["folded"] == 3


def test_the_newest_evaluation_counts_also_when_an_older_one_comes_later():
    progress = followed([Evaluated(1.0, 2, 9, 10, 0.1), Evaluated(2.0, 1, 1, 10, 0.9), Evaluated(3.0, 3, 0, 0, 0.0)])
    assert progress.accuracy == pytest.approx(0.9) and progress.newest.version == 2


def test_a_resumed_run_is_followed_from_its_journal():
    from tests.worlds import commits_at

    events, _ = events_of(toy_plan(commits_at(3, 3), 5, stop=Stop(rounds=3)), plain_world(even_fleet(5)))
    half = len(events) // 2
    again = followed(events[:half])
    for event in events[half:]:
        again.on(event)
    assert again == followed(events) and isinstance(events[-1], RunEnded)
