"""The lives of tasks at the desk against their literal model: thousands, instead of the sample that every test run takes."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.network.rules.test_task_table import Model


def test_tasks_agree_with_their_literal_model_over_long_lives():
    run_state_machine_as_test(Model, settings=settings(max_examples=1000, stateful_step_count=80, deadline=None, derandomize=True))
