"""The matrix of passes covers what a client's half may ask for, and can be made again anywhere."""

from collections import Counter

import numpy as np
import pytest

from fedfleet.core.passes import LocalPass
from fedfleet.core.trees import content_hash
from fedfleet.executors.inline import inline
from fedfleet.testing.passes import AXES, CLIENTS, SINGLES, cases, memory_of, pass_of
from tests.testing.models import TASKS

TASK = TASKS["dense"]()
CASES = list(cases(TASK))
BY_NAME = {case.name: case for case in CASES}
NAMES = list(TASK.init(0))


def passes(name):
    return [job.local for job in BY_NAME[name].jobs]


def test_every_cell_has_a_name_of_its_own_and_a_small_cohort():
    assert len(BY_NAME) == len(CASES) == int(np.prod([len(v) for v in AXES.values()])) + len(SINGLES)
    assert {len(case.jobs) for case in CASES} == {CLIENTS}
    assert all([job.client for job in case.jobs] == list(range(CLIENTS)) for case in CASES)


def test_every_choice_is_in_half_of_the_cells_or_a_third():
    shown = Counter(word for case in CASES for word in case.name.split("+"))
    crossed = len(CASES) - len(SINGLES)
    for axis, values in AXES.items():
        if axis == "terms":
            assert [shown[f"terms={v}"] for v in values[1:]] == [crossed // 3] * 2
        else:
            assert shown[axis] == crossed // 2, axis


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("plain", lambda p: not (p.terms or p.slots or p.keep or p.train or p.before or p.after)),
        ("terms=pull", lambda p: p.terms),
        ("terms=drift", lambda p: p.terms),
        ("memory", lambda p: p.slots and p.after),
        ("keep", lambda p: [n for n in NAMES if p.keep(n)] == NAMES[-2:]),
        ("frozen", lambda p: [n for n in NAMES if not p.train(n)] == NAMES[:2]),
        ("hooks", lambda p: p.before and len(p.after) == 2),
        ("sends", lambda p: p.sent_names(dict.fromkeys(NAMES)) == NAMES[-2:]),
        ("then", lambda p: p.then is not None and p.train is not None),
        ("second", lambda p: p.second is not None and p.objective is not None),
        ("objective", lambda p: p.objective is not None and p.second is None),
        ("plain_weight", lambda p: p.weigh == "one"),
        ("momentum", lambda p: p.optimiser.linear.momentum > 0),
        ("adam", lambda p: p.optimiser.linear is None),
    ],
)
def test_a_cell_asks_for_what_its_name_says(name, asks):
    assert all(asks(local) for local in passes(name))


def test_clients_of_a_cell_train_together_and_rates_do_not_part_them():
    for name in ("plain", "memory+keep+frozen+hooks", "rates", "then"):
        assert len(set(passes(name))) == 1
    assert len({local.rate for local in passes("rates")}) == CLIENTS


def test_opaque_ragged_unlike_and_few_steps_are_about_single_clients():
    assert [isinstance(local, LocalPass) for local in passes("opaque")] == [True, False, True, True]
    assert len({len(job.rows) for job in BY_NAME["ragged"].jobs}) == CLIENTS
    assert len({len(job.rows) for job in BY_NAME["plain"].jobs}) == 1
    offers = [id(job.offer) for job in BY_NAME["unlike"].jobs]
    assert (len(set(offers)), offers[0], offers[1]) == (2, offers[3], offers[3])
    assert [job.steps for job in BY_NAME["few_steps"].jobs] == [0, 0, 2, 0]


@pytest.mark.parametrize("number", [0, 7, 100, len(CASES) - 4, len(CASES) - 1])
def test_a_worker_elsewhere_makes_the_same_pass_from_numbers(number):
    for client, job in enumerate(CASES[number].jobs):
        assert pass_of(number, client, NAMES) == job.local
        assert job.settings == {"case": float(number)}


def test_some_clients_remember_and_others_are_new():
    params = TASK.init(0)
    assert [bool(memory_of(c, params)) for c in range(4)] == [False, True, False, True]
    one, again = memory_of(1, params), memory_of(1, params)
    assert all(content_hash(one[slot]) == content_hash(again[slot]) for slot in one)
    assert content_hash(one["control"]) != content_hash(memory_of(3, params)["control"])


def test_hooks_before_and_after_do_their_work():
    (plain, *_), (hooked, *_) = (list(inline(TASK).train(BY_NAME[n].jobs)) for n in ("plain", "hooks"))
    assert hooked.weight == plain.weight / 2
    assert hooked.memory["counter"]["n"].tolist() == [1.0]
    assert any(not np.allclose(v, hooked.update[n]) for n, v in plain.update.items())
