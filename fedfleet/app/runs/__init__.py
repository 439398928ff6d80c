"""Running a spec in a folder, and what can be done with such a folder afterwards."""

from fedfleet.app.runs.execution import perform
from fedfleet.app.runs.run_folder import (
    Finished,
    finished,
    kept_caveats,
    kept_chance,
    opened,
    own_measures,
    stored_weights,
)

__all__ = ["Finished", "finished", "kept_caveats", "kept_chance", "opened", "own_measures", "perform", "stored_weights"]
