"""The page about one user's exchange."""

import numpy as np

from fedfleet.app.fleets.sample_exchange import solve_file
from fedfleet.app.pages.exchange_page import durations_figure, holdings_figure, user_page
from fedfleet.shuffle import identity, problem_from
from tests.app.api.test_shuffle import USER


def test_what_devices_hold_is_drawn_before_and_after():
    before = np.array([[3, 0], [1, 2]])
    text = holdings_figure(before, np.array([[2, 2], [1, 1]]))  # by class, then device
    assert "device 0, class 0: 3 samples" in text and "device 0, class 0: 2 samples" in text
    assert "device 0, class 1: 0 samples" not in text and "device 1, class 1: 1 samples" in text


def test_who_keeps_everything_pays_for_no_exchange():
    problem = problem_from(USER)
    text = durations_figure(problem, identity(problem))
    assert "exchanging samples: " not in text and text.count("training: ") == 3


def test_the_page_tells_what_changed():
    problem = problem_from(USER)
    got = solve_file(problem, solver="exact", quick=True, limit=1.0)
    text = user_page(problem, got)
    assert f"{got['moved']} of them change device" in text and "3 devices, 158 samples of 3 classes" in text
