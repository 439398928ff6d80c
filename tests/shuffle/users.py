"""Random users as in the notes: speeds and links log-uniform, classes split among devices by a Dirichlet."""

import dataclasses

import numpy as np
from hypothesis import strategies as st

from fedfleet.shuffle.divergence import imbalance
from fedfleet.shuffle.problem import Problem, problem_from, score
from fedfleet.shuffle.solve import batch_of


def user(seed: int, classes: int, devices: int, samples: int, *, bits=2e5, alpha=1.0, **flags) -> Problem:
    """A user of this size; `alpha` is times the automatic value."""
    rng = np.random.default_rng(seed)

    def between(low, high):
        return np.exp(rng.uniform(np.log(low), np.log(high), devices))

    totals = rng.multinomial(samples, rng.dirichlet(np.full(classes, 5.0)))
    counts = np.stack([rng.multinomial(n, rng.dirichlet(np.full(devices, 0.5))) for n in totals], 1)
    made = problem_from(
        {
            "counts": counts,
            "seconds_per_sample": between(0.01, 0.13),
            "up_bps": between(0.5e6, 100e6),
            "down_bps": between(0.5e6, 100e6),
            "bits_per_sample": bits,
            "alpha": "auto",
            **flags,
        }
    )
    return dataclasses.replace(made, alpha=made.alpha * alpha)


def batch_at(problem, *plans):
    """Plans[v][i][j] as a batch, which keeps them class first."""
    return batch_of(problem, np.stack([plan.transpose(1, 0, 2) for plan in plans]))


def true_value(problem, plan):
    """Eq. (7) of a plan that is kept class first."""
    return score(problem, plan.transpose(1, 0, 2)).objective


def single_moves(plan, size=1):
    """Every plan that differs by so many samples of one class and sender sent elsewhere."""
    for i, v, j in np.argwhere(plan >= size):
        for k in range(plan.shape[2]):
            if k != j:
                other = plan.copy()
                other[i, v, j] -= size
                other[i, v, k] += size
                yield other


@st.composite
def users(draw, most_devices=4, most_classes=6, most_samples=60):
    """Small users, among them some with empty devices, absent classes, one class, no weight on imbalance."""
    devices, classes = draw(st.integers(2, most_devices)), draw(st.integers(1, most_classes))
    rows = st.lists(st.sampled_from([0, 0, 1, 2, 5, 9, most_samples // 4]), min_size=classes, max_size=classes)
    counts = draw(st.lists(rows, min_size=devices, max_size=devices))
    if sum(map(sum, counts)) == 0:
        counts[0][0] = 3
    speeds = st.lists(st.sampled_from([0.01, 0.02, 0.05, 0.13]), min_size=devices, max_size=devices)
    links = st.lists(st.sampled_from([5e5, 4e6, 1e8]), min_size=devices, max_size=devices)
    return problem_from(
        {
            "counts": counts,
            "seconds_per_sample": draw(speeds),
            "up_bps": draw(links),
            "down_bps": draw(links),
            "bits_per_sample": draw(st.sampled_from([2e4, 2e5, 2e6])),
            "alpha": draw(st.sampled_from(["auto", 0.0, 1.0, 300.0])),
        }
    )


def least_possible(problem):
    """JS(user's totals || uniform): no plan has a smaller largest DI, since G is convex and proportional."""
    return float(imbalance(problem.counts.sum(0)[:, None].astype(float))[0])
