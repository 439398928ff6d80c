"""Bounds around a selector: a client that lies about its statistics is picked hardly more often than when it is honest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.oort import oort
from fedfleet.choose.power_of_choice import power_of_choice
from fedfleet.choose.pyramid import pyramidfl
from fedfleet.choose.report_bounds import bounded
from fedfleet.choose.uniform import uniform
from fedfleet.core.events import TasksSent
from fedfleet.core.parts import Algorithm, Draw, Selector
from fedfleet.core.records import LOST, Report, Stop, whole_work
from fedfleet.core.rng import uniforms
from fedfleet.engine.checkpoint import freeze, thaw
from fedfleet.pace.rounds import readiness
from fedfleet.testing.toys import consensus
from tests.choose.rosters import ended, roster
from tests.worlds import even_fleet, events_of, only, toy_plan, world_of

CLIENTS, COHORT, ROUNDS = 18, 3, 80


def hearing() -> Selector:
    """A selector that keeps the losses that it is told, and picks the highest."""

    def learn(state, ended, now):
        known = state["loss"].copy()
        known[ended.clients] = ended.stats["loss"]
        return {"loss": known}

    def pick(state, roster, n, draw):
        return whole_work(np.sort(roster.clients[np.argsort(-state["loss"][roster.clients], kind="stable")[:n]]))

    return Selector("hearing", pick, learn, initial=lambda clients: {"loss": np.zeros(clients)}, by_reports=True)


def losses_of(selector, state, clients):
    return state["inner.loss"][clients].tolist()


def test_a_loss_counts_so_many_times_the_median_of_what_all_reported_last():
    part = bounded(hearing(), spread=3.0)
    state = part.learn(part.initial(6), ended([0, 1, 2, 3], loss=[1.0, 2.0, 1e9, 4.0]), 1.0)
    assert losses_of(part, state, [0, 1, 2, 3]) == [1.0, 2.0, 6.0, 4.0], "of an even number the lower of the two in the middle"
    state = part.learn(state, ended([2, 4], loss=[-1e9, 1e9]), 2.0)
    assert losses_of(part, state, [2, 4]) == [-12.0, 12.0], "also what is far too low is bounded"


def test_what_does_not_come_or_is_no_number_bounds_nothing():
    part = bounded(hearing())
    state = part.initial(4)
    state = part.learn(state, ended([0, 1], loss=[np.nan, 1e9], fate=[0, LOST]), 1.0)
    assert np.isnan(state["inner.loss"][0]) and state["inner.loss"][1] == 1e9, "there is no median yet"
    state = part.learn(state, ended([2, 3], loss=[0.0, 5.0]), 2.0)
    assert losses_of(part, state, [2, 3]) == [0.0, 5.0]


def test_answers_to_a_probe_are_bounded_too():
    part = bounded(power_of_choice(d=4), lead=1e6)
    asked = roster(4, loss=[1.0, 1.0, 1.5, 1e12])
    picks = [part.pick(part.initial(4), asked, 2, Draw(seed, 0)).clients.tolist() for seed in range(3)]
    assert picks == [[3, 2]] * 3
    one = bounded(power_of_choice(d=4), lead=1e6, spread=1.0)
    firsts = {int(one.pick(one.initial(4), asked, 1, Draw(seed, 0)).clients[0]) for seed in range(40)}
    assert firsts == {0, 1, 2, 3}, "with no room above the median all are equal, and chance decides"


def test_who_leads_is_left_out_until_others_have_caught_up_and_places_are_filled_nonetheless():
    part = bounded(hearing(), lead=2.0)
    state = part.initial(4)
    for _ in range(3):
        state = part.learn(state, ended([3], loss=[9.0]), 1.0)
    state = part.learn(state, ended([0, 1, 2], loss=[1.0, 1.0, 1.0]), 1.0)
    assert 3 not in part.pick(state, roster(4), 3, Draw(0, 0)).clients
    assert part.pick(state, roster(4), 4, Draw(0, 0)).clients.tolist() == [0, 1, 2, 3]
    waiting = roster(4, untold=[20.0, 0.0, 0.0, 0.0])
    assert part.pick(state, waiting, 2, Draw(0, 0)).clients.tolist() == [1, 3], "tasks that it has not yet heard of count"


MADE = {"oort": oort, "pyramidfl": pyramidfl, "stale": lambda: power_of_choice(losses="stale", d=8)}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_where_no_bound_is_reached_it_picks_as_the_selector_inside(make):
    inner, part = make(), bounded(make(), spread=1e6, lead=1e6)
    plan = toy_plan(readiness(3), 8, algorithm=telling(), choose=inner, stop=Stop(rounds=12))
    world = world_of(even_fleet(8))
    picks = [
        [e.clients.tolist() for e in only(TasksSent, events_of(replace(plan, choose=choose), world)[0])] for choose in (inner, part)
    ]
    assert picks[0] == picks[1]


def test_the_name_and_what_is_known_of_it():
    part = bounded(oort())
    assert (part.name, part.bounded, part.by_reports, part.sees) == ("bounded(oort)", True, True, ("untold",))
    assert bounded().name == "bounded(uniform)" and not uniform().bounded


def test_its_state_survives_a_checkpoint():
    plan = toy_plan(readiness(3), 8, algorithm=telling(), choose=bounded(oort()), stop=Stop(rounds=6))
    _, end = events_of(plan, world_of(even_fleet(8)))
    again = thaw(*freeze(end.state)).selector
    assert again.keys() == end.state.selector.keys()
    assert all(np.array_equal(again[n], v, equal_nan=True) for n, v in end.state.selector.items())


# ---- liars --------------------------------------------------------------------------------------------------------


def telling(liar: int | None = None) -> Algorithm:
    """The toy whose clients report losses, unlike from client to client, that fall; a liar's is always a thousand times as high."""
    toy = consensus()

    def report(job, dataset):
        own = 0.5 + float(uniforms(7, "loss", np.array([job.key], np.uint64))[0])
        loss = own * (1000.0 if job.client == liar else 1.0) / (1.0 + 0.1 * job.round)
        stats = {"loss": loss, "squared_loss": loss * loss, "samples": 10.0, "steps": 2.0, "update_norm": loss}
        done: Report = toy.local(job.client, {})(job, dataset)
        return replace(done, stats=stats)

    return replace(toy, local=lambda client, settings: report)


