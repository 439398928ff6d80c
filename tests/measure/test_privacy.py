"""What a private run gave away: closed forms, the library's own accountants, and the tree by brute force."""

import math
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from fedfleet.core.errors import BadInput
from fedfleet.core.noise import terms
from fedfleet.core.parts import Promise
from fedfleet.core.records import DROPPED, FOLDED
from fedfleet.measure.privacy import exposure, gaussian_epsilon, privacy_loss, require_accountant, sampled_epsilon
from fedfleet.measure.tasks import Tasks

# Not imported here, since every process of tests reads this file, and it takes seconds.
pytestmark = pytest.mark.skipif(find_spec("dp_accounting") is None, reason="dp_accounting is not installed: make dev")


def tasks(pairs, *, dropped=()):
    """Tasks of these (client, commit) pairs, and of clients whose reports were dropped."""
    clients = np.array([c for c, _ in pairs] + list(dropped), np.int64)
    into = np.array([v for _, v in pairs] + [0] * len(dropped), np.int64)
    none = np.zeros(len(clients))
    fate = np.where(into > 0, FOLDED, DROPPED).astype(np.int8)
    return Tasks(clients, into, into, none, none, none, none, none, none, fate, into, none > 0, none > 0)


def promise(mechanism, noise=1.0, delta=1e-5):
    return Promise(mechanism, noise, delta)


