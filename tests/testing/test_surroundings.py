"""Surroundings: other generators and clocks, wherever a part looks for them, and everything as before at the end."""

import datetime
import random
import time
from datetime import datetime as moment
from functools import partial
from time import perf_counter as stopwatch

import numpy as np
import pytest
import torch

from fedfleet.core.parts import Selector
from fedfleet.learn.global_generators import generator_states
from fedfleet.testing.surroundings import Surroundings, turns

READS = {
    "time.time": lambda: time.time() // 60,
    "time.time_ns": lambda: time.time_ns() // 60_000_000_000,
    "time.monotonic": lambda: time.monotonic() // 60,
    "a clock by a name of its own": lambda: stopwatch() // 60,
    "time.localtime": lambda: time.localtime()[:5],
    "datetime.now": lambda: datetime.datetime.now().replace(second=0, microsecond=0),
    "a class by a name of its own": lambda: moment.now(datetime.UTC).replace(second=0, microsecond=0),
    "date.today": datetime.date.today,
    "numpy": lambda: np.random.random(),
    "random": lambda: random.random(),
    "torch": lambda: float(torch.rand(1)),
}


@pytest.mark.parametrize("name", READS)
def test_whatever_is_read_is_another_in_other_surroundings(name):
    def read():
        return datetime.date.today() if name == "date.today" else READS[name]()

    around = Surroundings(Selector("toy", partial(lambda f, *rest: f(), READS[name])))
    answers = []
    for number in (1, 2):
        with around(number):
            answers.append(read())
    assert answers[0] != answers[1]


def test_everything_is_as_before_at_the_end():
    before, clocks = generator_states(), (time.time, datetime.datetime, datetime.date, moment, stopwatch)

    def inside():
        with Surroundings(lambda: stopwatch())(1):
            np.random.random()
            assert time.time is not clocks[0]
            assert isinstance(moment(2020, 1, 1), datetime.datetime)
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        inside()
    assert (time.time, datetime.datetime, datetime.date, moment, stopwatch) == clocks
    assert generator_states() == before


def test_a_function_that_uses_a_global_generator_is_named():
    with pytest.raises(AssertionError, match="apply must not use or seed the global generator of random"):  # noqa: SIM117
        with Surroundings()(1, leaves_generators="apply"):
            random.random()


def test_turns_go_through_all_items_in_few_groups():
    for n in (0, 1, 6, 7, 50):
        groups = list(turns(range(n)))
        assert len(groups) <= 7 and [i for _, group in groups for i in group] == list(range(n))
        assert len({number for number, _ in groups}) == len(groups)
