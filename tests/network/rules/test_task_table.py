"""What becomes of a report, by the table of tasks: its rules one by one, then against a literal model."""

import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fedfleet.core.errors import RunFailed
from fedfleet.network.rules import task_table as desk
from fedfleet.network.rules.task_columns import PAGE
from fedfleet.network.rules.task_table import NO_FRONTEND, Claim, Phase, TaskTable, VerdictKind


def table(*clients, heaviest=10.0, until=100.0, first=0):
    made = TaskTable()
    made.send(first, np.array(clients, np.int64), np.full(len(clients), heaviest), until)
    return made


def claim(task=0, client=7, *, crc=1, weight=5.0, fault="", declined="", transmitter=0):
    return Claim(task, client, crc, 100, weight, fault, declined, transmitter)


def test_a_good_report_is_granted_once_then_busy_then_safe():
    made = table(7)
    assert made.decide(claim(), 1.0) == (VerdictKind.GRANT, "", 0.0, False)
    assert made.unsafe_tasks([0]) == [0]
    busy = made.decide(claim(transmitter=1), 1.0)
    assert (busy.kind, busy.seconds) == (VerdictKind.BUSY, 0.2)
    made.mark_safe([0])
    assert made.unsafe_tasks([0]) == []
    assert made.decide(claim(transmitter=1), 1.0).kind == VerdictKind.SAFE
    assert made.decide(claim(crc=2), 1.0).kind == VerdictKind.DUPLICATE
    made.settle([0], folded=True)
    assert made.decide(claim(), 1e9).kind == VerdictKind.SAFE
    assert made.decide(claim(crc=2), 1e9).kind == VerdictKind.DUPLICATE


def test_what_was_gathered_and_rejected_came_before():
    made = table(7)
    made.decide(claim(), 1.0)
    made.settle([0], folded=False)
    assert made.decide(claim(), 2.0).kind == VerdictKind.DUPLICATE


@pytest.mark.parametrize("wrong", [{"client": 8}, {"task": 1}, {"task": -1}, {"task": 2**63}])
def test_a_stranger_costs_the_task_nothing(wrong):
    made = table(7)
    for _ in range(5):
        assert made.decide(claim(**wrong), 1.0).kind == VerdictKind.STRANGER
    assert made.decide(claim(), 1.0).kind == VerdictKind.GRANT


def test_three_strikes_end_a_task_and_two_do_not():
    made = table(7, 7)
    for crc in (1, 2):
        verdict = made.decide(claim(crc=crc, fault="it is not finite"), 1.0)
        assert verdict.kind == VerdictKind.RETRY
        assert verdict.reason == f"it is not finite; {crc} of 3 tries used"
        made.decide(claim(task=1, crc=crc, fault="it is not finite"), 1.0)
    assert made.decide(claim(crc=3, fault="it is not finite"), 1.0) == (
        VerdictKind.REFUSE,
        "it is not finite",
        0.0,
        False,
    )
    assert made.decide(claim(crc=3), 1.0).kind == VerdictKind.DUPLICATE
    assert made.decide(claim(task=1, crc=3), 1.0).kind == VerdictKind.GRANT


def test_the_same_faulty_bytes_again_end_a_task_at_once():
    made = table(7)
    assert made.decide(claim(fault="of another shape"), 1.0).kind == VerdictKind.RETRY
    assert made.decide(claim(fault="of another shape"), 1.0).kind == VerdictKind.REFUSE


def test_a_fault_past_the_lease_needs_no_other_try():
    assert table(7).decide(claim(fault="not finite"), 100.0).kind == VerdictKind.REFUSE


@pytest.mark.parametrize("weight", [0.0, -1.0, 10.1, math.nan, math.inf, -math.inf])
def test_a_weight_out_of_bounds_is_a_fault(weight):
    verdict = table(7).decide(claim(weight=weight), 1.0)
    assert verdict.kind == VerdictKind.RETRY
    assert "its weight is" in verdict.reason


def test_what_weighs_nothing_must_say_so():
    assert table(7, heaviest=0.0).decide(claim(weight=0.0), 1.0).kind == VerdictKind.GRANT
    assert table(7, heaviest=0.0).decide(claim(weight=1.0), 1.0).kind == VerdictKind.RETRY
    assert table(7, heaviest=math.inf).decide(claim(weight=1.0), 1.0).kind == VerdictKind.RETRY


def test_a_declined_task_is_lost():
    made = table(7)
    assert made.decide(claim(declined="no battery"), 1.0) == (VerdictKind.DECLINED, "no battery", 0.0, False)
    assert made.phase(0) == Phase.LOST
    assert made.decide(claim(), 1.0).kind == VerdictKind.LATE


