"""FedFleet: cross-device federated learning on the devices that people really own.

The public names load on first use, so that importing the package stays instant on a watch as on a workstation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# module -> the public names that it holds
_PUBLIC = {
    "fedfleet.app.api.foretelling": ("predict",),
    "fedfleet.app.api.found": ("Measured", "Metric", "Predicted", "Range", "Reported", "Swept"),
    "fedfleet.app.api.measuring": ("measure",),
    "fedfleet.app.api.reporting": ("report",),
    "fedfleet.app.api.searching": ("tune",),
    "fedfleet.app.api.studying": ("compare", "study"),
    "fedfleet.app.api.training": ("load", "replay", "run"),
    "fedfleet.app.comparing.record": ("Comparison",),
    "fedfleet.app.datasets.own": ("OwnData", "data"),
    "fedfleet.app.result": ("Commit", "Result"),
    "fedfleet.app.studies.answering": ("Studied",),
    "fedfleet.app.tuning.answering": ("Row", "Tuned"),
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
    from fedfleet.app.api.foretelling import predict
    from fedfleet.app.api.found import Measured, Metric, Predicted, Range, Reported, Swept
    from fedfleet.app.api.measuring import measure
    from fedfleet.app.api.reporting import report
    from fedfleet.app.api.searching import tune
    from fedfleet.app.api.studying import compare, study
    from fedfleet.app.api.training import load, replay, run
    from fedfleet.app.comparing.record import Comparison
    from fedfleet.app.datasets.own import OwnData, data
    from fedfleet.app.result import Commit, Result
    from fedfleet.app.studies.answering import Studied
    from fedfleet.app.tuning.answering import Row, Tuned
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
    "Algorithm", "Assignments", "BadInput", "BatchPlan", "Book", "Commit", "Comparison", "Cost", "DataSource", "Dataset",
    "Decision", "DeviceSource", "Draw", "Ended", "Fold", "LocalPass", "Measured", "Metric", "Offer", "Optimiser", "OwnData",
    "Passed", "Policy", "Predicted", "Range", "Refused", "Report", "Reported", "Result", "Roster", "Row", "RunFacts",
    "RunFailed", "Selector", "ServerState", "Slot", "StateSource", "Studied", "Swept", "Task", "Tuned", "__version__",
    "compare", "data", "load", "measure", "predict", "register", "replay", "report", "run", "simulate", "study", "tune",
    "whole_work",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'fedfleet' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
