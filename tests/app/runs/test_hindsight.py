"""What only the world knows of a run afterwards."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.runs import perform
from fedfleet.app.runs.hindsight import MOST, hindsight, needs, speeds
from fedfleet.app.spec import resolve
from fedfleet.core.records import DROPPED
from fedfleet.measure.tasks import task_table
from fedfleet.simulation.simulator import simulate

SPEC = {
    "seed": 3,
    "task": "digits_logreg",
    "world": {
        "clients": 12,
        "model_bytes": 5e7,
        "devices": {"use": "spread", "mbps": 30.0, "link": 1.0, "jitter": 0.3},
        "states": {"use": "daily", "ready": 0.4},
        "data": {"use": "dirichlet", "alpha": 0.5},
    },
    "pace": {"use": "deadline", "cohort": 4, "seconds": 40.0, "min_clients": 1},
    "stop": {"rounds": 12},
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return perform(resolve(SPEC), tmp_path_factory.mktemp("run") / "out")


def test_tasks_that_were_given_up_would_have_needed_longer_than_they_were_given(done):
    tasks = task_table(done.events)
    result = hindsight(done.spec, done.events, tasks, done.out)
    late = tasks.fate == DROPPED
    assert result is not None and result.needs is not None and late.sum() > 3
    assert (result.needs.seconds[late] > tasks.seconds[late]).all() and (
        result.needs.moving[late] <= result.needs.worked[late]
    ).all()
    came = tasks.folded_into > 0
    assert np.array_equal(result.needs.seconds[came], tasks.seconds[came]), "what came is as the journal says"


def test_the_given_up_would_have_come_in_a_run_that_waits(done):
    """Whoever was dropped in the first round comes back after just so long if the deadline is a day."""
    tasks = task_table(done.events)
    result = hindsight(done.spec, done.events, tasks, done.out)
    assert result is not None and result.needs is not None
    patient = resolve({**SPEC, "pace": {**SPEC["pace"], "seconds": 86400.0}, "stop": {"rounds": 1}})
    setup = assemble(patient)
    log = []
    simulate(setup.plan, setup.world, setup.executor(), watch=log.extend)
    first = task_table(log)
    n = len(first.fate)
    assert np.array_equal(first.clients, tasks.clients[:n]), "the same people are asked first"
    assert first.seconds == pytest.approx(result.needs.seconds[:n]) and np.isfinite(first.seconds).all()


def test_people_are_counted_when_rounds_looked(done):
    result = hindsight(done.spec, done.events, task_table(done.events), done.out)
    assert result is not None and result.all_moments and result.looks > 0 and (result.reached <= result.looks).all()
    asked = np.bincount(task_table(done.events).clients, minlength=12)
    assert (result.reached[asked > 0] > 0).all(), "whoever was asked was in reach"
    assert ((result.ready > 0) & (result.ready < 1)).all() and result.samples.sum() > 100


def test_a_world_that_contradicts_the_journal_is_not_believed(done):
    other = assemble(resolve({**SPEC, "seed": 4}))
    assert needs(other, done.events, task_table(done.events)) is None


def test_where_no_world_can_be_made_nothing_is_said(done):
    tasks = task_table(done.events)
    gone = resolve({**SPEC, "world": {**SPEC["world"], "devices": {"use": "device_file", "path": "/nowhere.json"}}})
    assert hindsight(gone, done.events, tasks, done.out) is None
    large = resolve({**SPEC, "world": {"clients": MOST + 1}})
    assert hindsight(large, done.events, tasks, done.out) is None


def test_speeds_are_those_of_the_devices(done):
    world = assemble(resolve({**SPEC, "world": {"clients": 5, "devices": {"use": "homogeneous", "mbps": 25.0}}})).world
    assert speeds(world, np.arange(5)) == pytest.approx(np.full(5, 25.0))