def test_late_once_and_again_after_that():
    made = table(7)
    made.withdraw([0])
    assert [made.decide(claim(), 1.0).kind for _ in range(3)] == [
        VerdictKind.LATE,
        VerdictKind.DUPLICATE,
        VerdictKind.DUPLICATE,
    ]


def test_leases_end_as_lost_or_as_rejected_with_the_reason():
    made = table(7, 7, 7, 7)
    made.decide(claim(task=1, fault="not finite"), 1.0)
    made.decide(claim(task=2), 1.0)
    made.decide(claim(task=3), 1.0)
    made.mark_safe([3])
    assert made.release(0, [3]) == [2]
    assert made.next_expiry() == 100.0
    assert made.expire(99.9) == ([], [])
    lost, rejected = made.expire(100.0)
    assert lost == [0]
    assert [(o.task, o.arrived, o.nbytes) for o in rejected] == [(1, False, 100), (2, True, 0)]
    assert rejected[0].reason == "not finite"
    assert made.next_expiry() is None
    assert made.decide(claim(task=0), 101.0).kind == VerdictKind.LATE
    assert made.decide(claim(task=1), 101.0).kind == VerdictKind.DUPLICATE


def test_a_task_released_past_its_lease_ends_at_the_next_look():
    made = table(7)
    made.decide(claim(), 1.0)
    assert made.expire(200.0) == ([], [])
    made.release(0, [])
    assert made.next_expiry() == 100.0
    assert [o.task for o in made.expire(200.0)[1]] == [0]


def test_a_release_counts_again_among_later_leases():
    made = table(7)
    made.send(1, np.array([7]), np.array([10.0]), 500.0)
    made.decide(claim(), 1.0)
    made.expire(200.0)
    made.send(2, np.array([7]), np.array([10.0]), 150.0)
    made.expire(200.0)
    assert made.next_expiry() == 500.0  # what is over is not looked for again
    made.release(0, [])
    assert made.next_expiry() == 100.0


def test_a_strike_after_a_release_is_not_the_same_bytes_as_the_good_report():
    made = table(7)
    made.decide(claim(crc=1, fault="not finite"), 1.0)
    made.decide(claim(crc=2), 1.0)
    made.release(0, [])
    assert made.decide(claim(crc=2, weight=99.0), 1.0).kind == VerdictKind.RETRY


def test_declining_what_was_handed_in_changes_nothing():
    made = table(7)
    made.decide(claim(), 1.0)
    assert made.decide(claim(declined="no"), 1.0).kind == VerdictKind.DUPLICATE
    assert made.phase(0) == Phase.GRANTED


def test_what_was_handed_in_outlives_its_transmitter_and_is_on_no_other_disk():
    made = table(7, 7, 7)
    for task in range(3):
        made.decide(claim(task=task), 1.0)
    made.mark_safe([0])
    made.hand_in([0, 1])
    assert made.unsafe_tasks(range(3)) == [2]
    assert made.release(0, [0]) == [2]  # a snapshot may still hold what was handed in
    assert made.release(1, [0, 1]) == []
    assert made.decide(claim(task=1), 2.0).kind == VerdictKind.SAFE
    made.settle([0, 1], folded=True)
    assert made.phase(1) == Phase.FOLDED


def test_ids_that_were_given_once_are_no_strangers_after_a_restart():
    made = TaskTable()
    made.reopen(Phase.OPEN, np.array([4]), np.array([7]), 10.0, 100.0)
    assert made.decide(claim(task=9), 1.0).kind == VerdictKind.STRANGER
    made.set_next_task(10)
    made.set_next_task(3)
    assert made.decide(claim(task=9), 1.0).kind == VerdictKind.LATE
    assert made.decide(claim(task=10), 1.0).kind == VerdictKind.STRANGER
    made.send(10, np.array([7]), np.array([10.0]), 100.0)
    assert made.decide(claim(task=10), 1.0).kind == VerdictKind.GRANT


def test_a_released_task_is_granted_again_to_whatever_comes():
    made = table(7)
    made.decide(claim(crc=1), 1.0)
    made.release(0, [])
    assert made.decide(claim(crc=2, transmitter=1), 2.0) == (VerdictKind.REGRANT, "", 0.0, True)
    assert made.release(0, []) == []  # it is with another now


def test_a_released_task_that_is_declined_cannot_be_lost_any_more():
    made = table(7)
    made.decide(claim(), 1.0)
    made.release(0, [])
    verdict = made.decide(claim(declined="disk full"), 2.0)
    assert (verdict.kind, verdict.arrived) == (VerdictKind.REFUSE, True)


def test_a_disk_that_lost_what_it_kept_releases_it():
    made = table(7)
    made.decide(claim(), 1.0)
    made.mark_safe([0])
    assert made.release(0, []) == [0]


