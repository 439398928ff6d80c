"""FedNova: FedAvg where all walk equally far, and the right fixed point where they do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.fednova import walk_lengths
from fedfleet.learn.zoo import fednova, fedprox
from tests.learn.digits import task, trained
from tests.learn.quadratics import optimum, settled

# One step a round for the first, ten for the second.
FEW_AND_MANY = ((1, 0, 1), (1, 6, 10))


@pytest.mark.parametrize("options", [{}, {"momentum": 0.5}, {"weigh": "one", "weight_decay": 0.01}])
def test_with_equal_steps_it_is_fedavg(options):
    ends = [trained(m(steps=3, **options), rounds=3)[1].state.server.params for m in (fednova, fedavg)]
    for name in task().init(3):
        assert np.abs(ends[0][name] - ends[1][name]).max() < 1e-5 * np.abs(ends[1][name]).max()


def test_with_equal_steps_and_a_pull_it_is_fedprox():
    ends = [trained(m(steps=3, mu=0.5), rounds=2)[1].state.server.params for m in (fednova, fedprox)]
    assert all(np.allclose(ends[0][n], ends[1][n], atol=1e-6) for n in ends[0])


def test_two_parabolas_end_at_the_optimum_where_fedavg_favours_who_steps_more():
    result, plain = (settled(m(lr=0.05, epochs=1, batch=1, weigh="one"), FEW_AND_MANY, rounds=40)[0] for m in (fednova, fedavg))
    # By hand: k steps take a client 1 - 0.95^k of the way to its own minimum, 0 or 6.
    one, ten = 1 - 0.95, 1 - 0.95**10
    assert plain == pytest.approx(6 * ten / (one + ten), abs=1e-3)
    assert result == pytest.approx(6 * ten / (10 * one + ten), abs=1e-3)
    # What is left is that the tenth step is shorter than the first, and vanishes with the learning rate.
    assert abs(result - optimum(FEW_AND_MANY)) < 0.35 < 2.0 < abs(plain - optimum(FEW_AND_MANY))


@given(steps=st.integers(1, 40), rho=st.floats(0, 1), pull=st.floats(0, 0.9))
def test_how_far_a_pass_walks_is_the_sum_of_its_coefficients(steps, rho, pull):
    result = walk_lengths(np.array([float(steps)]), rho, np.array([pull]))[0]
    far, speed = 0.0, 0.0
    for _ in range(steps):
        speed = rho * speed + 1 - pull * far
        far += speed
    assert result == pytest.approx(far)


@given(steps=st.integers(1, 30), rho=st.floats(0, 0.95))
def test_momentum_is_counted_as_the_paper_does(steps, rho):
    by_hand = sum((1 - rho**j) / (1 - rho) for j in range(1, steps + 1))
    assert walk_lengths(np.array([float(steps)]), rho, np.zeros(1))[0] == pytest.approx(by_hand)


@given(steps=st.integers(1, 30), pull=st.floats(0, 1))
def test_the_pull_is_counted_as_the_paper_does(steps, pull):
    by_hand = sum((1 - pull) ** j for j in range(steps))
    assert walk_lengths(np.array([float(steps)]), 0.0, np.array([pull]))[0] == pytest.approx(by_hand, abs=1e-9)


def test_everyone_walks_its_own_way():
    assert walk_lengths(np.array([1.0, 4.0, 2.0]), 0.0, np.zeros(3)).tolist() == [1.0, 4.0, 2.0]


def test_adam_is_refused():
    with pytest.raises(BadInput, match=r'fednova needs one pass of SGD.*set optimiser = "sgd"'):
        fednova(optimiser="adam")


def test_equal_settings_give_equal_passes():
    assert fednova(mu=0.1, momentum=0.5).local(0, {}) == fednova(mu=0.1, momentum=0.5).local(3, {})
    assert fednova(momentum=0.5).local(0, {}) != fednova().local(0, {})
