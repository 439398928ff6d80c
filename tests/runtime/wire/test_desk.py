"""The desk between handler threads and the coordinator: work goes out once, facts come in by the order of time."""

from __future__ import annotations

import threading

import pytest

from fedfleet.core.events import CandidatesSeen, Evaluated, TaskArrived, TaskLost, TimerFired
from fedfleet.core.records import Report, Roster
from fedfleet.runtime.wire import desk as desks
from fedfleet.runtime.wire.desk import QUIET_SECONDS, RunOver, TaskDesk
from tests.runtime.wire.toys import errand, ready_desk
from tests.worlds import roster_of


def hang_up(desk: TaskDesk, client: int) -> None:
    """A client calls, and dies before it is answered."""
    assert desk.pull(client, 30.0, lambda: False) is None


def test_work_is_handed_out_until_it_is_claimed_once() -> None:
    desk = ready_desk(2)
    desk.hand_out([errand(7, 1)])
    assert desk.pull(0, 0.0) is None
    assert desk.pull(1, 0.0) == desk.pull(1, 0.0) == errand(7, 1)
    assert desk.claim(7, 0) is None
    assert desk.claim(8, 1) is None
    assert desk.claim(7, 1) == errand(7, 1)
    assert desk.claim(7, 1) is None
    assert desk.pull(1, 0.0) is None


def test_withdrawn_work_is_gone() -> None:
    desk = ready_desk(1)
    desk.hand_out([errand(7, 0)])
    desk.withdraw([7])
    assert desk.pull(0, 0.0) is None
    assert desk.claim(7, 0) is None


def test_a_wake_up_comes_before_what_happened_after_it() -> None:
    desk = ready_desk(1)
    early = errand(0, 0)
    desk.arrived(early, Report(0, 0, {}, 1.0, {}), 8.0)
    fact, report = desk.next_fact(1e-9, (), None)
    assert fact == TimerFired(1e-9)
    assert report is None
    fact, report = desk.next_fact(None, (), None)
    assert isinstance(fact, TaskArrived)
    assert report is not None


def test_own_facts_are_stamped_after_what_came_in_meanwhile() -> None:
    desk = ready_desk(1)
    desk.lost(errand(0, 0), "garbled")
    desk.answer(Evaluated(0.0, 0, 1, 2, 0.5))
    first, second = desk.next_fact(None, (), None)[0], desk.next_fact(None, (), None)[0]
    assert isinstance(first, TaskLost)
    assert isinstance(second, Evaluated)
    assert 0.0 < first.time <= second.time


def test_candidates_are_those_that_are_there_and_not_busy() -> None:
    desk = ready_desk(4)
    hang_up(desk, 3)
    asked: list[list[int]] = []

    def roster(idle: list[int]) -> Roster:
        asked.append(idle)
        return roster_of(*idle)

    assert isinstance(desk.next_fact(None, {1}, roster)[0], CandidatesSeen)
    assert asked == [[0, 2]]


def test_asking_waits_until_someone_is_idle() -> None:
    desk = ready_desk(2)
    hang_up(desk, 0)
    hang_up(desk, 1)
    threading.Timer(0.05, lambda: desk.pull(1, 0.0)).start()
    fact, _ = desk.next_fact(30.0, (), lambda idle: roster_of(*idle))
    assert isinstance(fact, CandidatesSeen)
    assert fact.roster.clients.tolist() == [1]


def test_asking_for_at_least_so_many_waits_until_they_are_there() -> None:
    desk = ready_desk(3)
    hang_up(desk, 1)
    assert isinstance(desk.next_fact(1e-9, (), lambda idle: roster_of(*idle), at_least=3)[0], TimerFired)
    assert isinstance(desk.next_fact(None, (), lambda idle: roster_of(*idle), at_least=2)[0], CandidatesSeen)
    threading.Timer(0.05, lambda: desk.pull(1, 0.0)).start()
    fact, _ = desk.next_fact(30.0, (), lambda idle: roster_of(*idle), at_least=3)
    assert isinstance(fact, CandidatesSeen)
    assert fact.roster.clients.tolist() == [0, 1, 2]


