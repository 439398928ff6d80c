"""Cuts are lower bounds whatever multipliers they are made from."""

import numpy as np

from fedfleet.shuffle.bound import cut_values, cuts_of
from fedfleet.shuffle.central_path import follow_path
from fedfleet.shuffle.problem_batch import relaxed_problems
from fedfleet.shuffle.relaxation import solve_relaxed
from tests.shuffle.users import user


def test_a_cut_holds_wherever_it_is_evaluated():
    """Any multipliers give a bound: here of a path stopped far too early."""
    problem = user(11, 5, 3, 80)
    stack = relaxed_problems([problem])
    rough = cuts_of(stack, follow_path(stack, gap=0.3))
    t = np.linspace(stack.least[0], 0.69, 30)
    bound = (cut_values(rough, t)[0] + stack.alpha[0] * t).min() * stack.unit[0]
    assert bound <= solve_relaxed(problem).objective
    values = cut_values(rough, t)[0]
    assert (values[1:-1] >= (values[:-2] + values[2:]) / 2 - 1e-12).all()  # concave
