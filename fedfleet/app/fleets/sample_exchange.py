"""One user's exchange of samples: reading it from a file, solving it, and the answer of `fedfleet shuffle`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.records import Ints
from fedfleet.shuffle import PlanScore, Problem, identity, problem_from, score, solve, solve_relaxed, solve_slsqp
from fedfleet.shuffle.plans import largest_remainder

_SHAPE = "one JSON object with counts, seconds_per_sample, up_bps, down_bps, bits_per_sample, epochs and alpha"


def read_problem(path: Path) -> Problem:
    """The problem in a JSON file."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}{nearest_file(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{path} is not JSON: {error}") from None
    except RecursionError:
        raise BadInput(f"{path} is nested too deeply; it must hold {_SHAPE}") from None
    if not isinstance(table, dict):
        raise BadInput(f"{path} must hold {_SHAPE}")
    return problem_from(table)


def solve_file(problem: Problem, *, solver: str, quick: bool, limit: float) -> dict[str, Any]:
    """The best plan that a solver finds, and its objective; bounds are null where they were not computed."""
    start = time.perf_counter()
    extra: dict[str, Any] = {}
    if solver == "exact":
        solution = solve(problem, quick=quick)
        plan, relaxed, bound = solution.plan, solution.relaxed, solution.bound
        extra = {"integer_bound": solution.integer_bound}
    else:
        local_optimum = solve_slsqp(problem, time_up=lambda best: time.perf_counter() - start > limit)
        # As in the paper: the fractions of a local optimum, rounded row by row.
        plan = largest_remainder(local_optimum.plan.transpose(1, 0, 2)[None], problem.counts.T[None])[0].transpose(1, 0, 2)
        relaxed, bound, extra = local_optimum.objective, None, {"message": local_optimum.message}
    seconds = time.perf_counter() - start
    if solver == "slsqp" and not quick:  # SLSQP proves nothing; our bound says how far its answer may be from the optimum
        bound = solve_relaxed(problem).bound
    return {**plan_answer(score(problem, plan), plan), "relaxed": relaxed, "bound": bound, "seconds": seconds, **extra}


def plan_answer(scores: PlanScore, plan: Ints) -> dict[str, Any]:
    """A plan and its terms, for programs."""
    return {
        "objective": scores.objective, "max_latency": scores.max_latency, "std_latency": scores.std_latency,
        "max_imbalance": scores.max_imbalance, "moved": int(scores.moved), "plan": plan.tolist(),
    }  # fmt: skip


def exchange_text(problem: Problem, answer: dict[str, Any]) -> str:
    """The answer for people: every device before and after, then the terms."""
    plan = np.array(answer["plan"])
    before, after = score(problem, identity(problem)), score(problem, plan)
    lines = ["device      samples         seconds       imbalance"]
    for v, counts in enumerate(problem.counts):
        count = int(plan[:, :, v].sum())
        lines.append(
            f"{v:>6}  {int(counts.sum()):>6} -> {count:<6}{before.latency[v]:>7.1f} -> {after.latency[v]:<7.1f}"
            f"{before.imbalance[v]:>7.3f} -> {after.imbalance[v]:.3f}"
        )
    lines += [
        "",
        f"objective  {before.objective:.4g} -> {answer['objective']:.4g}   (slowest {answer['max_latency']:.4g} s, deviation "
        f"{answer['std_latency']:.4g} s, imbalance {answer['max_imbalance']:.4g} x {problem.alpha:.4g})",
        f"relaxed    {answer['relaxed']:.6g}" + (f", proven to within {gap(answer):.2%}" if answer["bound"] is not None else ""),
        f"moved      {answer['moved']} of {int(problem.counts.sum())} samples",
        f"solved in  {answer['seconds']:.3f} s",
    ]
    return "\n".join(lines)


def gap(answer: dict[str, Any]) -> float:
    """How far, at most, the true relaxed optimum lies below the one that was found."""
    return (answer["relaxed"] - answer["bound"]) / max(answer["relaxed"], 1e-300)
