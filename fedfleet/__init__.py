"""FedFleet: cross-device federated learning on the devices that people really own.

The public names load on first use, so that importing the package stays instant on a watch as on a workstation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# module -> the public names that it holds
_PUBLIC = {
    "fedfleet.app.api": ("compare", "load", "replay", "run", "study"),
    "fedfleet.app.result": ("Commit", "Result"),
    "fedfleet.core.errors": ("BadInput", "Refused", "RunFailed"),
    "fedfleet.core.registry": ("register",),
    "fedfleet.runtime.simulate": ("simulate",),
    # the types that parts are made of, for whoever writes their own
    "fedfleet.core.parts": ("Algorithm", "Dataset", "Draw", "Offer", "Policy", "Selector", "Task"),
    "fedfleet.core.sources": ("DataSource", "DeviceSource", "StateSource"),
    "fedfleet.core.passes": ("BatchPlan", "LocalPass", "Optimiser", "Passed", "Slot"),
    "fedfleet.core.folding": ("Fold",),
    "fedfleet.core.labels": ("RunFacts",),
    "fedfleet.core.records": ("Assignments", "Book", "Cost", "Decision", "Ended", "Report", "Roster", "ServerState", "whole_work"),
}  # fmt: skip
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

if TYPE_CHECKING:
    from fedfleet.app.api import compare, load, replay, run, study
    from fedfleet.app.result import Commit, Result
    from fedfleet.core.errors import BadInput, Refused, RunFailed
    from fedfleet.core.folding import Fold
    from fedfleet.core.labels import RunFacts
    from fedfleet.core.parts import Algorithm, Dataset, Draw, Offer, Policy, Selector, Task
    from fedfleet.core.passes import BatchPlan, LocalPass, Optimiser, Passed, Slot
    from fedfleet.core.records import (
        Assignments,
        Book,
        Cost,
        Decision,
        Ended,
        Report,
        Roster,
        ServerState,
        whole_work,
    )
    from fedfleet.core.registry import register
    from fedfleet.core.sources import DataSource, DeviceSource, StateSource
    from fedfleet.runtime.simulate import simulate

__all__ = [
    "Algorithm", "Assignments", "BadInput", "BatchPlan", "Book", "Commit", "Cost", "DataSource", "Dataset", "Decision",
    "DeviceSource", "Draw", "Ended", "Fold", "LocalPass", "Offer", "Optimiser", "Passed", "Policy", "Refused", "Report", "Result",
    "Roster", "RunFacts", "RunFailed", "Selector", "ServerState", "Slot", "StateSource", "Task", "__version__", "compare",
    "load", "register", "replay", "run", "simulate", "study", "whole_work",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'fedfleet' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