def delta_of(epsilon, mu):
    """The curve of a Gaussian mechanism of sensitivity over noise mu, in closed form (Balle and Wang 2018)."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(("noise", "times"), [(1.0, 1), (0.8, 1), (2.0, 9), (5.0, 100)])
def test_epsilon_solves_the_closed_form(noise, times):
    epsilon = gaussian_epsilon(noise, times, 1e-5)
    assert delta_of(epsilon, math.sqrt(times) / noise) == pytest.approx(1e-5, rel=1e-3)


def test_a_single_gaussian_of_noise_one_is_the_number_everyone_knows():
    assert gaussian_epsilon(1.0, 1.0, 1e-5) == pytest.approx(4.3772, abs=1e-4)


@pytest.mark.parametrize(("noise", "times"), [(1.0, 1), (3.0, 10)])
def test_it_is_what_the_library_s_accountant_of_losses_says_of_the_composition(noise, times):
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(noise), times)
    assert gaussian_epsilon(noise, times, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def delta_by_convolution(noise, times, epsilon, steps=1 << 16):
    """Delta of so many Gaussian mechanisms by the distribution of their privacy loss, convolved with the FFT: no closed form.

    One mechanism's loss is N(1 / (2 noise^2), 1 / noise^2); delta is the mean of (1 - exp(epsilon - loss)) where it is positive.
    """
    mean, deviation = 0.5 / noise**2, 1.0 / noise
    top = times * mean + 14.0 * math.sqrt(times) * deviation + epsilon
    width = 2.0 * top / steps
    losses = (np.arange(steps) - steps // 2) * width
    one = np.diff(norm.cdf(np.append(losses, losses[-1] + width) - width / 2, mean, deviation))
    spectrum = np.fft.rfft(np.roll(one, -(steps // 2))) ** times
    together = np.roll(np.fft.irfft(spectrum, steps), steps // 2)
    return float((np.maximum(-np.expm1(epsilon - losses), 0.0) * together).sum())


GRID = [(noise, times, delta) for noise in (0.7, 1.0, 3.0, 8.0) for times in (1, 4, 50) for delta in (1e-3, 1e-5)]


@pytest.mark.parametrize(("noise", "times", "delta"), GRID)
def test_epsilon_is_what_an_accountant_of_its_own_finds_on_a_grid(noise, times, delta):
    epsilon = gaussian_epsilon(noise, times, delta)
    assert delta_by_convolution(noise, times, epsilon) == pytest.approx(delta, rel=0.02)
    # And so with one percent more or less of epsilon it is another delta: the comparison is sharp.
    assert delta_by_convolution(noise, times, 1.01 * epsilon) < delta < delta_by_convolution(noise, times, 0.99 * epsilon)


def sampled_by_hand(noise, clients, size, commits, delta, orders):
    """Theorem 9 of Wang, Balle and Kasiviswanathan 2019 for whole orders, replacing one client, and the least epsilon over them."""
    share, sigma = size / clients, noise / 2.0  # replacing moves a sum twice as far

    def rdp(order):
        return order / (2.0 * sigma**2)

    def terms(order):
        yield 0.0
        yield (
            2 * math.log(share)
            + math.log(math.comb(order, 2))
            + min(math.log(4.0) + math.log(math.expm1(rdp(2))) if rdp(2) < 500 else math.inf, math.log(2.0) + rdp(2))
        )
        for j in range(3, order + 1):
            yield j * math.log(share) + math.log(math.comb(order, j)) + math.log(2.0) + (j - 1) * rdp(j)

    best = math.inf
    for order in orders:
        exponents = list(terms(order))
        top = max(exponents)
        amplified = (top + math.log(sum(math.exp(e - top) for e in exponents))) / (order - 1)
        total = commits * min(amplified, rdp(order))
        # From Renyi divergence to (epsilon, delta): Canonne, Kamath and Steinke 2020, Proposition 12.
        best = min(best, total + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1))
    return max(best, 0.0)


def sampled_truth(noise, clients, size, commits, delta, steps=1 << 16):
    """Epsilon of one attack that is possible: all others send zero, and one client sends its clip or, replaced, minus its clip.

    A commit shows N(+-1, noise^2) with the probability of being drawn, else N(0, noise^2). The losses are convolved with the FFT,
    each rounded down: the result is below what any correct accountant may say.
    """
    share = size / clients
    x = np.linspace(-1 - 12 * noise, 1 + 12 * noise, 200_001)
    p, q = ((1 - share) * norm.pdf(x, 0, noise) + share * norm.pdf(x, side, noise) for side in (1, -1))
    loss, mass = np.log(p) - np.log(q), p * (x[1] - x[0])
    # The range of sums: their mean and fourteen of their deviations; what lies beyond is left out, which makes delta smaller.
    mean, deviation = float(mass @ loss), math.sqrt(float(mass @ loss**2))
    top = commits * mean + 14 * math.sqrt(commits) * deviation + 4 * float(np.abs(loss).max())
    width = 2 * top / steps
    cells = np.floor(loss / width).astype(np.int64) + steps // 2
    inside = (cells >= 0) & (cells < steps)
    one = np.bincount(cells[inside], weights=mass[inside], minlength=steps)
    together = np.roll(np.fft.irfft(np.fft.rfft(np.roll(one, -(steps // 2))) ** commits, steps), steps // 2)
    losses = (np.arange(steps) - steps // 2) * width

    def delta_of_attack(epsilon):
        return float((np.maximum(-np.expm1(epsilon - losses), 0.0) * together).sum())

    low, high = 0.0, top
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of_attack(middle) > delta else (low, middle)
    return low


@pytest.mark.parametrize("noise", [1.5, 3.0, 6.0])
@pytest.mark.parametrize(("clients", "size"), [(1000, 10), (200, 20)])
@pytest.mark.parametrize("commits", [1, 20, 300])
def test_sampling_is_counted_no_better_than_an_attack_shows_and_no_worse_than_the_theorem_says(noise, clients, size, commits):
    said = sampled_epsilon(noise, (clients, size), commits, 1e-5)
    by_hand = sampled_by_hand(noise, clients, size, commits, 1e-5, [*range(2, 33), 40, 48, 64, 96, 128])
    truth = sampled_truth(noise, clients, size, commits, 1e-5)
    assert truth * (1 - 1e-3) <= said <= by_hand * (1 + 1e-3)
    if commits == 300:
        assert said < 6 * truth, "the theorem is not sharp, but of the right order where commits are many"


def test_the_client_that_took_part_most_decides():
    result = tasks([(0, 1), (1, 1), (1, 2), (2, 3), (1, 4)])
    assert exposure(promise("gaussian"), result) == (3.0, 3)
    assert exposure(promise("gaussian"), tasks([])) == (0.0, 0)


def test_two_reports_in_one_commit_count_as_one_of_twice_the_length():
    assert exposure(promise("gaussian"), tasks([(0, 1), (0, 1), (0, 2)])) == (5.0, 3)


def test_what_was_sent_and_dropped_counts_only_where_noise_is_local():
    result = tasks([(0, 1), (1, 1)], dropped=(1, 1))
    assert exposure(promise("gaussian"), result) == (1.0, 1)
    assert exposure(promise("local"), result) == (3.0, 3)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(1, 40), st.data())
def test_the_tree_against_its_matrix(commits, data):
    """Everything that the run releases is B (C x + z): C from the terms themselves, exposure the largest norm of C x."""
    inside = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, commits)), max_size=12))
    everyone = [*inside, *((9, v) for v in range(1, commits + 1))]
    nodes = sorted({(level, index) for c in range(1, commits + 1) for _, level, index in terms("tree", c)})
    c_matrix = np.array([[index << level <= t < (index + 1) << level for t in range(commits)] for level, index in nodes], float)
    b_matrix = np.zeros((commits, len(nodes)))
    for commit in range(1, commits + 1):
        b_matrix[commit - 1] = b_matrix[commit - 2] if commit > 1 else 0.0
        for sign, level, index in terms("tree", commit):
            b_matrix[commit - 1, nodes.index((level, index))] += sign
    assert np.array_equal(b_matrix @ c_matrix, np.tril(np.ones((commits, commits)))), "prefix sums, made of nodes"
    wanted = 0.0
    for client in (*range(4), 9):
        x = np.bincount([v - 1 for c, v in everyone if c == client], minlength=commits)
        wanted = max(wanted, float(((c_matrix @ x) ** 2).sum()))
    assert exposure(promise("tree"), tasks(everyone))[0] == wanted


def test_whoever_comes_once_pays_more_in_a_tree_and_the_noise_in_the_model_grows_slowly():
    once = tasks([(0, 1), *((c, c) for c in range(2, 65))])
    assert exposure(promise("tree"), once)[0] == 7.0 and exposure(promise("gaussian"), once)[0] == 1.0
    held = {}
    for commit in range(1, 64):
        for sign, level, index in terms("tree", commit):
            held[level, index] = held.get((level, index), 0) + sign
    assert sum(held.values()) == 6, "63 commits, the noise of six"


def test_the_claim_says_what_is_not_claimed():
    said = privacy_loss(promise("gaussian", 2.0), [], tasks([(0, 1), (0, 2)]))
    assert said["epsilon"] == gaussian_epsilon(2.0, 2.0, 1e-5)
    assert (said["delta"], said["participations"], said["mechanism"]) == (1e-5, 2, "gaussian")
    assert "no amplification by sampling is claimed" in said["claim"] and "losses" in said["claim"]
    assert privacy_loss(promise("tree"), [], tasks([]))["epsilon"] == 0.0


def test_more_noise_and_less_participation_give_less_away():
    losses = [gaussian_epsilon(noise, 4.0, 1e-5) for noise in (0.5, 1.0, 2.0, 8.0)]
    assert losses == sorted(losses, reverse=True)
    assert gaussian_epsilon(1.0, 2.0, 1e-5) < gaussian_epsilon(1.0, 3.0, 1e-5)


def test_a_missing_accountant_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(BadInput, match=r"pip install 'fedfleet\[private\]'"):
        require_accountant()
