"""What the coordinator decides is in the journal in the order of time, and is flushed once a turn at most."""

import pytest

from fedfleet.core.events import Evaluated
from fedfleet.engine.coordinator import begin
from fedfleet.engine.state import Phase
from fedfleet.network.server.journaled_run import JournaledRun
from tests.network.toys import Toy, plan_of


class Pages:
    """A journal that remembers what was written, and how often it was made durable."""

    def __init__(self):
        self.rows, self.remarks, self.flushes = [], [], 0

    def append(self, events):
        self.rows += events

    def remark(self, text):
        self.remarks.append(text)

    def flush(self):
        self.flushes += 1


@pytest.fixture
def run():
    plan, pages = plan_of(Toy()), Pages()
    run = JournaledRun(plan, pages, begin(plan).state, None)
    run.pages = pages
    return run


def first_score(time=0.0):
    return Evaluated(time, 0, 1, 2, 0.5)


def test_facts_are_journalled_with_their_outcomes_and_passed_on(run):
    heard = []
    run.on_events = heard.extend
    outcomes, commands = run.react(first_score())
    assert run.pages.rows == [first_score(), *outcomes] == heard
    assert commands and run.state.phase is Phase.OPEN


def test_time_never_falls(run):
    run.state = run.state._replace(book=run.state.book._replace(now=5.0))
    run.react(first_score(3.0))
    assert run.pages.rows[0].time == 5.0


def test_facts_wait_for_their_turn_and_none_comes_after_the_end(run):
    run.react_later(first_score())
    run.react_later(first_score(1.0))
    assert run.next_fact() == first_score()
    run.state = run.state._replace(phase=Phase.DONE)
    assert run.next_fact() is None


def test_a_wake_up_is_taken_once_when_it_is_due(run):
    run.wake_at = 10.0
    assert run.take_wake(9.0) is None
    assert (run.take_wake(11.0), run.take_wake(12.0)) == (10.0, None)


def test_only_what_is_new_is_flushed(run):
    run.flush()
    run.note("patience ended")
    run.flush()
    run.flush()
    assert (run.pages.flushes, run.pages.remarks) == (1, ["patience ended"])
