"""Public conformance checks: run them over your own parts before you register them.

    from fedfleet.testing import check_selector
    check_selector(my_selector())

Each prints what it checked (`quiet=True`: nothing) and gives it as a `Conformance`, or raises AssertionError with the rule that
was broken, what was seen, and the cure. Everything is asked twice, in another order, with other global random generators and
clocks. They load on first use: those of executors need torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedfleet.testing.algorithms import check_algorithm
    from fedfleet.testing.codecs import check_codec
    from fedfleet.testing.conformance import Conformance, check_across_processes
    from fedfleet.testing.executors import check_executor, check_kinks
    from fedfleet.testing.folds import check_fold
    from fedfleet.testing.selectors_and_policies import check_policy, check_selector
    from fedfleet.testing.sources import (
        check_data_source,
        check_device_source,
        check_energy_source,
        check_fault_source,
        check_partition,
        check_state_source,
    )

_HOMES = {
    "codecs": "check_codec", "executors": "check_executor check_kinks", "algorithms": "check_algorithm", "folds": "check_fold",
    "conformance": "Conformance check_across_processes",
    "sources": "check_data_source check_device_source check_energy_source check_fault_source check_partition check_state_source",
    "selectors_and_policies": "check_policy check_selector",
}  # fmt: skip

__all__ = [
    "Conformance",
    "check_across_processes",
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
        if name in names.split():
            return getattr(import_module(f"fedfleet.testing.{home}"), name)
    raise AttributeError(f"module 'fedfleet.testing' has no attribute {name!r}")