def test_a_server_that_was_killed_waits_for_its_disks():
    made = TaskTable()
    seven, of = np.full(3, 7), np.array
    made.reopen(Phase.GRANTED, of([4, 5]), seven[:2], 10.0, 100.0)
    made.reopen(Phase.OPEN, of([6]), seven[:1], 10.0, 50.0)
    made.reopen(Phase.FOLDED, of([1, 2]), seven[:2])
    made.reopen(Phase.REFUSED, of([3]), seven[:1])
    assert [made.decide(claim(task=t, crc=9), 1.0).kind.name for t in range(6)] == [
        "LATE",
        "SAFE",
        "SAFE",
        "DUPLICATE",
        "BUSY",
        "BUSY",
    ]
    assert made.release(1, [5, 1]) == []
    assert made.decide(claim(task=5, crc=9), 1.0).kind == VerdictKind.SAFE
    assert made.release(NO_FRONTEND, ()) == [4]
    assert made.decide(claim(task=4, crc=9), 1.0) == (VerdictKind.REGRANT, "", 0.0, True)
    assert made.decide(claim(task=6, crc=9), 1.0).kind == VerdictKind.GRANT
    assert made.release(1, []) == [5]  # it is known whose it was


def test_a_report_on_two_disks_ends_the_run():
    made = table(7)
    made.decide(claim(transmitter=1), 1.0)
    with pytest.raises(RunFailed, match="task 0 is on the disk of frontend 0"):
        made.release(0, [0])


def test_the_newest_ends_are_remembered_and_the_oldest_forgotten():
    made = TaskTable(remembered=2 * PAGE)
    for first in range(0, 6 * PAGE, PAGE):
        made.send(first, np.full(PAGE, 7), np.full(PAGE, 10.0), 100.0)
        made.withdraw(range(first, first + PAGE - (first == 0)))  # the last of the first page stays open
    assert made.phase(PAGE) == Phase.NEVER
    assert made.decide(claim(task=PAGE), 1.0).kind == VerdictKind.LATE
    assert made.phase(6 * PAGE - 1) == Phase.WITHDRAWN
    assert made.decide(claim(task=PAGE - 1), 1.0).kind == VerdictKind.GRANT
    assert sum(made.counts().values()) == 2 * PAGE
    assert made.nbytes() == PAGE * (27 + 27)


def test_a_task_is_not_sent_twice():
    with pytest.raises(ValueError, match="was sent before"):
        table(7, 7).send(1, np.array([7]), np.array([1.0]), 1.0)


class Literal:
    """One task, told in words."""

    def __init__(self, client, until):
        self.client, self.until = client, until
        self.state, self.at, self.crc = "open", None, None
        self.bad, self.grants, self.releases, self.ends, self.heard_after = [], 0, 0, 0, False

    def end(self, state):
        self.state, self.ends = state, self.ends + 1


