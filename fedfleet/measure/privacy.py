"""What a private run gave away about one client, from its journal, and which noise keeps what a plan can give away within a bound.

Who took part, and when, decides. Only where a run counts on sampling (`Promise.sample`) is it supposed that nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event
from fedfleet.core.parts import Promise
from fedfleet.core.records import Floats, Ints
from fedfleet.measure.tasks import Tasks, task_table

# Noise is solved for between these multiples, to this relative step.
_LEAST_NOISE, _MOST_NOISE, _DIGITS = 1e-3, 1e4, 1e-4

# Of Renyi divergences: fewer are faster, and still a bound.
_ORDERS = [*range(2, 33), 40, 48, 64, 96, 128]

_CLAIM = {
    "gaussian": "an observer of all models learns at most this about whether one client's updates were real or zero",
    "tree": "an observer of all models learns at most this about whether one client's updates were real or zero",
    "local": "an observer of all that one client sent learns at most this about whether its updates were real or zero",
}


def privacy_loss(promise: Promise, log: Sequence[Event], tasks: Tasks | None = None) -> dict[str, Any]:
    """Epsilon at the delta that was granted, of the client that took part most, with the claim in one sentence."""
    tasks = task_table(log) if tasks is None else tasks
    squared, times = exposure(promise, tasks)
    epsilon = gaussian_epsilon(promise.noise, squared, promise.delta)
    with_sampling, sampling = None, "no amplification by sampling is claimed"
    if promise.sample is not None:
        with_sampling = sampled_epsilon(promise.noise, promise.sample, int(tasks.folded_into.max(initial=0)), promise.delta)
    if with_sampling is not None and (epsilon is None or with_sampling < epsilon):
        epsilon = with_sampling
        sampling = "amplification by sampling is counted: the observer must not know who was picked, nor the seed"
    return {
        "mechanism": promise.mechanism,
        "epsilon": epsilon,
        "delta": promise.delta,
        "participations": times,
        "claim": f"{_CLAIM[promise.mechanism]}, with the {times} participations at most of this run; {sampling}, and losses, "
        "scores and who took part are not covered",
        "noise": promise.noise,
        **({} if promise.epsilon is None else {"epsilon_asked": promise.epsilon}),
    }


def planned_epsilon(promise: Promise, commits: int) -> float | None:
    """Epsilon of a client that is once in each of so many planned commits: no client of such a run loses more."""
    one, numbers = np.zeros(commits, np.int64), np.arange(commits)
    epsilon = gaussian_epsilon(promise.noise, _largest_exposure(promise, one, numbers), promise.delta)
    if promise.sample is None:
        return epsilon
    with_sampling = sampled_epsilon(promise.noise, promise.sample, commits, promise.delta)
    known = [one for one in (epsilon, with_sampling) if one is not None]
    return min(known, default=None)


@lru_cache(maxsize=64)
def solve_noise(promise: Promise, epsilon: float, commits: int) -> float:
    """The least noise of four digits with which `planned_epsilon` is `epsilon` at most. More noise never costs more.

    >>> solve_noise(Promise("gaussian", 1.0, 1e-5), 4.38, 1)
    0.9996
    """

    def enough(noise: float) -> bool:
        result = planned_epsilon(replace(promise, noise=noise), commits)
        return result is not None and result <= epsilon

    low, high = _LEAST_NOISE, _LEAST_NOISE
    if promise.sample is not None:  # sampling only ever needs less
        high = solve_noise(replace(promise, sample=None), epsilon, commits)
    while not enough(high):
        low, high = high, 2.0 * high
        if high > _MOST_NOISE:
            raise BadInput(
                f"algorithm.private: no noise up to {_MOST_NOISE:g} keeps epsilon at {epsilon:g} over {commits} commits; raise "
                "epsilon, or lower stop.rounds"
            )
    while high - low > _DIGITS * high:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    # Rounded up, so that every machine comes to the same number.
    unit = 10.0 ** (math.floor(math.log10(high)) - 3)
    return float(f"{math.ceil(high / unit - 1e-6) * unit:.4g}")


def sampled_epsilon(noise: float, sample: tuple[int, int], commits: int, delta: float) -> float | None:
    """Epsilon where each commit draws so many of all clients in secret and without replacement (Wang et al. 2019). One client's
    place is taken by another: that moves a sum twice as far as a client whose update is zero, for which it holds as well."""
    if not commits:
        return 0.0
    library, (clients, size) = _library(), sample
    from dp_accounting.rdp import RdpAccountant  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]

    accountant: Any = RdpAccountant(_ORDERS, neighboring_relation=library.NeighboringRelation.REPLACE_ONE)
    event = library.SampledWithoutReplacementDpEvent(clients, size, library.GaussianDpEvent(noise / 2.0))
    accountant.compose(event, commits)
    epsilon = float(accountant.get_epsilon(delta))
    return epsilon if math.isfinite(epsilon) else None


def privacy_figures(privacy: Mapping[str, Any]) -> str:
    """The figures of `privacy_loss` in words.

    >>> privacy_figures({"epsilon": 7.5, "delta": 1e-05, "noise": 6.2, "epsilon_asked": 8.0})
    'epsilon 7.5 at delta 1e-05 (at most 8 was asked for), with noise 6.2 times the clipping norm'
    """
    epsilon = "without a bound" if privacy["epsilon"] is None else f"{privacy['epsilon']:,.4g}"
    asked = f" (at most {privacy['epsilon_asked']:g} was asked for)" if "epsilon_asked" in privacy else ""
    noise = f", with noise {privacy['noise']:.4g} times the clipping norm" if "noise" in privacy else ""
    return f"epsilon {epsilon} at delta {privacy['delta']:.2g}{asked}{noise}"


def exposure(promise: Promise, tasks: Tasks) -> tuple[float, int]:
    """How much of the most exposed client is in what was released: the squared norm of its reports, each of norm 1, through
    everything that noise was added to; and how often any client took part at most."""
    if promise.mechanism == "local":  # whatever was sent was seen, folded or not
        clients, commits = tasks.clients, np.arange(len(tasks.clients))
    else:
        folded = tasks.folded_into > 0
        clients, commits = tasks.clients[folded], tasks.folded_into[folded] - 1
    if not len(clients):
        return 0.0, 0
    return _largest_exposure(promise, clients, commits), int(np.bincount(clients).max())


def _largest_exposure(promise: Promise, clients: Ints, commits: Ints) -> float:
    """The largest squared norm of one client's reports through everything that noise was added to; pairs of client and commit."""
    total = np.zeros(int(clients.max()) + 1)
    if promise.mechanism != "tree":
        return float(_squares(clients, commits, len(total)).max())
    commit_count = int(commits.max()) + 1
    for level in range(commit_count.bit_length()):
        nodes = commits >> level
        # Only whole nodes, and of two sisters only the first, are released.
        used = (nodes < commit_count >> level) & (nodes % 2 == 0)
        total += _squares(clients[used], nodes[used], len(total))
    return float(total.max())


def _squares(clients: Ints, nodes: Ints, n: int) -> Floats:
    """For each client, the sum over nodes of its squared number of reports there."""
    pairs, counts = np.unique(np.stack([clients, nodes]), axis=1, return_counts=True)
    return np.asarray(np.bincount(pairs[0], weights=counts.astype(np.float64) ** 2, minlength=n), np.float64)


def gaussian_epsilon(noise: float, squared: float, delta: float) -> float | None:
    """Epsilon of Gaussian noise, `noise` times as large as one report, when reports of this squared norm went through it.

    Gaussian mechanisms compose to one whose squared sensitivities add up, also when later ones depend on what earlier ones
    released. None: no finite number.
    """
    if squared == 0.0:
        return 0.0
    epsilon = float(_library().get_epsilon_gaussian(noise / math.sqrt(squared), delta))
    return epsilon if math.isfinite(epsilon) else None


def require_accountant() -> None:
    """Refuse to begin what could not be accounted for at the end."""
    _library()


def _library() -> Any:
    try:
        import dp_accounting  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise BadInput(
            "algorithm.private needs the accountant dp-accounting, which is not installed; install it with: pip install "
            "'fedfleet[private]'"
        ) from None
    return dp_accounting
