"""What parts of one's own are made of has one place, which loads nothing before it is used."""

import subprocess
import sys

import numpy as np
import pytest

import fedfleet
from fedfleet import parts
from fedfleet.testing import check_algorithm


def test_every_name_is_there_and_says_what_it_is():
    for name in parts.__all__:
        assert getattr(parts, name).__doc__, name
    assert set(parts._HOME) == set(parts.__all__) == set(dir(parts))
    assert list(parts.__all__) == sorted(parts.__all__)


def test_no_name_stands_for_two_things():
    """Records of `fedfleet` are not given a second place."""
    assert not set(parts.__all__) & set(fedfleet.__all__)


def test_a_wrong_name_is_refused():
    with pytest.raises(AttributeError, match="with_rules"):
        parts.with_rules  # noqa: B018 - reading it raises


def test_importing_it_loads_neither_numpy_nor_torch():
    code = "import sys, fedfleet.parts; print([n for n in ('numpy', 'torch', 'grpc') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_an_algorithm_is_checked_without_a_task_of_ones_own():
    half = parts.with_rule(parts.fedavg(epochs=1), lambda server, mean: ({}, {n: 0.5 * v for n, v in mean.items()}))
    assert "apply" in " ".join(check_algorithm(half, quiet=True).checked)
    noisy = parts.with_rule(half, lambda server, mean: ({}, {n: v + np.random.normal() for n, v in mean.items()}))
    with pytest.raises(AssertionError, match="global generator of numpy"):
        check_algorithm(noisy)
