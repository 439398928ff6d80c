"""HOW DATA MOVES inside a user: which samples each device hands to which, to be quick and even (ShuffleFL, section 4)."""

from fedfleet.shuffle.plans import identity, proportional
from fedfleet.shuffle.problem import PlanScore, Problem, problem_from, score
from fedfleet.shuffle.relaxation import Relaxed, solve_relaxed
from fedfleet.shuffle.slsqp import Reference, solve_slsqp
from fedfleet.shuffle.solve import Solution, solve, solve_many

__all__ = [
    "PlanScore",
    "Problem",
    "Reference",
    "Relaxed",
    "Solution",
    "identity",
    "problem_from",
    "proportional",
    "score",
    "solve",
    "solve_many",
    "solve_relaxed",
    "solve_slsqp",
]
