"""FedFleet: cross-device federated learning on the devices that people really own.

The public names load on first use, so that importing the package stays instant on a watch as on a workstation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fedfleet.core.old_names import install as _install_old_names

__version__ = "0.1.0"

# module -> the public names that it holds
_PUBLIC = {
    "fedfleet.app.api.predict": ("predict",),
    "fedfleet.app.api.measure_result": ("Measured", "Metric"),
    "fedfleet.app.studies.predict.prediction_result": ("Predicted", "Range", "Swept"),
    "fedfleet.app.api.measure": ("measure",),
    "fedfleet.app.api.report": ("Reported", "report"),
    "fedfleet.app.api.tune": ("tune",),
    "fedfleet.app.api.study": ("compare", "study"),
    "fedfleet.app.api.run": ("load", "replay", "run"),
    "fedfleet.app.studies.compare.comparison": ("Comparison",),
    "fedfleet.tasks.user_data.samples": ("OwnData", "data"),
    "fedfleet.app.api.run_result": ("Commit", "Result"),
    "fedfleet.app.studies.grid.run_study": ("Studied",),
    "fedfleet.app.studies.tune.search_result": ("Row", "Tuned"),
    "fedfleet.core.errors": ("BadInput", "Refused", "RunFailed"),
    "fedfleet.core.registry": ("register",),
    "fedfleet.simulation.simulator": ("simulate",),
    # the types that parts are made of, for whoever writes their own
    "fedfleet.core.parts": ("Algorithm", "Dataset", "Draw", "Offer", "Policy", "Selector", "Task"),
    "fedfleet.core.sources": ("DataSource", "DeviceSource", "StateSource"),
    "fedfleet.core.passes": ("BatchPlan", "LocalPass", "Optimiser", "Passed", "Slot"),
    "fedfleet.core.aggregation": ("Fold",),
    "fedfleet.core.part_facts": ("RunFacts",),
    "fedfleet.core.records": ("Assignments", "Book", "Cost", "Decision", "Ended", "Report", "Roster", "ServerState", "whole_work"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

if TYPE_CHECKING:
    from fedfleet.app.api.measure import measure
    from fedfleet.app.api.measure_result import Measured, Metric
    from fedfleet.app.api.predict import predict
    from fedfleet.app.api.report import Reported, report
    from fedfleet.app.api.run import load, replay, run
    from fedfleet.app.api.run_result import Commit, Result
    from fedfleet.app.api.study import compare, study
    from fedfleet.app.api.tune import tune
    from fedfleet.app.studies.compare.comparison import Comparison
    from fedfleet.app.studies.grid.run_study import Studied
    from fedfleet.app.studies.predict.prediction_result import Predicted, Range, Swept
    from fedfleet.app.studies.tune.search_result import Row, Tuned
    from fedfleet.core.aggregation import Fold
    from fedfleet.core.errors import BadInput, Refused, RunFailed
    from fedfleet.core.part_facts import RunFacts
    from fedfleet.core.parts import Algorithm, Dataset, Draw, Offer, Policy, Selector, Task
    from fedfleet.core.passes import BatchPlan, LocalPass, Optimiser, Passed, Slot
    from fedfleet.core.records import Assignments, Book, Cost, Decision, Ended, Report, Roster, ServerState, whole_work
    from fedfleet.core.registry import register
    from fedfleet.core.sources import DataSource, DeviceSource, StateSource
    from fedfleet.simulation.simulator import simulate
    from fedfleet.tasks.user_data.samples import OwnData, data

__all__ = [
    "Algorithm", "Assignments", "BadInput", "BatchPlan", "Book", "Commit", "Comparison", "Cost", "DataSource", "Dataset",
    "Decision", "DeviceSource", "Draw", "Ended", "Fold", "LocalPass", "Measured", "Metric", "Offer", "Optimiser", "OwnData",
    "Passed", "Policy", "Predicted", "Range", "Refused", "Report", "Reported", "Result", "Roster", "Row", "RunFacts",
    "RunFailed", "Selector", "ServerState", "Slot", "StateSource", "Studied", "Swept", "Task", "Tuned", "__version__",
    "compare", "data", "load", "measure", "predict", "register", "replay", "report", "run", "simulate", "study", "tune",
    "whole_work",
]  # fmt: skip


_install_old_names()


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME:
        hint = ""
        if not name.startswith("_"):  # others ask for such names, and want no sentence
            from fedfleet.app.api.call_checks import name_hint

            hint = name_hint(name, __all__)
        raise AttributeError(f"module 'fedfleet' has no attribute {name!r}{hint}")
    value = getattr(import_module(_HOME[name]), name)
    return with_short_traceback(value) if isinstance(value, FunctionType) else value


@cache
def with_short_traceback(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call whose refusals of bad input end at the caller's line: what lies below explains nothing. With FEDFLEET_TRACE set the
    traceback is whole."""
    from fedfleet.app.api.call_checks import check_call
    from fedfleet.core.errors import BadInput

    @wraps(call)
    def short(*arguments: Any, **options: Any) -> Any:
        try:
            check_call(call, arguments, options)
            return call(*arguments, **options)
        except BadInput as error:
            if os.environ.get("FEDFLEET_TRACE"):
                raise
            raise error.with_traceback(None) from None

    return short


def __dir__() -> list[str]:
    return sorted(__all__)
