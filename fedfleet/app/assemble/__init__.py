"""From a resolved spec to a plan, a world and an executor.

The names load on first use: a device reads its configuration here, and needs neither worlds nor their statistics.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedfleet.app.assemble.feasibility import feasibility_warnings, run_warnings
    from fedfleet.app.assemble.plan import assemble
    from fedfleet.app.assemble.rebuild import rebuild, rebuild_for_worker
    from fedfleet.app.assemble.setup import Setup, metric_warnings, open_executor, score_of
    from fedfleet.app.assemble.world import score_states

_HOME = {
    "feasibility_warnings": "feasibility",
    "run_warnings": "feasibility",
    "assemble": "plan",
    "rebuild": "rebuild",
    "rebuild_for_worker": "rebuild",
    "Setup": "setup",
    "metric_warnings": "setup",
    "open_executor": "setup",
    "score_of": "setup",
    "score_states": "world",
}

__all__ = [
    "Setup",
    "assemble",
    "feasibility_warnings",
    "metric_warnings",
    "open_executor",
    "rebuild",
    "rebuild_for_worker",
    "run_warnings",
    "score_of",
    "score_states",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"fedfleet.app.assemble.{_HOME[name]}"), name)
    globals()[name] = value
    return value
