"""Power of choice: between a draw by samples and the highest losses."""

from itertools import pairwise

import numpy as np
import pytest

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.spec import resolve
from fedfleet.choose.power_of_choice import power_of_choice
from fedfleet.core.events import CandidatesSeen, ModelCommitted, Probed, TasksSent
from fedfleet.core.parts import Draw
from fedfleet.core.rng import stream
from fedfleet.simulation.simulator import simulate
from fedfleet.testing import check_selector
from tests.choose.rosters import ended, roster
from tests.worlds import only

pytestmark = pytest.mark.slow


def test_with_d_as_large_as_the_pick_it_is_a_draw_by_samples():
    part, there = power_of_choice(1), roster(3, samples=[10, 20, 50], loss=np.nan)
    assert not len(part.probe({}, there, 1, Draw(0, 0))[0]), "probing would change nothing"
    wins = np.bincount([int(part.pick({}, there, 1, Draw(3, r)).clients[0]) for r in range(3000)], minlength=3)
    expected = 3000 * np.array([1, 2, 5]) / 8
    assert ((wins - expected) ** 2 / expected).sum() < 14


def test_with_everyone_probed_the_highest_losses_win():
    losses = stream(1, "loss").uniform(0, 3, 50)
    part, there = power_of_choice(50), roster(50, loss=losses)
    assert sorted(part.probe({}, there, 7, Draw(0, 0))[0].tolist()) == list(range(50))
    assert part.pick({}, there, 7, Draw(0, 0)).clients.tolist() == np.argsort(-losses)[:7].tolist()


def test_those_who_are_picked_were_probed_and_no_one_probed_has_a_higher_loss():
    part, losses = power_of_choice(12), stream(2, "loss").uniform(0, 3, 100)
    for r in range(30):
        draw = Draw(5, r, 3 * r)
        looked, stat = part.probe({}, roster(100), 4, draw)
        assert (len(looked), stat) == (12, "loss")
        column = np.full(100, np.nan)
        column[looked] = losses[looked]
        asked = part.pick({}, roster(100, loss=column), 4, draw).clients
        assert set(asked.tolist()) == set(looked[np.argsort(-losses[looked])[:4]].tolist())


def test_who_did_not_answer_comes_last_and_a_loss_beyond_all_first():
    losses = np.array([np.nan, 0.1, np.nan, np.inf, 2.0])
    part, there = power_of_choice(5), roster(5, loss=losses)
    assert part.pick({}, there, 3, Draw(0, 0)).clients.tolist() == [3, 4, 1]
    assert set(part.pick({}, there, 5, Draw(0, 0)).clients.tolist()) == set(range(5))
    nobody = part.pick({}, roster(5, loss=np.nan), 2, Draw(0, 0)).clients
    assert len(set(nobody.tolist())) == 2


def test_when_more_are_wanted_than_were_probed_the_rest_is_drawn():
    part, draw = power_of_choice(4), Draw(1, 1)
    looked, _ = part.probe({}, roster(20), 2, draw)
    column = np.full(20, np.nan)
    column[looked] = 1.0
    asked = part.pick({}, roster(20, loss=column), 9, draw).clients.tolist()
    assert len(set(asked)) == 9 and set(asked[:4]) == set(looked.tolist())


def test_stale_losses_need_no_probe_and_the_unknown_come_first():
    part = power_of_choice(6, losses="stale")
    assert part.probe is None
    state = part.learn(part.initial(6), ended([0, 1, 2, 3], loss=[1.0, 3.0, np.nan, 2.0]), 0.0)
    there = roster(6)
    assert set(part.pick(state, there, 3, Draw(0, 0)).clients.tolist()) == {2, 4, 5}
    assert part.pick(state, there, 5, Draw(0, 0)).clients.tolist()[3:] == [1, 3]
    assert part.learn(state, ended([0]), 0.0) is state, "tasks without statistics say nothing"


@pytest.mark.parametrize("part", [power_of_choice(), power_of_choice(9, losses="stale"), power_of_choice(20, probe_seconds=5.0)])
def test_it_is_a_selector_as_others_are(part):
    check_selector(part)


def test_a_run_pays_for_looking_and_asks_the_probed():
    spec = {
        "task": "digits_logreg",
        "choose": {"use": "power_of_choice", "d": 8, "probe_seconds": 30.0},
        "world": {"clients": 20, "devices": "spread", "model_bytes": 1e6, "data": "dirichlet"},
        "pace": {"cohort": 3},
        "stop": {"rounds": 3},
    }
    setup, events = assemble(resolve(spec)), []
    with open_executor(setup) as execute:
        simulate(setup.plan, setup.world, execute, watch=events.extend)
    probes, sends = only(Probed, events), only(TasksSent, events)
    assert len(probes) == len(sends) == 3
    for looked, sent in zip(probes, sends, strict=True):
        assert len(looked.clients) == 8 and looked.spent["bytes_down"].sum() > 0
        told = dict(zip(looked.clients.tolist(), looked.values.tolist(), strict=True))
        assert min(told[c] for c in sent.clients.tolist()) >= np.sort(looked.values)[-3]


@pytest.mark.parametrize(
    "pace", [{"use": "buffered", "k": 1, "concurrency": 6}, {"use": "semi_async", "period": 10.0, "concurrency": 6}]
)
def test_models_that_are_made_while_a_probe_is_out_do_not_turn_the_answers_into_nothing(pace):
    spec = {
        "task": "digits_logreg",
        "choose": {"use": "power_of_choice", "d": 8},
        "world": {"clients": 40, "devices": "spread", "model_bytes": 1e7, "data": "dirichlet"},
        "pace": pace,
        "stop": {"rounds": 20},
    }
    setup, events = assemble(resolve(spec)), []
    with open_executor(setup) as execute:
        simulate(setup.plan, setup.world, execute, watch=events.extend)
    marks = [e for e in events if isinstance(e, CandidatesSeen | ModelCommitted | Probed | TasksSent)]
    between = sum(isinstance(a, ModelCommitted) and isinstance(b, Probed) for a, b in pairwise(marks))
    assert between > 2, "no model was made while a probe was out"
    for looked, sent in ((a, b) for a, b in pairwise(marks) if isinstance(a, Probed) and isinstance(b, TasksSent)):
        told = dict(zip(looked.clients.tolist(), looked.values.tolist(), strict=True))
        asked = sent.clients.tolist()
        assert set(asked) <= set(told) and min(told[c] for c in asked) >= np.sort(looked.values)[-len(asked)]
