"""Settings of single clients and kinds of device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedfleet as package
from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.assemble.algorithm import combinations, table_for
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm
from fedfleet.core.registry import names
from fedfleet.measure.summary import summary
from fedfleet.simulation.simulator import simulate
from tests.portions import in_soak
from tests.testing.registered import fitting_task

pytestmark = pytest.mark.slow


def test_overrides_reach_the_clients_they_name():
    kinds = {"devices": {"use": "spread"}}
    spec = resolve(
        {
            "world": kinds,
            "override": [{"clients": [3], "algorithm": {"epochs": 9}}, {"kinds": ["slow"], "algorithm": {"epochs": 4}}],
        }
    )
    setup = assemble(spec)
    slow = [i for i, kind in enumerate(setup.world.devices.kinds) if kind == "slow"]
    epochs = [setup.plan.algorithm.local(c, {}).batches.epochs for c in range(100)]
    assert len(slow) > 20
    assert all(epochs[c] == 4 for c in slow)
    assert epochs[3] == (4 if 3 in slow else 9)
    assert sum(e == 2 for e in epochs) == 100 - len({3, *slow})


def test_without_overrides_the_algorithm_is_the_same_for_all():
    algorithm = assemble(resolve({"algorithm": {"epochs": 3}})).plan.algorithm
    assert {algorithm.local(c, {}).batches.epochs for c in range(100)} == {3}


def passes(*overrides, **world):
    spec = resolve({"world": {"clients": 5, **world}, "pace": {"cohort": 2}, "override": list(overrides)})
    algorithm = assemble(spec).plan.algorithm
    return [algorithm.local(c, {}) for c in range(5)]


def test_overlapping_overrides_add_up_and_the_later_one_counts_where_they_disagree():
    got = passes(
        {"clients": [0, 1, 2], "algorithm": {"epochs": 1}},
        {"clients": [2, 1, 3], "algorithm": {"lr": 0.01}},
        {"clients": [2], "algorithm": {"epochs": 7, "batch": 3}},
    )
    assert [(p.batches.epochs, p.rate, p.batches.size) for p in got] == [
        (1, 0.1, 16), (1, 0.01, 16), (7, 0.01, 3), (2, 0.01, 16), (2, 0.1, 16),
    ]  # fmt: skip


def test_settings_that_do_not_go_together_are_refused_with_both_names():
    with pytest.raises(BadInput, match=r"override\[0\] and override\[1\].algorithm: momentum belongs to sgd"):
        passes({"clients": [0, 1], "algorithm": {"optimiser": "adam"}}, {"clients": [1], "algorithm": {"momentum": 0.5}})


@given(st.lists(st.lists(st.integers(0, 6), max_size=5), max_size=5))
def test_each_client_has_exactly_the_tables_that_name_it(members):
    result, which = combinations([np.unique(np.array(m, np.int64)) for m in members], 7)
    for client in range(7):
        assert result[which[client]] == tuple(i for i, m in enumerate(members) if client in m)


def wrapped(algorithm: Algorithm, *, note: str = "") -> Algorithm:
    """An algorithm around another one, as third parties may register."""
    return algorithm


def test_settings_of_an_algorithm_inside_another_can_be_overridden():
    package.register("algorithms", "wrapped", wrapped)
    spec = {"algorithm": {"use": "wrapped", "algorithm": {"use": "fedprox", "lr": 0.3}}, "pace": {"cohort": 2}}
    inside = {"clients": [1], "algorithm": {"algorithm": {"lr": 0.05}}}
    algorithm = assemble(resolve({**spec, "override": [inside]})).plan.algorithm
    assert [algorithm.local(c, {}).rate for c in range(3)] == [0.3, 0.05, 0.3]
    for changes, says in (
        ({"algorithm": {"use": "fedavg"}}, r"override\[0\].algorithm.algorithm.use: .* not the algorithm itself"),
        ({"algorithm": {"lrr": 1}}, "did you mean 'lr'"),
        ({"algorithm": 3}, "is not a table"),
    ):
        with pytest.raises(BadInput, match=says):
            resolve({**spec, "override": [{"clients": [1], "algorithm": changes}]})


def test_codecs_of_some_clients():
    spec = {"algorithm": {"up": ["int8"]}, "world": {"clients": 5}, "pace": {"cohort": 2}}
    more = [
        {"clients": [1], "algorithm": {"up": ["int4", "gzip"], "feedback": True}},
        {"clients": [2], "algorithm": {"up": []}},
    ]
    algorithm = assemble(resolve({**spec, "override": more})).plan.algorithm
    result = [algorithm.local(c, {}) for c in range(4)]
    assert [p.up and p.up.name for p in result] == ["int8", "int4+gzip", None, "int8"]
    assert [p.feedback for p in result] == [False, True, False, False] and algorithm.priced_by_value
    wrong = [{"clients": [1], "algorithm": {"up": ["gzip", "int8"]}}]
    with pytest.raises(BadInput, match=r"override\[0\].algorithm: up: 'gzip' cannot come before 'int8'"):
        assemble(resolve({**spec, "override": wrong}))


# ---- what cannot differ by client -----------------------------------------------------------------------------------

ONE_FOR_ALL = {
    "a limit of the fold": ("fedavg", {"bound": 5.0}, r"override\[0\].algorithm.bound: only the server uses this setting"),
    "one of several": (
        "fedavg",
        {"lr": 0.3, "bound": 5.0},
        r"override\[0\].algorithm.bound: only the server uses this setting",
    ),
    "leaves kept at home": (
        "fedavg",
        {"keep": "3.*"},
        r"would not send the same leaves as the rest of the fleet \(leaf '3.bias' is missing\)",
    ),
    "another head": ("fedper", {"head": "1.*"}, "would not send the same leaves as the rest of the fleet"),
    "a pattern of nothing": (
        "fedper",
        {"head": "9.*"},
        r"override\[0\].algorithm: algorithm.head = '9.\*' matches no leaf",
    ),
}


@pytest.mark.parametrize("name", ONE_FOR_ALL)
def test_what_holds_for_all_clients_is_refused_for_some(name):
    use, changes, says = ONE_FOR_ALL[name]
    table = {"task": "digits_mlp", "algorithm": use, "world": {"clients": 5}, "pace": {"cohort": 2}}
    with pytest.raises(BadInput, match=says):
        assemble(resolve({**table, "override": [{"clients": [1], "algorithm": changes}]}))


def test_a_setting_that_says_what_holds_anyway_is_let_pass():
    assert passes({"clients": [1], "algorithm": {"bound": 2.0**10, "lr": 0.2}})[1].rate == 0.2


# ---- every algorithm ------------------------------------------------------------------------------------------------


def mixed_run(use, execute, overrides):
    """A short run of six clients, and its assembled parts."""
    world = {"clients": 6, "devices": "spread", "data": {"use": "dirichlet", "alpha": 1.0}}
    table = {"seed": 2, "task": fitting_task(use), "algorithm": {"use": use, "epochs": 1, "lr": 0.1}, "world": world}
    setup = assemble(
        resolve({**table, "pace": {"cohort": 6}, "stop": {"rounds": 2}, "run": {"execute": execute}, "override": overrides})
    )
    events = []
    with open_executor(setup) as execute:
        end = simulate(setup.plan, setup.world, execute, watch=events.extend)
    return setup, end, events


# Both kinds of prompts train the same backbone in the same way.
@pytest.mark.parametrize("use", [in_soak(n) if n == "biasprompt" else n for n in names("algorithms") if n != "centralized"])
def test_settings_of_single_clients_and_of_kinds_go_with_every_algorithm(use):
    overrides = [
        {"clients": [0, 1], "algorithm": {"lr": 0.01}},
        {"clients": [1, 2], "algorithm": {"epochs": 3}},
        {"kinds": ["slow"], "algorithm": {"batch": 8, "fine_tune": 1}},
    ]
    if assemble(resolve({"task": fitting_task(use), "algorithm": use})).plan.algorithm.tune is not None:
        overrides[2]["algorithm"] = {"batch": 8, "tune_epochs": 1}
    setup, here, events = mixed_run(use, "inline", overrides)
    result = [list(setup.plan.algorithm.local(c, {}).stages())[-1] for c in range(6)]
    assert [p.rate for p in result[:3]] == [0.01, 0.01, 0.1] and [p.batches.epochs for p in result[:3]] == [1, 3, 3]
    slow = [setup.world.devices.kinds[c] == "slow" for c in range(6)]
    assert any(slow) and [p.batches.size == 8 for p in result] == slow
    tuned = [None if t is None else t.batches.epochs for t in map(setup.plan.algorithm.tune, range(6))]
    assert [t == 1 for t in tuned] == slow
    assert summary(events)["commits"] == 2
    _, there, _ = mixed_run(use, "stacked", overrides)
    _, plain, _ = mixed_run(use, "inline", [])
    params = here.state.server.params
    for leaf, value in params.items():
        np.testing.assert_allclose(there.state.server.params[leaf], value, atol=1e-3, rtol=1e-3)
    moved = {n for n, v in params.items() if not np.array_equal(v, setup.plan.params[n])}
    assert all(not np.array_equal(params[n], plain.state.server.params[n]) for n in moved)


def test_the_table_of_one_client_is_what_its_part_was_built_from():
    first, second = {"clients": [0, 1], "algorithm": {"epochs": 3}}, {"kinds": ["slow"], "algorithm": {"lr": 0.01}}
    spec = resolve({"world": {"devices": {"use": "spread"}}, "override": [first, second]})
    setup = assemble(spec)
    for client, kind in enumerate(setup.world.devices.kinds[:10]):
        table, half = table_for(spec, client, kind), setup.plan.algorithm.local(client, {})
        assert (table["epochs"], table["lr"]) == (half.batches.epochs, half.rate)
        assert (table["epochs"], table["lr"]) == (3 if client < 2 else 2, 0.01 if kind == "slow" else 0.1)
