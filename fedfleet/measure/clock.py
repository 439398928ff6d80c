"""The class clock: how far a run will have learnt each class, from who is in its models, before anyone trains.

Commit t has M_t reports with weights W_ti that add up to 1; Y_ic is client i's share of label c, pi_c the share in the whole fleet,
k the cohort. The clock of class c is T_c = sum_t e(M_t) sum_i W_ti Y_ic / pi_c with e(M) = (1 + b/k) / (1 + b/M): as many commits
of an ideal fleet would have shown class c as much. With g the learning curve of the ideal fleet the predicted accuracy is
A = sum_c q_c g(T_c), q the labels of the test set. b, the noise of one report, follows from how much slower an ideal fleet
learns with small cohorts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.records import Floats, Ints


@dataclass(frozen=True, slots=True)
class Participation:
    """Who is in which model: an entry for each folded report, in the order of commits; and what became of rounds and clients.

    `times` are those of the commits. `commit` counts from 0; `share` is how much of its shard a task trained on, `staleness` how
    many versions late it was. `asked` and `arrived` count the tasks of each client, `failed` the failed rounds by reason.
    """

    times: Floats
    commit: Ints
    clients: Ints
    share: Floats
    staleness: Ints
    asked: Ints
    arrived: Ints
    failed: dict[str, int]
    rounds: int
    seconds: float

    @property
    def commits(self) -> int:
        """How many models were made."""
        return len(self.times)

    @property
    def reports(self) -> Ints:
        """How many reports each model has."""
        return np.bincount(self.commit, minlength=len(self.times))

    @property
    def folded(self) -> Ints:
        """How many reports of each client are in models."""
        return np.bincount(self.clients, minlength=len(self.asked))


@dataclass(frozen=True, slots=True)
class Clock:
    """`classes[t, c]` is T_c after t commits, from 0 commits on, at `times[t]`; `effective` is n_eff, a share between 0 and 1."""

    times: Floats
    classes: Floats
    effective: float


@dataclass(frozen=True, slots=True)
class Ideal:
    """What reference runs on an ideal fleet tell: accuracy after 0, 1, 2, .. commits of a full cohort, and the noise b."""

    accuracy: Floats
    noise: float
    cohort: int


def evidence(reports: Ints | Floats, cohort: int, noise: float) -> Floats:
    """e(M): how much a commit of so many reports is worth, in commits of a full cohort. An infinite noise makes it M / k.

    >>> evidence(np.array([20, 5]), 20, 0.0)
    array([1., 1.])
    >>> evidence(np.array([20, 5]), 20, np.inf)
    array([1.  , 0.25])
    """
    many = np.asarray(reports, np.float64)
    if not np.isfinite(noise):
        return many / cohort
    return np.where(many > 0, (1.0 + noise / cohort) / (1.0 + noise / np.maximum(many, 1e-12)), 0.0)


def class_clock(
    part: Participation, labels: Ints, *, cohort: int, noise: float = 0.0, weights: Floats | None = None
) -> Clock:
    """The clock of a run; `labels[i, c]` counts what client i trains on, `weights` are those of reports (default: samples)."""
    counts = labels.astype(np.float64)
    sizes = counts.sum(axis=1)
    weight = part.share * sizes[part.clients] if weights is None else weights
    commits, classes = part.commits, counts.shape[1]
    total = np.bincount(part.commit, weights=weight, minlength=commits)
    prior = counts.sum(axis=0) / counts.sum()
    own = np.divide(counts, sizes[:, None], out=np.zeros_like(counts), where=sizes[:, None] > 0)
    mixed = np.zeros((commits, classes))
    np.add.at(mixed, part.commit, weight[:, None] * own[part.clients])
    mixed = np.divide(mixed, total[:, None], out=np.zeros_like(mixed), where=total[:, None] > 0)
    steps = evidence(part.reports, cohort, noise)[:, None] * np.divide(
        mixed, prior, out=np.zeros_like(mixed), where=prior > 0
    )
    held: Floats = np.bincount(part.clients, weights=weight, minlength=len(sizes)).astype(np.float64)
    return Clock(
        np.concatenate([[0.0], part.times]),
        np.concatenate([np.zeros((1, classes)), np.cumsum(steps, axis=0)]),
        effective_share(held, sizes),
    )


def effective_share(contributed: Floats, samples: Floats) -> float:
    """n_eff = 1 / (1 + chi^2(c || p)): the share of the fleet's samples that the models really rest on; 1 if everyone takes part
    in proportion to its samples, a tenth if only a tenth does.

    >>> effective_share(np.array([5.0, 0.0]), np.array([10.0, 10.0]))
    0.5
    """
    if contributed.sum() <= 0:
        return 0.0
    c, p = contributed / contributed.sum(), samples / samples.sum()
    there = p > 0
    return float(1.0 / np.sum(c[there] ** 2 / p[there]))


def curve_at(ideal: Floats, clock: Floats) -> Floats:
    """g(T): the ideal learning curve between its commits, and flat after its last one."""
    return np.interp(clock, np.arange(len(ideal)), ideal)


def foretold(clock: Clock, ideal: Ideal, test: Floats) -> Floats:
    """The predicted accuracy after each commit, from none on; `test` are the shares of labels in the test set."""
    return curve_at(ideal.accuracy, clock.classes) @ (test / test.sum())


def without_training(clock: Clock, rounds: int) -> Floats:
    """A score between 0 and 1 that needs no reference run: the mean over classes of ln(1 + T_c) / ln(1 + R)."""
    return np.minimum(np.log1p(clock.classes) / np.log1p(rounds), 1.0).mean(axis=1)


def rising(values: Floats) -> Floats:
    """The nearest curve (least squares) that never falls: pools of equal value, by pool-adjacent-violators."""
    means, sizes = list[float](), list[int]()
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] > mean:
            last, many = means.pop(), sizes.pop()
            mean, size = (mean * size + last * many) / (size + many), size + many
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)


def noise_of(full: Floats, small: Floats, *, cohort: int, few: int) -> float:
    """b, from two ideal learning curves: after t commits of `few` reports as much is learnt as after s t of `cohort`, and
    s = e(few) gives b = (1 - s) / (s / few - 1 / cohort). s is found by least squares between few / cohort and 1."""
    slowest = few / cohort
    t = np.arange(len(small))
    tried = np.linspace(slowest, 1.0, 400)
    errors = [float(np.sum((curve_at(full, s * t) - small) ** 2)) for s in tried]
    s = float(tried[int(np.argmin(errors))])
    return float("inf") if s <= slowest else (1.0 - s) / (s / few - 1.0 / cohort)


def always_on_clock(
    success: Floats, labels: Ints, *, cohort: int, rounds: int, least: int = 2, noise: float = 0.0
) -> tuple[float, Floats]:
    """Commits and T_c where everyone is always there and client i reports in time with chance success[i]: the closed form.

    A round has Bin(M; k, mean success) reports and makes a model from `least` on; on average its labels are those of the clients
    that succeed, each as often as it does.
    """
    mean = float(success.mean())
    m = np.arange(cohort + 1)
    chance = _binomial(cohort, mean)
    enough = m >= least
    counts = labels.astype(np.float64)
    prior = counts.sum(axis=0) / counts.sum()
    held = success @ counts
    mixed = held / max(held.sum(), 1e-300)
    worth = float(np.sum((chance * evidence(m, cohort, noise))[enough]))
    return rounds * float(chance[enough].sum()), rounds * worth * np.divide(
        mixed, prior, out=np.zeros_like(mixed), where=prior > 0
    )


def _binomial(n: int, p: float) -> Floats:
    """P(M = 0..n) of n draws with chance p."""
    found = np.zeros(n + 1)
    found[0] = 1.0
    for _ in range(n):
        found[1:] = found[1:] * (1.0 - p) + found[:-1] * p
        found[0] *= 1.0 - p
    return found
