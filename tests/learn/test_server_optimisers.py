"""Server rules: what they come down to in the limits that define them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.records import ServerState
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.server_optimisers import with_adagrad, with_adam, with_momentum, with_rule, with_yogi
from fedfleet.learn.zoo import fedadagrad, fedadam, fedavgm, fedyogi, scaffold
from tests.learn.digits import FORMS, models, trained
from tests.learn.facts import FACTS

pytestmark = pytest.mark.slow

ADAPTIVE = {"fedadagrad": with_adagrad, "fedadam": with_adam, "fedyogi": with_yogi}
changes = hnp.arrays(np.float32, (5,), elements=st.floats(-2, 2, width=32))


def stepped(rule, *updates, start=0.0):
    """The server after these mean updates, from a model of equal weights."""
    server = ServerState({"w": np.full(5, start, np.float32)})
    for update in updates:
        server = rule.apply(server, Aggregate({"w": update}, 1.0, 1))
    return server


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"weigh": "one", "optimiser": "adam", "lr": 0.01}])
@pytest.mark.parametrize("execute", FORMS)
def test_fedavgm_without_momentum_at_rate_one_is_fedavg_bit_for_bit(options, execute):
    plain = fedavgm(server_momentum=0.0, server_lr=1.0, **options)
    assert models(trained(plain, rounds=3, execute=execute)[0]) == models(trained(fedavg(**options), rounds=3, execute=execute)[0])


@given(st.lists(changes, min_size=1, max_size=4), st.floats(0, 1), st.floats(0.01, 2))
def test_fedavgm_sums_means_that_fade(updates, beta, rate):
    result = stepped(with_momentum(fedavg(), server_momentum=beta, server_lr=rate), *updates)
    velocity, where = np.zeros(5), np.zeros(5)
    for update in updates:
        velocity = beta * velocity + update
        where += rate * velocity
    assert np.allclose(result.params["w"], where, atol=1e-4)
    assert result.params["w"].dtype == result.extra["velocity/w"].dtype == np.float32


@pytest.mark.parametrize("name", ADAPTIVE)
@given(updates=st.lists(changes, min_size=1, max_size=6), beta1=st.floats(0, 1))
def test_second_moments_are_never_negative(name, updates, beta1):
    result = stepped(ADAPTIVE[name](fedavg(), beta1=beta1), *updates)
    assert (result.extra["second/w"] >= 0).all()
    assert np.isfinite(result.params["w"]).all()


@given(changes)
def test_yogi_is_adam_where_the_second_moment_is_the_square(update):
    server = ServerState({"w": np.zeros(5, np.float32)}, {"second/w": update * update})
    result = [rule(fedavg()).apply(server, Aggregate({"w": update}, 1.0, 1)) for rule in (with_adam, with_yogi)]
    assert np.allclose(result[0].extra["second/w"], result[1].extra["second/w"], rtol=1e-6)
    assert np.allclose(result[0].params["w"], result[1].params["w"], rtol=1e-5)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_with_a_tau_beyond_all_updates_they_are_fedavg_in_the_limit(name):
    # v begins with tau^2 and then hardly moves, so that the divisor is 2 tau.
    slow = {} if name == "fedadagrad" else {"beta2": 1.0}
    rule = ADAPTIVE[name](fedavg(), beta1=0.0, tau=1e6, server_lr=2e6, **slow)
    updates = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    assert np.allclose(stepped(rule, *updates).params["w"], updates.sum(0), rtol=1e-5)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_without_tau_the_scale_of_updates_does_not_matter(name):
    rule = ADAPTIVE[name](fedavg(), tau=1e-12)
    updates = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    near, far = stepped(rule, *updates), stepped(rule, *(updates * np.float32(64)))
    assert np.allclose(near.params["w"], far.params["w"], rtol=1e-4)


@pytest.mark.parametrize("build", [fedadagrad, fedadam, fedyogi, fedavgm])
def test_a_rule_moves_the_model_and_remembers_beside_it(build):
    _, end = trained(build(lr=0.5), rounds=2, cohort=8)
    server = end.state.server
    assert server.extra.keys() >= {f"{'velocity' if build is fedavgm else 'second'}/{n}" for n in server.params}
    assert all(v.dtype == np.float32 for v in server.extra.values())


def test_rules_wrap_what_is_inside():
    """Around SCAFFOLD the rule sees the model's mean, and what SCAFFOLD keeps stays."""
    inner = scaffold(facts=FACTS)
    both = with_rule(inner, lambda server, mean: ({"seen": np.array(sorted(mean))}, mean))
    server = both.init({"w": np.zeros(2, np.float32)})
    mean = {"w": np.ones(2, np.float32), "control/w": np.ones(2, np.float32)}
    after = both.apply(server, Aggregate(mean, 4.0, 4))
    assert after.params["w"].tolist() == [1.0, 1.0]
    assert set(after.extra) == {"seen", "control/w"}
