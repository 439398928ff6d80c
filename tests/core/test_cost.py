"""Eq. (3) of FLHetBench, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.cost import cost_of, epochs_of, scale_cost, settings_at, stage_seconds, steps_of
from fedfleet.core.parts import Offer
from fedfleet.core.records import Assignments, Cost, ServerState, whole_work
from fedfleet.core.stages import total
from fedfleet.learn.baselines import share_nothing
from fedfleet.learn.composition import with_pass
from fedfleet.learn.features import with_variants
from fedfleet.learn.folds import mean
from fedfleet.learn.zoo import fedavg, fedprox
from fedfleet.testing.toys import consensus


def seconds_of(*args, **kwargs):
    return total(stage_seconds(*args, **kwargs))


def test_transfer_training_and_latency_add_up():
    cost = Cost(np.array([10.0, 0.0]), np.array([1e6, 1e6]), np.array([5e5, 0.0]))
    result = seconds_of(cost, np.array([8000.0, 1000.0]), np.array([4000.0, 1.0]), np.array([0.1, 9.0]), np.array([0.25, 0.0]))
    # 8e6 bit at 8 Mbit/s, 4e6 bit at 4 Mbit/s, three passes over ten samples of 0.1 s, and the latency.
    assert np.allclose(result, [1.0 + 1.0 + 3.0 + 0.25, 8.0], rtol=1e-15)
    assert result.dtype == np.float64


def test_halving_all_speeds_doubles_the_seconds_exactly():
    cost = Cost(np.array([7.0]), np.array([123457.0]), np.array([9876.0]))
    speeds = np.array([3333.3]), np.array([777.7]), np.array([0.0123]), np.array([0.017])
    slower = speeds[0] / 2, speeds[1] / 2, speeds[2] * 2, speeds[3] * 2
    assert seconds_of(cost, *slower) == 2 * seconds_of(cost, *speeds)


def test_every_batch_costs_its_own_time_and_is_not_tripled():
    size, speed = np.array([1e6, 1e6]), np.array([8000.0, 8000.0])
    alone = Cost(np.array([10.0, 10.0]), size, size)
    batched = Cost(np.array([10.0, 10.0]), size, size, np.array([4.0, 0.0]))
    others = speed, speed, np.array([0.1, 0.1]), np.zeros(2)
    without = seconds_of(alone, *others)
    assert (seconds_of(batched, *others, seconds_per_batch=0.5) - without).tolist() == [2.0, 0.0]
    assert np.array_equal(seconds_of(batched, *others), without), "devices that say nothing about batches charge none"
    assert np.array_equal(seconds_of(alone, *others, seconds_per_batch=0.5), without), "uncounted batches are free"
    each = seconds_of(batched, *others, seconds_per_batch=np.array([0.25, 9.0]))
    assert (each - without).tolist() == [1.0, 0.0]


def test_a_declared_model_size_scales_bytes_and_nothing_else():
    cost = Cost(np.array([7.0]), np.array([100.0]), np.array([10.0]), np.array([3.0]))
    big = scale_cost(cost, 2.5)
    assert (big.samples[0], big.bytes_down[0], big.bytes_up[0], big.batches[0]) == (7.0, 250.0, 25.0, 3.0)
    assert scale_cost(cost, 1.0) is cost
    assert scale_cost(Cost(*(np.ones(1),) * 3), 2.0).batches is None


def test_a_flat_charge_counts_neither_samples_nor_batches():
    cost = Cost(np.array([10.0, 70.0]), np.array([1e6, 1e6]), np.array([5e5, 0.0]), np.array([4.0, 9.0]))
    flat = scale_cost(cost, 2.0, charge=1)
    assert flat.samples.tolist() == [1.0, 1.0] and flat.batches is None
    assert flat.bytes_down.tolist() == [2e6, 2e6] and flat.bytes_up.tolist() == [1e6, 0.0]
    assert scale_cost(cost, 1.0) is cost, "what is trained is charged without it"


SERVER = ServerState({"body": np.zeros(10, np.float32), "head": np.zeros(5, np.float32)})
THREE = whole_work(np.arange(3))
SIZES = np.array([10, 20, 33])


def is_head(name):
    return name == "head"


def test_a_second_pass_is_charged():
    once, then = fedavg(epochs=2, batch=10), fedavg(epochs=3, batch=5).local(0, {})
    twice = with_pass(once, "", lambda p: replace(p, then=then))
    a, b = (cost_of(alg, SERVER, THREE, SIZES) for alg in (once, twice))
    assert a.samples.tolist() == [20, 40, 66]
    assert b.samples.tolist() == [50, 100, 165]
    assert a.batches.tolist() == [2, 4, 8]
    assert b.batches.tolist() == [2 + 6, 4 + 12, 8 + 21]


def test_what_stays_home_goes_neither_down_nor_up():
    base = fedavg()
    some = replace(with_pass(base, "", lambda p: replace(p, keep=is_head)), fold=mean(travels=lambda n: not is_head(n)))
    cost = cost_of(some, SERVER, THREE, SIZES)
    assert cost.bytes_down.tolist() == cost.bytes_up.tolist() == [40.0] * 3
    alone = cost_of(share_nothing(base), SERVER, THREE, SIZES)
    assert not alone.bytes_down.any()
    assert not alone.bytes_up.any()
    assert alone.samples.all()


def test_what_else_is_offered_is_charged():
    control = {"c": np.zeros(7, np.float32)}
    more = replace(fedavg(), offer=lambda server, client, settings: Offer(server.params, control if client else {}))
    assert cost_of(more, SERVER, THREE, SIZES).bytes_down.tolist() == [60.0, 88.0, 88.0]


def test_partial_work_and_own_settings_are_charged_client_by_client():
    asked = Assignments(np.arange(3), np.array([0, 3, 0]), np.array([1.0, 1.0, 0.5]), {"portion": np.array([0.1, 0.2, 0.3])})
    cost = cost_of(fedavg(epochs=1, batch=8), SERVER, asked, SIZES)
    assert cost.samples.tolist() == [10.0, 20.0, 17.0]
    assert cost.batches.tolist() == [2.0, 3.0, 3.0]
    assert settings_at(asked, 1) == {"portion": 0.2}
    assert settings_at(THREE, 1) == {}


def test_variants_cost_what_they_train():
    mixed = with_variants(fedavg(epochs=1), ((np.array([2]), fedavg(epochs=4)),), 3)
    assert cost_of(mixed, SERVER, THREE, SIZES).samples.tolist() == [10.0, 20.0, 132.0]
    dear = replace(fedavg(), cost=lambda server, asked, samples: Cost(*(np.full(len(samples), 9.0) for _ in range(3))))
    mixed = with_variants(fedavg(epochs=1), ((np.array([1]), dear),), 3)
    cost = cost_of(mixed, SERVER, THREE, SIZES)
    assert cost.samples.tolist() == [10.0, 9.0, 33.0]
    assert cost.batches.tolist() == [1.0, 0.0, 3.0]


def test_an_algorithms_own_price_wins():
    own = replace(fedavg(), cost=lambda server, asked, samples: Cost(samples * 1.0, samples * 2.0, samples * 3.0))
    assert cost_of(own, SERVER, THREE, SIZES).bytes_up.tolist() == [30.0, 60.0, 99.0]


@pytest.mark.parametrize(
    ("algorithm", "steps", "epochs"),
    [
        (fedavg(epochs=2, batch=10), [2, 4, 8], 2.0),
        (fedprox(epochs=3, batch=100), [3, 3, 3], 3.0),
        (fedavg(steps=7, batch=10), [7, 7, 7], (70 + 70 + 66 + 10 * 3 - 3 * 10 + 10 * 3 - 30) / 63),
        (consensus(), [np.nan] * 3, 1.0),
    ],
    ids=["epochs", "large batches", "steps", "opaque"],
)
def test_steps_and_epochs_follow_from_the_passes(algorithm, steps, epochs):
    assert np.array_equal(steps_of(algorithm, np.arange(3), SIZES), steps, equal_nan=True)
    if algorithm.name == "fedavg" and np.isfinite(steps[0]) and steps[0] == 7:
        epochs = sum(cost_of(algorithm, SERVER, THREE, SIZES).samples) / SIZES.sum()
        assert epochs != 2.0, "steps, and not the epochs that they replace"
    assert epochs_of(algorithm, SIZES) == pytest.approx(epochs)


def test_of_an_offer_in_a_code_what_travels_is_charged_even_if_the_model_is_the_same():
    sizes = [None, 7.0, 9.0]
    coded = replace(fedavg(), offer=lambda server, client, settings: Offer(server.params, {}, sizes[client]))
    assert cost_of(coded, SERVER, THREE, SIZES).bytes_down.tolist() == [60.0, 7.0, 9.0]
