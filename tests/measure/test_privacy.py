"""What a private run gave away: closed forms, the library's own accountants, and the tree by brute force."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from fedfleet.core.errors import BadInput
from fedfleet.core.noise import terms
from fedfleet.core.parts import Promise
from fedfleet.core.records import DROPPED, FOLDED
from fedfleet.measure.privacy import exposure, gaussian_epsilon, privacy_loss, require_accountant
from fedfleet.measure.tasks import Tasks

dp_accounting = pytest.importorskip("dp_accounting")


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
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(noise), times)
    assert gaussian_epsilon(noise, times, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


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
