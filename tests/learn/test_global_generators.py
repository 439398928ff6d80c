"""Foreign code draws from global generators: the same numbers each time, and nobody else notices."""

import random

import numpy as np
import pytest
import torch

from fedfleet.learn.global_generators import generator_states, restore_generators, seeded_generators

DRAWS = {"numpy": lambda: np.random.random(3).tolist(), "random": random.random, "torch": lambda: torch.rand(3).tolist()}


@pytest.mark.parametrize("name", DRAWS)
def test_equal_seeds_give_equal_draws_and_others_others(name):
    drawn = []
    for seed in (3, 3, 4, 2**31 + 5):
        with seeded_generators(seed):
            drawn.append(DRAWS[name]())
    assert drawn[0] == drawn[1]
    assert len({str(d) for d in drawn}) == 3


def test_the_generators_go_on_as_if_nothing_had_been_drawn():
    before = generator_states()
    with seeded_generators(1):
        first = [draw() for draw in DRAWS.values()]
    assert generator_states() == before
    expected = [draw() for draw in DRAWS.values()]
    restore_generators(before)
    assert [draw() for draw in DRAWS.values()] == expected != first


def test_they_come_back_after_an_error():
    before = generator_states()

    def fail():
        with seeded_generators(1):
            random.random()
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert generator_states() == before
