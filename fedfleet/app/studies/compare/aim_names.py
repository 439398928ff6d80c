"""The names of what a recommendation may aim at."""

from __future__ import annotations

from typing import get_args

from fedfleet.app.terminal.value_checks import AimName
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.measure.measure_info import MEASURE_NAMES, OWN

AIMS: tuple[AimName, ...] = get_args(AimName)
DEFAULT_AIM = "accuracy"


def check_aim(name: object, where: str = "--aim") -> str:
    """The aim of this name: one of ours, a measure of a kind of task, or a person's own as own.NAME."""
    known = (*AIMS, *MEASURE_NAMES)
    if isinstance(name, str) and (name in known or (name.startswith(OWN) and name != OWN)):
        return name
    raise BadInput(f"{where}: there is no aim {name!r}{suggest_name(str(name), known)}; a measure of your own is own.NAME")