def share(choose: Selector, client: int, liar: int | None) -> float:
    """In which share of the rounds a client is picked."""
    plan = toy_plan(readiness(COHORT), CLIENTS, algorithm=telling(liar), choose=choose, stop=Stop(rounds=ROUNDS))
    events, _ = events_of(plan, world_of(even_fleet(CLIENTS)))
    return float(np.mean([client in e.clients for e in only(TasksSent, events)]))


@pytest.mark.parametrize(
    ("make", "before"),
    [(lambda: oort(penalty=0.0), 0.6), (lambda: power_of_choice(losses="stale", d=CLIENTS), 0.6)],
    ids=["oort", "stale"],
)
def test_a_liar_is_picked_no_more_often_than_an_honest_client_may_be(make, before):
    """The even share is 1/6; unbounded, the liar is in most rounds. Bounded, it is in no more than twice the even share."""
    even = COHORT / CLIENTS
    for liar in (4, 17):
        assert share(make(), liar, liar) > before
        assert share(bounded(make()), liar, liar) <= 2 * even + 2 / ROUNDS
        assert share(bounded(make()), liar, None) <= 2 * even + 2 / ROUNDS, "an honest client has the same limit"


def test_several_liars_together_gain_no_more():
    def picked(choose: Selector, liars: set[int]) -> list[float]:
        base = telling(None)
        half = base.local(0, {})

        def report(job, dataset):
            done: Report = half(job, dataset)
            lies = job.client in liars
            return replace(done, stats={n: v * (1e6 if lies and n != "samples" else 1.0) for n, v in done.stats.items()})

        algorithm = replace(base, local=lambda client, settings: report)
        plan = toy_plan(readiness(COHORT), CLIENTS, algorithm=algorithm, choose=choose, stop=Stop(rounds=ROUNDS))
        events, _ = events_of(plan, world_of(even_fleet(CLIENTS)))
        return [float(np.mean([c in e.clients for e in only(TasksSent, events)])) for c in sorted(liars)]

    liars = {2, 9, 15}
    assert max(picked(bounded(oort()), liars)) <= 2 * COHORT / CLIENTS + 2 / ROUNDS
