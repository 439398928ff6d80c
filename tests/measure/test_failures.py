"""Why rounds failed, told from small journals and from real runs of toy fleets."""

import numpy as np
import pytest

from fedfleet.core.events import (
    CandidatesSeen,
    ModelCommitted,
    ReportRejected,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TaskStruck,
)
from fedfleet.core.records import Stop
from fedfleet.measure.failures import Cause, clock_text, cure
from fedfleet.measure.run_record import read_record
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.pace.timeout import timeout
from fedfleet.world.faults import lossy
from tests.faulty import world_of as faulty_world
from tests.measure.journals import sent
from tests.worlds import Fleet, even_fleet, events_of, roster_of, toy_plan, world_of

NIGHT = Fleet(even_fleet(3).keys, (8.0,) * 3, (86400.0,) * 3, (((40_000.0, 60_000.0),),) * 3)


def failures(log):
    return read_record(log).failures


def ran(pace, fleet, rounds=10):
    return events_of(toy_plan(pace, len(fleet), stop=Stop(rounds=rounds)), world_of(fleet))[0]


def dropped(time, *seconds):
    n = len(seconds)
    return TasksDropped(time, np.arange(n), np.arange(n), np.array(seconds))


def test_a_fleet_that_sleeps_has_too_few_and_the_cure_is_to_wait():
    result = failures(ran(readiness(3, if_few="fail"), NIGHT, 180))
    assert result.causes == {Cause.FEW: 180}
    assert cure(result) == (
        "no client was reachable in these rounds before 01:00 of the first day; let rounds wait for clients with pace.if_few = "
        '"wait", or change world.states'
    )
    assert failures(ran(readiness(3, if_few="wait"), NIGHT)).causes == {}


def test_a_timeout_that_saw_nobody_had_too_few():
    assert failures(ran(timeout(3, if_few="fail"), NIGHT, 5)).causes == {Cause.FEW: 5}
    assert failures(ran(timeout(3, seconds=5.0, most=0), even_fleet(3, 1e9), 5)).causes == {Cause.LATE: 5}


def test_some_who_are_there_and_are_not_enough_are_counted():
    result = failures(ran(readiness(4, min_clients=4), even_fleet(5)) + [
        CandidatesSeen(900.0, roster_of(0, 1)), RoundFailed(900.0, 11, "few"), CandidatesSeen(950.0, roster_of(0)),
        RoundFailed(950.0, 12, "few"),
    ])  # fmt: skip
    assert result.causes == {Cause.FEW: 2}
    assert "no more than 2 clients were reachable in these rounds before 00:15" in cure(result)


def test_a_deadline_that_nobody_meets_says_how_long_it_waited():
    result = failures(ran(deadline(3, seconds=5.0), even_fleet(3, 600.0)))
    assert result.causes == {Cause.LATE: 10}
    assert cure(result).startswith("no client reported within the 5 s after which tasks were given up; raise pace.seconds")


def test_a_deadline_that_few_meet_says_how_fast_they_were():
    result = failures(ran(deadline(4, seconds=50.0, min_share=1.0), even_fleet(4, [12.0, 600.0, 600.0, 600.0])))
    assert set(result.causes) == {Cause.LATE}
    assert "too few reported within the 50 s" in cure(result)
    assert "the fastest of all after 12 s" in cure(result)


def test_devices_that_cannot_do_the_work_are_the_cause():
    result = failures(ran(readiness(3), even_fleet(3, float("inf"))))
    assert result.causes == {Cause.UNABLE: 10}
    assert "the device cannot do this work" in cure(result)


def test_tasks_that_are_lost_on_the_way_are_the_cause_whether_the_server_knows_or_not():
    for noticed in (True, False):
        lossy_ = lossy(download=0.0, compute=1.0, upload=0.0, noticed=noticed)
        plan = toy_plan(deadline(3, seconds=50.0), 3, stop=Stop(rounds=4))
        result = failures(events_of(plan, faulty_world(even_fleet(3), lossy_))[0])
        assert result.causes == {Cause.LOST: 4}
        assert cure(result).startswith("12 tasks were lost on the way (most often: lost in compute, 12 times); ask more clients")


def test_a_few_lost_among_many_who_were_late_are_not_the_cause():
    log = [sent(0.0, 0, 0, 0, 0, 1, 2), TaskStruck(2.0, 0, 0, 2.0, "lost in upload")]
    end = RoundFailed(9.0, 0, "late")
    assert failures([*log, dropped(9.0, 9.0, 9.0, 9.0), end]).causes == {Cause.LATE: 1}
    assert failures([*log, dropped(9.0, 9.0, 9.0), end]).causes == {Cause.LOST: 1}


def test_refused_reports_are_the_cause_although_they_arrived():
    log = [CandidatesSeen(20.0, roster_of(0, 1)), TaskArrived(30.0, 0, 0, 10.0, 1.0)]
    log += [ReportRejected(30.0, 0, 0, "not finite"), RoundFailed(30.0, 0, "no report could be folded")]
    assert failures(log).causes == {Cause.REFUSED: 1}
    assert "as the next warning says" in cure(failures(log))


def test_the_most_frequent_cause_is_told_and_rounds_do_not_mix():
    log = [
        TaskLost(1.0, 0, 0, 1.0, "gone"), ModelCommitted(2.0, 0, 1, "a", 1),
        CandidatesSeen(5.0, roster_of()), RoundFailed(5.0, 1, "few"),
        CandidatesSeen(6.0, roster_of(0)), dropped(9.0, 3.0), RoundFailed(9.0, 2, "late"),
        CandidatesSeen(10.0, roster_of(0)), dropped(14.0, 4.0, 2.0), RoundFailed(14.0, 3, "late"),
    ]  # fmt: skip
    result = failures(log)
    assert result.causes == {Cause.LATE: 2, Cause.FEW: 1}
    assert (result.waited, result.last, result.fastest) == (4.0, 14.0, None)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "00:00 of the first day"), (86_399.0, "23:59 of the first day"), (86_400.0, "00:00 of the second day"),
     (200_000.0, "07:33 of day 3")],
)  # fmt: skip
def test_times_are_said_as_a_clock_shows_them(seconds, said):
    assert clock_text(seconds) == said