def test_everyone_hears_that_it_is_over() -> None:
    desk = ready_desk(1)
    heard: list[object] = []
    thread = threading.Thread(target=lambda: heard.append(desk.pull(0, 30.0)))
    thread.start()
    desk.finish("rounds", 10.0)
    thread.join(10)
    assert heard == [RunOver("rounds")]


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(desks.time, "monotonic", lambda: self.now)


def test_a_report_at_the_very_moment_of_a_wake_up_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    desk = ready_desk(1)
    clock.now += 5.0
    desk.arrived(errand(0, 0, 2.0), Report(0, 0, {}, 1.0, {}), 8.0)
    clock.now += 1.0
    fact, _ = desk.next_fact(5.0, (), None)
    assert fact == TaskArrived(5.0, 0, 0, 3.0, 8.0)
    assert desk.next_fact(5.0, (), None)[0] == TimerFired(5.0)


def test_the_clock_starts_when_all_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    desk = ready_desk(2)
    clock.now += 7.0
    desk.lost(errand(3, 1, 4.0), "garbled")
    assert desk.next_fact(None, (), None)[0] == TaskLost(7.0, 3, 1, 3.0, "garbled")


def test_bytes_are_counted_at_their_declared_size(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    desk = ready_desk(1, byte_scale=2.5)
    desk.arrived(errand(0, 0), Report(0, 0, {}, 1.0, {}), 8.0)
    fact = desk.next_fact(None, (), None)[0]
    assert isinstance(fact, TaskArrived)
    assert fact.bytes_up == 20.0


def test_a_client_that_was_quiet_for_long_is_not_asked_until_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    desk = ready_desk(2)
    clock.now += QUIET_SECONDS + 1.0
    desk.pull(1, 0.0)

    def seen() -> list[int]:
        fact, _ = desk.next_fact(None, (), lambda idle: roster_of(*idle))
        assert isinstance(fact, CandidatesSeen)
        return fact.roster.clients.tolist()

    assert seen() == [1]
    desk.pull(0, 0.0)
    assert seen() == [0, 1]


def test_a_device_that_enrols_again_is_ready_when_it_calls() -> None:
    desk = ready_desk(2)
    desk.enrol(0)  # it was started again, and builds what it trains
    fact, _ = desk.next_fact(None, (), lambda idle: roster_of(*idle))
    assert isinstance(fact, CandidatesSeen)
    assert fact.roster.clients.tolist() == [1]


def test_strangers_are_nobody() -> None:
    desk = TaskDesk(3)
    for call in (lambda: desk.pull(2, 0.0), lambda: desk.claim(0, 2)):
        with pytest.raises(KeyError):
            call()


def test_only_the_named_tasks_are_withdrawn() -> None:
    desk = ready_desk(2)
    desk.hand_out([errand(7, 0), errand(8, 1)])
    desk.withdraw([7, 99])
    assert desk.pull(0, 0.0) is None
    assert desk.pull(1, 0.0) == errand(8, 1)


def test_waiting_calls_are_answered_by_work_and_let_go_at_the_end() -> None:
    desk = ready_desk(2)
    found: dict[int, object] = {}
    threads = [threading.Thread(target=lambda c=c: found.update({c: desk.pull(c, 30.0)})) for c in (0, 1)]
    for thread in threads:
        thread.start()
    desk.hand_out([errand(7, 0)])
    threads[0].join(10)
    assert found == {0: errand(7, 0)}
    desk.close()
    threads[1].join(10)
    assert found[1] is None
    assert desk.pull(0, 30.0) is None


def test_those_who_do_not_ask_find_nobody_and_nobody_waits_for_them() -> None:
    desk = ready_desk(2)
    desk.hand_out([errand(7, 0)])
    desk.finish("rounds", 0.01)
    assert desk.claim(7, 0) is None
    assert desk.pull(0, 0.0) == RunOver("rounds")
