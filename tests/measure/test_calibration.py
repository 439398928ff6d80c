"""Calibration: the noise and the exponent with which runs were made up are found again, and nothing is made of no runs."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.measure.calibration import EXPONENTS, ReferenceCurve, calibrate, noises
from fedfleet.measure.class_clock import Ideal, class_clock, evidence, predict_accuracy
from tests.measure.test_class_clock import CURVE, TEST, members

CLIENTS = 30


def made_up(noise, exponent):
    """Runs with two of all clients a commit, and with the same two in all of them, exactly as they are foretold with these."""
    rng = np.random.default_rng(0)
    labels = rng.integers(1, 9, (CLIENTS, 3))
    everyone = class_clock(members(*[range(CLIENTS)] * 60, clients=CLIENTS), labels, cohort=20)
    ideal = Ideal(CURVE[:61], everyone.diversity, noise, 20, exponent)
    small = members(*[rng.permutation(CLIENTS)[:2].tolist() for _ in range(60)], clients=CLIENTS)
    same = members(*[[3, 11, 20]] * 60, clients=CLIENTS)
    runs = [
        ReferenceCurve(part, predict_accuracy(class_clock(part, labels, cohort=20, noise=noise), ideal, TEST))
        for part in (small, same)
    ]
    return ideal, runs, labels


@pytest.mark.parametrize("noise", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("exponent", [0.0, 0.1, 0.4])
def test_both_constants_are_found_again(noise, exponent):
    ideal, runs, labels = made_up(noise, exponent)
    result = calibrate(replace(ideal, noise=9.0, exponent=9.0), runs, labels, TEST)
    assert result.noise == pytest.approx(noise, rel=0.25, abs=0.1) and result.exponent == pytest.approx(exponent, abs=0.03)
    assert result.accuracy is ideal.accuracy and result.cohort == 20


def test_only_the_exponents_that_are_asked_for_are_tried():
    ideal, runs, labels = made_up(0.5, 0.4)
    assert calibrate(ideal, runs, labels, TEST, exponents=np.array([0.1])).exponent == 0.1
    assert calibrate(ideal, runs, labels, TEST).exponent in EXPONENTS
    assert calibrate(ideal, [], labels, TEST) is ideal


def test_the_noises_tried_are_evenly_spaced_in_what_a_small_commit_is_worth():
    result = noises(2.0, 20)
    worth = [float(evidence(np.array([2]), 20, b)[0]) for b in result]
    assert result[0] == 0.0 and result[-1] == np.inf and np.diff(worth) == pytest.approx(np.diff(worth)[0])
    assert noises(20.0, 20) == noises(30.0, 20) == [0.0]
