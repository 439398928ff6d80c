"""Terms of the local objective: FedProx, and terms in every stage of a pass."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.passes import Carry, ConstantTerm
from fedfleet.learn.composition import with_pass
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.objective_terms import proximal, with_term
from fedfleet.learn.zoo import fedprox
from fedfleet.testing.toys import consensus
from tests.learn.digits import FORMS, models, task, trained


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"optimiser": "adamw", "lr": 0.01}])
@pytest.mark.parametrize("execute", FORMS)
def test_fedprox_without_a_pull_is_fedavg_bit_for_bit(options, execute):
    plain = trained(fedavg(**options), execute=execute)[0]
    assert models(trained(fedprox(mu=0.0, **options), execute=execute)[0]) == models(plain)


def test_fedprox_with_a_pull_stays_nearer_to_what_was_offered():
    ends = {mu: trained(fedprox(mu=mu), rounds=1)[1].state.server.params for mu in (0.0, 1.0)}
    start = task().init(3)
    moved = {mu: sum(float(np.square(p - start[n]).sum()) for n, p in params.items()) for mu, params in ends.items()}
    assert moved[1.0] < 0.9 * moved[0.0]


def test_the_pull_is_the_gradient_of_the_squared_norm():
    term = fedprox(mu=0.5).local(0, {}).terms[0]
    assert term({"w": np.array([3.0])}, {"w": np.array([1.0])}, {})["w"].tolist() == [1.0]


@given(mu=st.floats(0, 10), w=st.floats(-5, 5), start=st.floats(-5, 5))
def test_the_pull_is_the_slope_of_half_mu_times_the_squared_distance(mu, w, start):
    term, step = proximal(fedavg(), mu=mu).local(0, {}).terms[0], 1e-4
    (up, down) = (mu / 2 * (at - start) ** 2 for at in (w + step, w - step))
    assert term({"w": w}, {"w": start}, {})["w"] == pytest.approx((up - down) / (2 * step), abs=1e-6)


def test_a_term_needs_a_pass_that_can_be_read():
    with pytest.raises(BadInput, match="consensus has an opaque local pass"):
        proximal(consensus()).local(0, {})


def test_a_term_comes_after_those_before_and_into_every_stage():
    first, second = ConstantTerm(lambda start, carried: {}), ConstantTerm(lambda start, carried: {})
    inner = fedavg().local(0, {})
    staged = replace(fedavg(), local=lambda client, settings: replace(inner, terms=(first,), then=inner))
    result = with_term(staged, second).local(0, {})
    assert [stage.terms for stage in result.stages()] == [(first, second), (second,)]


def test_equal_settings_give_equal_passes_so_that_clients_train_together():
    one = proximal(fedavg(), mu=0.3)
    assert one.local(0, {}) == one.local(5, {}) == proximal(fedavg(), mu=0.3).local(1, {})
    assert one.local(0, {}) != proximal(fedavg(), mu=0.4).local(0, {})


def test_a_pass_is_changed_for_each_client_as_the_algorithm_gives_it():
    passes = [fedavg(epochs=e).local(0, {}) for e in (1, 2)]
    mixed = replace(fedavg(), local=lambda client, settings: passes[client])
    changed = with_pass(mixed, "", lambda inner: replace(inner, weigh="one"))
    assert [changed.local(c, {}).batches.epochs for c in (0, 1)] == [1, 2]
    assert {changed.local(c, {}).weigh for c in (0, 1)} == {"one"}


def test_a_drift_speaks_only_of_what_is_trained():
    term = ConstantTerm(lambda start, carried: carried.given)
    assert term({"a": 1.0}, {}, Carry({}, {"a": 2.0, "frozen": 3.0})) == {"a": 2.0}
