"""From a resolved spec to a plan, a world and an executor."""

from fedfleet.app.assemble.feasibility import feasibility_warnings, run_warnings
from fedfleet.app.assemble.plan import assemble
from fedfleet.app.assemble.rebuild import rebuild, rebuild_for_worker
from fedfleet.app.assemble.setup import Setup, metric_warnings, open_executor, score_of
from fedfleet.app.assemble.world import score_states

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
