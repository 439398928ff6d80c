"""Public conformance checks: run them over your own parts before you register them.

    from fedfleet.testing import check_selector
    check_selector(my_selector())

Each raises AssertionError with the rule that was broken. They load on first use: those of executors need torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedfleet.testing.coding import check_codec
    from fedfleet.testing.executing import check_executor, check_kinks
    from fedfleet.testing.learning import check_algorithm, check_fold
    from fedfleet.testing.sources import (
        check_data_source,
        check_device_source,
        check_energy_source,
        check_fault_source,
        check_partition,
        check_state_source,
    )
    from fedfleet.testing.steering import check_policy, check_selector

_HOMES = {
    "coding": ("check_codec",),
    "executing": ("check_executor", "check_kinks"),
    "learning": ("check_algorithm", "check_fold"),
    "sources": (
        "check_data_source",
        "check_device_source",
        "check_energy_source",
        "check_fault_source",
        "check_partition",
        "check_state_source",
    ),
    "steering": ("check_policy", "check_selector"),
}

__all__ = [
    "check_algorithm",
    "check_codec",
    "check_data_source",
    "check_device_source",
    "check_energy_source",
    "check_executor",
    "check_fault_source",
    "check_fold",
    "check_kinks",
    "check_partition",
    "check_policy",
    "check_selector",
    "check_state_source",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"fedfleet.testing.{home}"), name)
    raise AttributeError(f"module 'fedfleet.testing' has no attribute {name!r}")
