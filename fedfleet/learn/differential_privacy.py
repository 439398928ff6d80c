"""Differential privacy for those who take part: updates of bounded length, weights that tell nothing, and noise.

One client is protected, with all that it ever sends: what is released hardly depends on whether its updates were real or zero.
The loss is that of the participation that the journal shows (`fedfleet.measure.privacy`). That clients are sampled makes it less
only where a run says so (`amplify`). It supposes that no client is picked by a value without noise: a
selector that goes by reported losses lets them into the models, and the run says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fedfleet.core.aggregation import Entry
from fedfleet.core.bounds import Ge, Gt, Le, Lt
from fedfleet.core.clip import pairwise_sum
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.limits import SMALLEST, Count
from fedfleet.core.noise import Noise, normals, seeded_key
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Algorithm, Promise
from fedfleet.core.passes import Passed
from fedfleet.core.records import Context
from fedfleet.learn.composition import with_pass
from fedfleet.learn.folds import sample_entry
from fedfleet.learn.leaves import column, doubles, is_floating, like, share_kept

Clip = Annotated[float, Ge(SMALLEST), Le(1e4)]  # of an update, as a Euclidean norm
Multiple = Annotated[float, Ge(1e-3), Le(1e4)]  # of the clipping norm: the standard deviation of the noise
Delta = Annotated[float, Gt(0), Lt(1)]
Epsilon = Annotated[float, Ge(1e-3), Le(1e3)]
_DEFAULT_NOISE = 1.0


@dataclass(frozen=True, slots=True)
class Privacy:
    """A way to protect the clients of an algorithm: a function from algorithm to algorithm."""

    around: Callable[[Algorithm], Algorithm]


def gaussian(
    *,
    cohort: Count | None = None,
    clip: Clip = 1.0,
    noise: Multiple | None = _DEFAULT_NOISE,
    delta: Delta = 1e-5,
    epsilon: Epsilon | None = None,
    amplify: bool | None = None,
    run: RunFacts = RunFacts(0, 0, 0),  # noqa: B008
) -> Privacy:
    """Clipped updates and fresh Gaussian noise in the sum of every commit (McMahan et al. 2018), by the server.

    Every commit releases (sum over clients of min(1, clip / |u|) u + N(0, (noise clip)^2)) / cohort. The denominator is fixed
    and weights are plain, so that one client moves the sum by `clip` at most. The server sees the updates themselves. In a spec
    the cohort is by default that of [pace], and `epsilon` may be given instead of `noise`: a run solves for the noise with which
    a client that is in every planned commit loses no more. With `amplify` the loss counts that each commit draws its clients
    in secret, evenly among all: `epsilon` then needs less noise.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> gaussian(cohort=20, noise=0.8).around(fedavg()).fold.noise
    Noise(std=0.8, kind='fresh')
    """
    multiple, size = _solved(noise), _known(cohort)
    sample = (run.clients, size) if amplify else None
    promise = Promise("gaussian", multiple, delta, epsilon, sample)
    return Privacy(lambda algorithm: _with_central_noise(algorithm, Noise(clip * multiple), size, clip, promise))


def tree(
    *,
    cohort: Count | None = None,
    clip: Clip = 1.0,
    noise: Multiple | None = _DEFAULT_NOISE,
    delta: Delta = 1e-5,
    epsilon: Epsilon | None = None,
) -> Privacy:
    """Clipped updates and the noise of a binary tree over all commits: DP-FTRL (Kairouz et al. 2021), by the server.

    The noise in the model after t commits is that of at most log2(t) + 1 nodes, whichever clients take part when: made for clients
    that come as they please. One report enters the nodes above its commit, hence more noise is needed for a client that comes once,
    and far less for one that comes often. The tree is never begun anew. `cohort` and `epsilon` are those of `gaussian`.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> tree(cohort=20, clip=0.5, noise=4.0).around(fedavg()).fold.noise
    Noise(std=2.0, kind='tree')
    """
    multiple, size = _solved(noise), _known(cohort)
    tree_noise, promise = Noise(clip * multiple, "tree"), Promise("tree", multiple, delta, epsilon)
    return Privacy(lambda algorithm: _with_central_noise(algorithm, tree_noise, size, clip, promise))


def local(
    *, clip: Clip = 1.0, noise: Multiple | None = _DEFAULT_NOISE, delta: Delta = 1e-5, epsilon: Epsilon | None = None
) -> Privacy:
    """Each client clips its update and adds Gaussian noise before it sends: the server need not be trusted.

    It sends min(1, clip / |u|) u + N(0, (noise clip)^2); weights are plain. In a simulation the noise is addressed by seed, key and
    task; a real device draws it from its own system, and no one else knows it. The statistics that go along (loss, samples) are as
    they are. `epsilon` is that of `gaussian`.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> local(noise=2.0).around(fedavg()).private
    Promise(mechanism='local', noise=2.0, delta=1e-05, epsilon=None, sample=None)
    """
    multiple = _solved(noise)

    def around(algorithm: Algorithm) -> Algorithm:
        _check_clients(algorithm)

        def add_noise(passed: Passed) -> Passed:
            return _add_noise(passed, clip, clip * multiple)

        result = with_pass(
            algorithm, "its clients cannot add noise", lambda p: replace(p, weigh="one", after=(*p.after, add_noise))
        )
        return replace(result, private=Promise("local", multiple, delta, epsilon))

    return Privacy(around)


def _solved(noise: float | None) -> float:
    if noise is None:
        raise BadInput(
            "private: epsilon needs the number of rounds, which only a run of a spec knows; give noise here, for example from "
            "fedfleet.measure.privacy.solve_noise"
        )
    return noise


def _known(cohort: int | None) -> int:
    if cohort is None:
        raise BadInput("private: cohort is missing; give cohort, the fixed number by which sums are divided")
    return cohort


def _with_central_noise(algorithm: Algorithm, noise: Noise, cohort: int, clip: float, promise: Promise) -> Algorithm:
    """The algorithm with clipping, plain weights, a fixed denominator and noise in its fold."""
    _check_clients(algorithm)
    inner = algorithm.fold
    if not inner.streams:
        raise BadInput(
            f"algorithm.private: noise goes into sums, but the fold of {algorithm.name!r} collects whole reports; use the mean or "
            'norm_bound, or private = { use = "local" }'
        )
    if sample_entry(inner).sum:
        raise BadInput(
            f"algorithm.private: {algorithm.name!r} adds up several sums, but noise covers only one; leave `private` out, or use "
            "another algorithm"
        )
    if inner.denominator not in (None, float(cohort)):
        raise BadInput(
            f"algorithm.private.cohort = {cohort}: {algorithm.name!r} already divides by {inner.denominator:g}; set cohort to "
            "this number"
        )
    if not callable(inner.bound) and 64.0 * noise.std > inner.bound * inner.total_weight:
        raise BadInput(
            f"algorithm.private: noise of {noise.std:g} does not fit into sums of elements up to {inner.bound:g}; raise "
            "algorithm.bound"
        )

    def enter(_weight: float, stats: Mapping[str, float], context: Context) -> Entry:
        entry = inner.enter(1.0, stats, context)
        if entry.sum:
            raise Refused(f"with algorithm.private all reports are added to one sum, but this report is for the sum {entry.sum!r}")
        return entry._replace(weight=min(entry.weight, 1.0))

    limit = clip if inner.clip is None else min(clip, inner.clip)
    fold = replace(inner, enter=enter, denominator=float(cohort), clip=limit, noise=noise)
    plain = with_pass(algorithm, "it cannot be made private", lambda inside: replace(inside, weigh="one"))
    return replace(plain, fold=fold, private=promise)


def _check_clients(algorithm: Algorithm) -> None:
    if algorithm.pooled:
        raise BadInput(
            f"algorithm.private: {algorithm.name!r} trains in one place, so there is no client to protect; leave `private` out"
        )
    if algorithm.private is not None:
        raise BadInput(f"algorithm.private: {algorithm.name!r} is private already; leave `private` out")
    if algorithm.fold.intact is not None:
        raise BadInput(
            f"algorithm.private: {algorithm.name!r} {algorithm.fold.intact}, which clipping and noise would spoil; leave `private` "
            "out, or use another algorithm"
        )


def _add_noise(passed: Passed, clip: float, std: float) -> Passed:
    """A stack of updates, each no longer than `clip`, with noise of this standard deviation in every element."""
    leaves = {n: v for n, v in passed.update.items() if is_floating(v)}
    if not leaves:
        return passed
    clients = len(passed.keys)
    noise_key = seeded_key(passed.seed) if passed.noise_key is None else passed.noise_key
    squared: Any = sum(pairwise_sum(doubles(leaves[n].reshape(clients, -1)) ** 2) for n in sorted(leaves))
    factor = share_kept(clip, squared)
    noisy = dict(passed.update)
    for name, leaf in leaves.items():
        clipped = leaf * column(factor, leaf)
        for c, (key, task) in enumerate(zip(passed.keys.tolist(), passed.tasks.tolist(), strict=True)):
            noise = normals(noise_key, f"{key}|{name}", task, 0, math.prod(leaf[c].shape))
            clipped[c] += like(std * noise, leaf).reshape(leaf[c].shape)
        noisy[name] = clipped
    return replace(passed, update=noisy, bytes_up=None)  # with noise in it, no matrix is of low rank any more
