"""The class clock: how far a run will have learnt each class, from who is in its models, before anyone trains.

Commit t has M_t reports with weights W_ti that add up to 1; Y_ic is client i's share of label c, pi_c the share in the whole fleet,
k the cohort. The clock of class c is T_c = sum_t e(M_t) sum_i W_ti Y_ic / pi_c with e(M) = (1 + b/k) / (1 + b/M): as many commits
of an ideal fleet would have shown class c as much. b is the noise of one report.

Beside the clock stands the diversity n_c = 1 / (1 + chi^2(c || p)), the share of the fleet's samples of class c on which the models
really rest: the same few clients asked again and again show little that is new. With g the learning curve of the ideal fleet, h how
far it has come at T_c on the way from its first to its last accuracy, and m_c its own diversity then, the accuracy foretold is
A = sum_c q_c (1 - (1 - g(T_c)) (n_c / m_c)^(-gamma h(T_c))), q the labels of the test set: error falls as a power of the samples
that were seen, as learning curves do, but hardly while training has only begun. With gamma = 0 a class is learnt by its own clock
alone, whoever shows it. b and gamma depend on the task and its data: measure/calibration.py finds them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.records import Floats, Ints

EXPONENT = 0.25  # gamma where nothing is known of the task: that of digits
_LEAST = 1e-3  # a smaller share of the ideal diversity counts as this one


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
    def folded_counts(self) -> Ints:
        """How many reports of each client are in models."""
        return np.bincount(self.clients, minlength=len(self.asked))


@dataclass(frozen=True, slots=True)
class Clock:
    """`classes[t, c]` is T_c after t commits, from 0 commits on, at `times[t]`, and `diversity[t, c]` is n_c then.

    `effective` is n_eff, the same share for all classes together, at the end.
    """

    times: Floats
    classes: Floats
    diversity: Floats
    effective: float


@dataclass(frozen=True, slots=True)
class Ideal:
    """What reference runs tell: accuracy and diversity of an ideal fleet after 0, 1, .. full commits, the noise b and gamma."""

    accuracy: Floats
    diversity: Floats
    noise: float
    cohort: int
    exponent: float = EXPONENT


def evidence(reports: Ints | Floats, cohort: int, noise: float) -> Floats:
    """e(M): how much a commit of so many reports is worth, in commits of a full cohort. An infinite noise makes it M / k.

    >>> evidence(np.array([20, 5]), 20, 0.0)
    array([1., 1.])
    >>> evidence(np.array([20, 5]), 20, np.inf)
    array([1.  , 0.25])
    """
    counts = np.asarray(reports, np.float64)
    if not np.isfinite(noise):
        return counts / cohort
    return np.where(counts > 0, (1.0 + noise / cohort) / (1.0 + noise / np.maximum(counts, 1e-12)), 0.0)


def class_clock(
    part: Participation,
    labels: Ints,
    *,
    cohort: int,
    noise: float = 0.0,
    weights: Floats | None = None,
    factors: Floats | None = None,
) -> Clock:
    """The clock of a run; `labels[i, c]` counts what client i trains on, `weights` are those of reports (default: samples).

    `factors`: by how much reports are shortened without others counting more, as late ones are by FedBuff.
    """
    counts = labels.astype(np.float64)
    sizes, class_totals = counts.sum(axis=1), counts.sum(axis=0)
    weight = part.share * sizes[part.clients] if weights is None else weights
    total: Floats = np.bincount(part.commit, weight, part.commits).astype(np.float64)
    worth = evidence(part.reports, cohort, noise)
    # What each report adds: its part of a commit that is worth e(M) commits of a full cohort.
    added = _safe_ratio(weight * worth[part.commit], total[part.commit])
    added = added if factors is None else added * factors
    label_shares = _safe_ratio(counts, sizes[:, None])
    class_sums = _sums_by_commit(added[:, None] * label_shares[part.clients], part)
    # sum_i a_i^2 Y_ic^2 / p_ic, with a_i what client i has added so far; p_ic is its share of the fleet's samples of class c.
    spread = _safe_ratio(label_shares**2 * class_totals, counts)
    square_sums = _sums_by_commit(_square_growth(part.clients, added)[:, None] * spread[part.clients], part)
    return Clock(
        np.concatenate([[0.0], part.times]),
        _safe_ratio(class_sums, class_totals / class_totals.sum()),
        _safe_ratio(class_sums**2, square_sums),
        effective_share(np.bincount(part.clients, added, len(sizes)).astype(np.float64), sizes),
    )


def _sums_by_commit(rows: Floats, part: Participation) -> Floats:
    """Sums of rows, one per report, up to each commit, from none on."""
    result = np.zeros((part.commits + 1, rows.shape[1]))
    for c in range(rows.shape[1]):
        result[1:, c] = np.cumsum(np.bincount(part.commit, weights=rows[:, c], minlength=part.commits))
    return result


def _square_growth(clients: Ints, added: Floats) -> Floats:
    """By how much each report makes the square of what its client has added grow: (a + x)^2 - a^2."""
    order = np.argsort(clients, kind="stable")
    ordered_clients, x = clients[order], added[order]
    sums = np.cumsum(x)
    first = np.flatnonzero(np.diff(ordered_clients, prepend=-1))
    before = sums - x - np.repeat((sums - x)[first], np.diff(np.append(first, len(ordered_clients))))
    result = np.zeros(len(added))
    result[order] = (2.0 * before + x) * x
    return result


def _safe_ratio(a: Floats, b: Floats) -> Floats:
    """a / b, and 0 where b is 0."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.zeros(a.shape), where=b > 0)


