"""Devices that vanish, fall silent or come late cost their lease and no more; whom a round waits for is in the journal."""

from contextlib import closing

import grpc
import pytest

from fedfleet.core.events import ModelCommitted, ReportUnwanted, RoundFailed, RunEnded, TaskLost, TasksSent
from fedfleet.core.rng import stream
from fedfleet.store.journal import remarks_of
from tests.network.crowd import crowd
from tests.network.harness import ground, wait_for
from tests.network.proving import Receipt, complaints, models_again
from tests.network.puppet import Puppet, Status, puppets
from tests.network.toys import Toy, plan_of, reference, worked
from tests.worlds import only

pytestmark = pytest.mark.slow


def test_a_fleet_that_is_all_there_gives_the_models_of_the_simulation(tmp_path):
    toy = Toy(clients=5, cohort=3, rounds=4)
    names, _ = reference(toy)
    with ground(tmp_path, toy) as place:
        place.serve()
        with crowd(toy, place.address) as people:
            assert place.ended() == 0, place.said
        assert people.errors == []
        events = place.events()
        assert complaints(events, people.receipts) == []
        assert models_again(plan_of(toy), events, people.reports) == []
        assert place.models() == names
        assert "missing" not in " ".join(remarks_of(place.out / "run.db"))


def test_who_takes_work_and_vanishes_costs_its_lease_and_no_more(tmp_path):
    toy = Toy(clients=4, rounds=3)
    with ground(tmp_path, toy) as place:
        place.serve(lease=0.7, patience=0.5)
        place.await_listening()
        with crowd(toy, place.address, [0, 1, 2]) as people:
            with puppets(place.address, [3]) as (vanishing,):
                taken = vanishing.await_work().work.task
            assert place.ended() == 0, place.said
        events = place.events()
        lost = only(TaskLost, events)
        assert taken in {e.task for e in lost}
        assert all(e.client == 3 and e.seconds >= 0.7 for e in lost)
        assert len(only(ModelCommitted, events)) == 3
        assert complaints(events, people.receipts) == []


def test_who_dies_after_its_report_does_not_hang_the_next_round(tmp_path):
    toy = Toy(clients=3, rounds=3)
    with ground(tmp_path, toy) as place:
        place.serve(lease=0.7, patience=0.5)
        place.await_listening()
        with crowd(toy, place.address, [0, 1]) as people:
            with puppets(place.address, [2]) as (dying,):
                errand = dying.await_work()
                people.reports[errand.work.task] = worked(toy, 2, errand.work.task, errand.model)
                receipt = dying.hand(*dying.honest(toy, errand))
                people.receipts.append(Receipt(errand.work.task, 2, Status.Name(receipt.status)))
            assert place.ended() == 0, place.said
        events = place.events()
        assert len(only(ModelCommitted, events)) == 3
        assert complaints(events, people.receipts) == []
        assert models_again(plan_of(toy), events, people.reports) == []


def test_a_round_waits_for_the_declared_fleet(tmp_path):
    toy = Toy(clients=3, rounds=1)
    with ground(tmp_path, toy) as place:
        place.serve(patience=60.0)
        with crowd(toy, place.address, [0]):
            place.await_listening()
            with pytest.raises(AssertionError, match="no 1 TasksSent"):
                place.await_event(TasksSent, seconds=1.0)
            with crowd(toy, place.address, [1, 2]):
                assert place.ended() == 0, place.said
        (sent,) = only(TasksSent, place.events())
        assert len(sent.clients) == 3


def test_when_patience_ends_it_goes_on_with_whoever_is_there_and_says_so(tmp_path):
    toy = Toy(clients=3, rounds=1)
    with ground(tmp_path, toy) as place:
        place.serve(patience=0.5)
        with crowd(toy, place.address, [0]):
            assert place.ended() == 0, place.said
        (sent,) = only(TasksSent, place.events())
        assert sent.clients.tolist() == [0]
        said = " ".join(remarks_of(place.out / "run.db"))
        assert "2 of 3" in said or "missing" in said or "patience" in said


def test_with_everybody_silent_timers_fire_and_the_run_goes_on(tmp_path):
    """Both devices take their work and are silent: leases end, the rounds fail, and those who come later finish the run."""
    toy = Toy(clients=2, rounds=4)
    with ground(tmp_path, toy) as place:
        place.serve(lease=0.5, patience=2.0)
        place.await_listening()
        with puppets(place.address, [0, 1]) as silent:
            for puppet in silent:
                puppet.check()  # both are there before the round begins
            for puppet in silent:
                puppet.await_work()
        place.await_event(RoundFailed)
        with crowd(toy, place.address) as people:
            assert place.ended() == 0, place.said
        events = place.events()
        assert len(only(TaskLost, events)) >= 2
        assert complaints(events, people.receipts) == []
        assert only(ModelCommitted, events)


def test_a_late_report_is_unwanted_and_its_device_goes_on(tmp_path):
    toy = Toy(clients=2, rounds=3)
    with ground(tmp_path, toy) as place:
        place.serve(lease=0.5, patience=0.2)
        with crowd(toy, place.address, [0]) as people, closing(Puppet(place.address, 1)) as late:
            wait_for(lambda: _enrolled(late), "enrolment", seconds=60)
            errand = late.await_work()
            wait_for(lambda: errand.work.task in {e.task for e in only(TaskLost, place.events())}, "lost task", seconds=60)
            receipt = late.hand(*late.honest(toy, errand))
            assert receipt.status == Status.UNWANTED
            assert place.ended() == 0, place.said
        events = place.events()
        (told,) = [e for e in only(ReportUnwanted, events) if e.task == errand.work.task]
        assert told.reason == "late"
        assert complaints(events, [*people.receipts, Receipt(errand.work.task, 1, "UNWANTED")]) == []


def _enrolled(puppet):
    try:
        return puppet.enrol()
    except grpc.RpcError:
        return None


@pytest.mark.slow
def test_a_fifth_of_the_devices_dies_in_every_round_and_everything_is_accounted_for(tmp_path):
    """In each round another fifth takes its work and never answers."""
    toy = Toy(clients=10, rounds=5, seconds=0.0)
    with ground(tmp_path, toy) as place:
        place.serve(lease=0.6, patience=0.5)
        dead = {(c, r) for r in range(toy.rounds) for c in stream(9, "dying", r).permutation(toy.clients)[:2].tolist()}

        def pause(client, task):
            turn = task // toy.clients
            if (client, turn) in dead:
                return 1.2  # longer than its lease: as good as dead, then born again
            return 0.0

        with crowd(toy, place.address, pause=pause) as people:
            assert place.ended() == 0, place.said
        events = place.events()
        assert complaints(events, people.receipts) == []
        assert models_again(plan_of(toy), events, people.reports) == []
        assert {e.client for e in only(TaskLost, events)} <= {client for client, _ in dead}
        assert len(only(TaskLost, events)) >= toy.rounds
        assert len(only(ModelCommitted, events)) == toy.rounds
        assert isinstance(events[-1], RunEnded)