class Model(RuleBasedStateMachine):
    """Random lives of tasks: the table and the literal model always agree."""

    def __init__(self):
        super().__init__()
        self.made, self.tasks, self.now = TaskTable(), {}, 0.0

    def some(self, picks):
        return sorted({p % len(self.tasks) for p in picks}) if self.tasks else []

    @rule(clients=st.lists(st.integers(0, 3), max_size=4), lease=st.floats(0.5, 20))
    def send(self, clients, lease):
        first = len(self.tasks)
        self.made.send(first, np.array(clients, np.int64), np.full(len(clients), 10.0), self.now + lease)
        self.tasks |= {first + i: Literal(c, self.now + lease) for i, c in enumerate(clients)}

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds):
        self.now += seconds

    @rule(
        pick=st.integers(0, 99),
        crc=st.integers(1, 3),
        fault=st.sampled_from(["", "", "", "bad", "weight"]),
        stranger=st.integers(0, 9),
        declined=st.sampled_from(["", "", "", "", "no"]),
        at=st.integers(0, 2),
    )
    def judge(self, pick, crc, fault, stranger, declined, at):
        if not self.tasks:
            return
        task = pick % len(self.tasks)
        it = self.tasks[task]
        client = it.client + (stranger <= 1)
        verdict = self.made.decide(
            claim(
                task,
                client,
                crc=crc,
                weight=99.0 if fault == "weight" else 1.0,
                fault="bad" if fault == "bad" else "",
                declined=declined,
                transmitter=at,
            ),
            self.now,
        )
        assert verdict.kind == self.expected(it, crc, bool(fault), stranger <= 1, bool(declined), at)

    def expected(self, it, crc, fault, stranger, declined, at):
        if stranger:
            return VerdictKind.STRANGER
        if it.state in ("open", "released"):
            return self.expected_waiting(it, crc, fault, declined, at)
        if it.state in ("refused", "lost", "withdrawn"):
            first = not it.grants and not it.heard_after and it.state != "refused"
            it.heard_after = True
            return VerdictKind.LATE if first else VerdictKind.DUPLICATE
        if declined or it.crc not in (None, crc):
            return VerdictKind.DUPLICATE
        return {
            "granted": VerdictKind.BUSY,
            "safe": VerdictKind.SAFE,
            "folded": VerdictKind.SAFE,
            "rejected": VerdictKind.DUPLICATE,
        }[it.state]

    def expected_waiting(self, it, crc, fault, declined, at):
        if declined:
            it.end("lost" if it.state == "open" else "refused")
            return VerdictKind.DECLINED if it.state == "lost" else VerdictKind.REFUSE
        if fault:
            since_release = it.bad[it.fresh :] if it.state == "released" else it.bad
            same = bool(since_release) and since_release[-1] == crc
            it.bad.append(crc)
            it.crc = crc
            if len(it.bad) < 3 and not same and self.now < it.until:
                return VerdictKind.RETRY
            it.end("refused")
            return VerdictKind.REFUSE
        kind = VerdictKind.GRANT if it.state == "open" else VerdictKind.REGRANT
        it.state, it.at, it.crc, it.grants = "granted", at, crc, it.grants + 1
        return kind

    @rule(picks=st.lists(st.integers(0, 99)))
    def safe(self, picks):
        self.made.mark_safe(self.some(picks))
        for task in self.some(picks):
            if self.tasks[task].state == "granted":
                self.tasks[task].state = "safe"

    @rule(transmitter=st.integers(0, 2), picks=st.lists(st.integers(0, 99)))
    def release(self, transmitter, picks):
        its = [t for t, it in self.tasks.items() if it.state in ("granted", "safe") and it.at == transmitter]
        on_disk = [t for t in self.some(picks) if t in its]
        freed = self.made.release(transmitter, on_disk)
        assert freed == [t for t in its if t not in on_disk]
        for task in its:
            it = self.tasks[task]
            it.state = "safe" if task in on_disk else "released"
            if task not in on_disk:
                it.releases += 1
                it.fresh, it.crc = len(it.bad), None

    @rule(picks=st.lists(st.integers(0, 99), max_size=3))
    def withdraw(self, picks):
        self.made.withdraw(self.some(picks))
        for task in self.some(picks):
            if self.tasks[task].state in ("open", "granted", "released", "safe"):
                self.tasks[task].end("withdrawn")

    @rule(picks=st.lists(st.integers(0, 99), max_size=3))
    def hand_in(self, picks):
        self.made.hand_in(self.some(picks))
        for task in self.some(picks):
            if self.tasks[task].state in ("granted", "safe"):
                self.tasks[task].state, self.tasks[task].at = "safe", "the processor"

    @rule(picks=st.lists(st.integers(0, 99), max_size=3), folded=st.booleans())
    def settle(self, picks, folded):
        self.made.settle(self.some(picks), folded)
        for task in self.some(picks):
            if self.tasks[task].state in ("granted", "released", "safe"):
                self.tasks[task].end("folded" if folded else "rejected")

    @rule()
    def expire(self):
        lost, rejected = self.made.expire(self.now)
        due = [t for t, it in self.tasks.items() if it.state in ("open", "released") and it.until <= self.now]
        assert lost == [t for t in due if self.tasks[t].state == "open" and not self.tasks[t].bad]
        assert [(o.task, o.arrived) for o in rejected] == [(t, self.tasks[t].state == "released") for t in due if t not in lost]
        for task in due:
            self.tasks[task].end("lost" if task in lost else "refused")
        again = self.made.next_expiry()
        assert again is None or again > self.now

    @invariant()
    def agree(self):
        for task, it in self.tasks.items():
            assert self.made.phase(task).name.lower() == it.state
            assert it.grants <= 1 + it.releases
            assert it.ends == (it.state not in ("open", "granted", "released", "safe"))
        states = [it.state for it in self.tasks.values()]
        assert all(n == states.count(phase.name.lower()) for phase, n in self.made.counts().items())
        assert self.made.unsafe_tasks(list(self.tasks)) == [
            t for t, it in self.tasks.items() if it.state in ("granted", "released")
        ]
        due = [it.until for it in self.tasks.values() if it.state in ("open", "released")]
        result = self.made.next_expiry()
        assert (result is None) == (not due) and (result is None or result <= min(due))

    @invariant()
    def nothing_is_kept_of_faults_of_tasks_that_ended(self):
        waiting = {t for t, it in self.tasks.items() if it.state in ("open", "released")}
        assert self.made._faults.keys() <= waiting


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_every_kind_of_answer_has_a_name_here():
    assert all(getattr(desk, kind.name) is kind for kind in VerdictKind)
