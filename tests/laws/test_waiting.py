"""Rounds that wait for clients: the very run of rounds that fail at once, wherever enough clients are there."""

from dataclasses import replace

import pytest
from hypothesis import given

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.spec import resolve
from fedfleet.core.events import CandidatesSeen, RoundFailed
from fedfleet.core.records import Stop
from fedfleet.core.registry import names
from fedfleet.network.server.candidates import missing_devices
from fedfleet.simulation.simulator import simulate
from tests.laws.test_together import POLICIES, SELECTORS
from tests.portions import examples
from tests.worlds import events_of, fleets, paces, plain, toy_plan, world_of

law = examples(50, soak=100)
WAITING = ("readiness", "deadline", "timeout", "semi_async")


@law
@given(fleets(), paces(*WAITING, "first_of"))
def test_where_enough_clients_are_there_nothing_changes(fleet, pace):
    fleet = replace(fleet, ready=tuple(((0.0, period),) for period in fleet.periods))
    policies = [replace(pace, if_few=if_few).policy() for if_few in ("fail", "wait")]
    failing, waiting = (events_of(toy_plan(p, len(fleet), stop=Stop(rounds=4)), world_of(fleet))[0] for p in policies)
    short = [e for e in failing if isinstance(e, CandidatesSeen) and len(e.roster.clients) < max(policies[0].least, pace.cohort)]
    burnt = [e for e in failing if isinstance(e, RoundFailed) and e.reason == "nothing arrived in a whole period"]
    if not short and not burnt:
        assert [plain(e) for e in waiting] == [plain(e) for e in failing]


def spec_of(selector, policy, if_few):
    choose, parts = {"use": selector, **SELECTORS.get(selector, {})}, "timely" in selector
    how = {"algorithm": "timelyfl", "task": "digits_mlp"} if parts else {"task": "digits_logreg"}
    pace = {"use": policy, **POLICIES.get(policy, {"cohort": 4}), "if_few": if_few}
    world = {"clients": 12, "devices": "spread", "model_bytes": 1e7}
    return resolve({"seed": 4, "world": world, "choose": choose, "pace": pace, "stop": {"rounds": 3}, **how})


PAIRS = [(s, p) for s in names("selectors") for p in WAITING if p != "semi_async" or s not in ("pyramidfl", "tifl")]


SAMPLE = [pytest.param(*pair, marks=() if i % 8 == 0 else pytest.mark.soak) for i, pair in enumerate(PAIRS)]


@pytest.mark.parametrize(("selector", "policy"), SAMPLE)
def test_nor_does_it_for_any_selector(selector, policy):
    logs = []
    for if_few in ("fail", "wait"):
        setup, log = assemble(spec_of(selector, policy, if_few)), []
        with open_executor(setup) as execute:
            simulate(replace(setup.plan, spec_digest=""), setup.world, execute, watch=log.extend)
        logs.append([plain(e) for e in log])
    assert logs[0] == logs[1]


def test_nor_does_it_on_a_network():
    for present in range(2, 9):
        one = {"present": present, "busy": 1, "declared": 9, "asked_at": 0.0, "patience": 60.0}
        assert missing_devices(at_least=2, now=61.0, **one) == missing_devices(at_least=0, now=61.0, **one)
    assert missing_devices(present=1, busy=0, declared=9, at_least=2, asked_at=0.0, now=1e6, patience=60.0) is None
