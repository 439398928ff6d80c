"""From a resolved spec to a plan, a world and an executor."""

from fedfleet.app.assemble.feasibility import doubts
from fedfleet.app.assemble.plan import assemble
from fedfleet.app.assemble.rebuild import rebuild, rebuild_kit
from fedfleet.app.assemble.setup import Setup, caveats, chance_of, executing
from fedfleet.app.assemble.world import score_states

__all__ = ["Setup", "assemble", "caveats", "chance_of", "doubts", "executing", "rebuild", "rebuild_kit", "score_states"]
