"""Eq. (3) of FLHetBench, by hand."""

import numpy as np

from fedfleet.core.cost import scale_cost, stage_seconds
from fedfleet.core.records import Cost
from fedfleet.core.stages import total


def seconds_of(*args, **kwargs):
    return total(stage_seconds(*args, **kwargs))


def test_transfer_training_and_latency_add_up():
    cost = Cost(np.array([10.0, 0.0]), np.array([1e6, 1e6]), np.array([5e5, 0.0]))
    result = seconds_of(
        cost, np.array([8000.0, 1000.0]), np.array([4000.0, 1.0]), np.array([0.1, 9.0]), np.array([0.25, 0.0])
    )
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