def effective_share(contributed: Floats, samples: Floats) -> float:
    """n_eff = 1 / (1 + chi^2(c || p)): the share of the fleet's samples that the models really rest on; 1 if everyone takes part
    in proportion to its samples, a tenth if only a tenth does.

    >>> effective_share(np.array([5.0, 0.0]), np.array([10.0, 10.0]))
    0.5
    """
    if contributed.sum() <= 0:
        return 0.0
    c, p = contributed / contributed.sum(), samples / samples.sum()
    present = p > 0
    return float(1.0 / np.sum(c[present] ** 2 / p[present]))


def curve_at(ideal: Floats, clock: Floats) -> Floats:
    """g(T): the ideal learning curve between its commits, and flat after its last one."""
    return np.interp(clock, np.arange(len(ideal)), ideal)


def predict_accuracy(clock: Clock, ideal: Ideal, test: Floats) -> Floats:
    """The accuracy foretold after each commit, from none on; `test` are the shares of labels in the test set."""
    recall = curve_at(ideal.accuracy, clock.classes)
    if ideal.exponent:
        power = ideal.exponent * progress(ideal.accuracy, recall)
        recall = 1.0 - np.minimum((1.0 - recall) * scarcity(clock, ideal) ** -power, 1.0)
    accuracy = recall @ (test / test.sum())
    accuracy[0] = ideal.accuracy[0]  # the untrained model
    return np.maximum(accuracy, ideal.accuracy[0])


def progress(curve: Floats, accuracy: Floats) -> Floats:
    """h: how far accuracies are on the way from the first to the last of a learning curve."""
    whole = float(curve[-1] - curve[0])
    return np.clip((accuracy - curve[0]) / whole, 0.0, 1.0) if whole > 0 else np.zeros(accuracy.shape)


def scarcity(clock: Clock, ideal: Ideal) -> Floats:
    """n_c / m_c after each commit: the diversity of each class beside that of the ideal fleet when its clock shows the same."""
    at = np.stack([curve_at(m, t) for m, t in zip(ideal.diversity.T, clock.classes.T, strict=True)], axis=1)
    return np.clip(_safe_ratio(clock.diversity, at), _LEAST, 1.0)


def clock_score(clock: Clock, rounds: int) -> Floats:
    """A score between 0 and 1 that needs no reference run: the mean over classes of ln(1 + T_c) / ln(1 + R)."""
    return np.minimum(np.log1p(clock.classes) / np.log1p(rounds), 1.0).mean(axis=1)


def fit_monotone(values: Floats) -> Floats:
    """The nearest curve (least squares) that never falls: pools of equal value, by pool-adjacent-violators."""
    means, sizes = list[float](), list[int]()
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] > mean:
            last, last_size = means.pop(), sizes.pop()
            mean, size = (mean * size + last * last_size) / (size + last_size), size + last_size
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)


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
    class_counts = success @ counts
    mixed = class_counts / max(class_counts.sum(), 1e-300)
    worth = float(np.sum((chance * evidence(m, cohort, noise))[enough]))
    return rounds * float(chance[enough].sum()), rounds * worth * np.divide(mixed, prior, out=np.zeros_like(mixed), where=prior > 0)


def _binomial(n: int, p: float) -> Floats:
    """P(M = 0..n) of n draws with chance p."""
    result = np.zeros(n + 1)
    result[0] = 1.0
    for _ in range(n):
        result[1:] = result[1:] * (1.0 - p) + result[:-1] * p
        result[0] *= 1.0 - p
    return result
