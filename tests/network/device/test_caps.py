"""What a server may ask, and how much work a task is."""

import pytest

from fedfleet.core.parts import Promise
from fedfleet.core.passes import BatchPlan, LocalPass, Optimiser, SecondModel
from fedfleet.network.device.caps import Caps, budget_reason, steps_of, too_large, too_little_noise, too_long

PLAIN = LocalPass(Optimiser(None, None), BatchPlan(10, 2))


@pytest.mark.parametrize(
    ("half", "asked", "steps"),
    [
        (PLAIN, 0, 2 * 3),
        (PLAIN, 5, 5),
        (LocalPass(Optimiser(None, None), BatchPlan(10, 2, steps=4)), 0, 4),
        (LocalPass(Optimiser(None, None), BatchPlan(10, 2), then=PLAIN), 0, 12),
        (LocalPass(Optimiser(None, None), BatchPlan(10, 1), second=SecondModel(dict, own=PLAIN)), 0, 9),
        (lambda job, data: None, 7, 7),
    ],
)
def test_the_steps_of_a_task_count_every_stage(half, asked, steps):
    assert steps_of(half, 25, asked) == steps


def test_nothing_is_declined_at_the_limit():
    caps = Caps(bytes=10, steps=5, tasks=2, seconds=3.0)
    assert too_large(caps, 10, "it") is None and too_large(caps, 11, "it")
    assert too_long(caps, 5) is None and too_long(caps, 6)
    assert budget_reason(caps, 1, 2.9) is None
    assert "2 tasks" in (budget_reason(caps, 2, 0.0) or "") and "3 s" in (budget_reason(caps, 0, 3.0) or "")
    assert budget_reason(Caps(), 10**9, 1e12) is None


def test_a_device_that_demands_noise_of_its_own_declines_runs_with_less():
    caps = Caps(noise=0.5)
    assert too_little_noise(caps, Promise("local", 0.5, 1e-5)) is None
    assert "asks for 0.4" in (too_little_noise(caps, Promise("local", 0.4, 1e-5)) or "")
    # The server adds this noise, and sees the updates before it.
    assert "asks for none" in (too_little_noise(caps, Promise("gaussian", 9.0, 1e-5)) or "")
    assert too_little_noise(Caps(), None) is None
