"""Frozen weights are in no spec and never travel: whoever builds a spec again elsewhere must come to the same ones."""

from __future__ import annotations

import re

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task

_PIN = "# frozen weights: "  # a comment of the spec's text, before their hash


def pin_frozen_weights(text: str, task: Task) -> str:
    """A spec's text that says by their hash with which frozen weights it is meant, where the task has any."""
    return f"{_PIN}{task.frozen_name}\n{text}" if task.frozen else text


def check_pin(text: str, task: Task) -> None:
    """Refuse a task whose frozen weights are not those that the text was meant with."""
    pin = re.match(rf"{_PIN}\w+\n", text)
    if pin is not None and pin_frozen_weights("", task) != pin[0]:
        raise BadInput(
            "task.backbone: the frozen weights here are not those of the run; bring the same file of weights to this machine"
        )
