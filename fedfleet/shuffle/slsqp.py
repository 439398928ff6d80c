"""The paper's solver, as the reference to be measured against: SLSQP on the fractions that each device hands on.

Variables are the fractions r[v, i, j] in [0, 1] of the rows that hold samples, with one equality sum_j r = 1 per row.
The paper states neither start, tolerances nor gradients; a random start and numerical gradients are the plain reading.
The max and the deviation have kinks, where SLSQP may stop early or fail: the best iterate, clipped to [0, 1] and with rows
renormalised, is what counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.rng import stream
from fedfleet.shuffle.divergence import EMPTY, Floats, Ints, perspective
from fedfleet.shuffle.problem import Problem, effort, link, score


@dataclass(frozen=True, slots=True)
class Reference:
    """What SLSQP found: the best relaxed plan [V, c, V], its objective, the starts it used and scipy's last word."""

    plan: Floats
    objective: float
    starts: int
    message: str


_OUT_OF_TIME = "out of time"


class _TimeUp(Exception):
    """Raised inside scipy when the caller's time is over."""


def solve_slsqp(
    problem: Problem,
    *,
    analytic: bool = False,
    seed: int = 0,
    starts: int = 1,
    steps: int = 2000,
    tolerance: float = 1e-6,
    time_up: Callable[[float], bool] = lambda best: False,
) -> Reference:
    """Minimise Eq. (7) from random rows, up to `starts` times.

    `time_up(best)` is asked at every iterate and every 50 evaluations: the caller owns the clock, and may stop when the
    best objective so far is good enough.
    """
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise BadInput("shuffle: the slsqp solver needs scipy; install fedfleet[train]") from None
    parts, devices = _parts(problem), len(problem.counts)
    rows = len(parts.rows)
    matrix = np.kron(np.eye(rows), np.ones(devices))
    one_a_row = {"type": "eq", "fun": lambda flat: matrix @ flat - 1.0, "jac": lambda flat: matrix}
    # scipy returns its last iterate, which need not be the best that it visited.
    best, plan, message, done, calls = np.inf, np.empty(0), "", 0, 0

    def record(flat: Floats) -> None:
        """Keep an iterate, made feasible, if it is the best so far; stop if the caller says so."""
        nonlocal best, plan
        shares = np.clip(flat, 0.0, 1.0).reshape(-1, devices)
        shares = shares / np.maximum(shares.sum(1, keepdims=True), 1e-12)
        visited = np.zeros((*problem.counts.shape, devices))
        visited[parts.rows[:, 0], parts.rows[:, 1]] = shares * parts.held[:, None]
        objective = score(problem, visited).objective
        if objective < best:
            best, plan = objective, visited
        if time_up(best):
            raise _TimeUp

    def value(flat: Floats) -> float:
        """The objective, asking for the time now and then: one numerical gradient can take seconds."""
        nonlocal calls
        calls += 1
        if calls % 50 == 0 and time_up(best):
            raise _TimeUp
        return _value(parts, flat)[0]

    while done < starts and message != _OUT_OF_TIME:
        begin = stream(seed, "slsqp", done).random((rows, devices))
        begin = (begin / begin.sum(1, keepdims=True)).ravel()
        done += 1
        try:
            record(begin)
            result: Any = minimize(
                value,
                begin,
                jac=(lambda flat: _gradient(parts, flat)) if analytic else None,
                method="SLSQP",
                bounds=[(0.0, 1.0)] * len(begin),
                constraints=one_a_row,
                callback=record,
                options={"maxiter": steps, "ftol": tolerance},
            )
            message = str(result.message)
            record(result.x)
        except _TimeUp:
            message = _OUT_OF_TIME
    return Reference(plan, best, done, message)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the objective of the fractions needs, computed once."""

    rows: Ints  # [R, 2] device and class of each row that holds samples
    held: Floats  # [R]
    by_device: Floats  # [V, R] adds rows up
    by_class: Floats  # [c, R]
    seconds: Floats
    links: Floats
    problem: Problem


def _parts(problem: Problem) -> _Parts:
    rows = np.argwhere(problem.counts > 0)
    devices, classes = problem.counts.shape
    held = problem.counts[rows[:, 0], rows[:, 1]].astype(float)
    by_device, by_class = np.eye(devices)[:, rows[:, 0]], np.eye(classes)[:, rows[:, 1]]
    return _Parts(rows, held, by_device, by_class, effort(problem), link(problem), problem)


def _value(parts: _Parts, flat: Floats) -> tuple[float, Floats, Floats, Floats, Floats]:
    """Eq. (7) at fractions that may leave [0, 1] a little, with latencies, holdings and DI for the gradient."""
    amounts = flat.reshape(-1, len(parts.seconds)) * parts.held[:, None]
    flows = parts.by_device @ amounts
    x = parts.by_class @ np.maximum(amounts, 0.0)
    paid = flows * parts.links
    latency = paid.sum(1) + paid.sum(0) + parts.seconds * flows.sum(0)
    mass = x.sum(0)
    grown, slope = perspective(x)
    uneven = np.where(mass > 0.0, np.maximum(grown / np.where(mass > 0.0, mass, 1.0), 0.0), EMPTY)
    worst = float(uneven.max()) ** (0.5 if parts.problem.js_root else 1.0)
    deviation = float(latency.std()) if parts.problem.time_balance else 0.0
    return float(latency.max()) + deviation + parts.problem.alpha * worst, latency, mass, uneven, slope


def _gradient(parts: _Parts, flat: Floats) -> Floats:
    """A subgradient of `_value`: of the slowest device, the deviation, and the most uneven device."""
    _, latency, mass, uneven, slope = _value(parts, flat)
    devices = len(latency)
    y = np.zeros(devices)
    y[latency.argmax()] = 1.0
    deviation = latency.std()
    if parts.problem.time_balance and deviation > 0.0:
        y += (latency - latency.mean()) / (devices * deviation)
    gradient = ((y[:, None] + y[None, :]) * parts.links + (y * parts.seconds)[None, :])[parts.rows[:, 0]]
    worst = int(uneven.argmax())
    if mass[worst] > 0.0:
        scale = parts.problem.alpha / mass[worst]
        if parts.problem.js_root:
            scale *= 0.5 / max(float(np.sqrt(uneven[worst])), 1e-12)
        gradient[:, worst] += scale * (slope[parts.rows[:, 1], worst] - uneven[worst])
    return (gradient * parts.held[:, None]).ravel()
