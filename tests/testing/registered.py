"""Registered parts with what they cannot do without."""

from fedfleet.app.assemble import score_states
from fedfleet.core.registry import builder

# What a builder cannot do without, by name.
NEEDED = {
    "overcommit": lambda: {"policy": builder("policies", "deadline")(5)},
    "mobile": lambda: {"devices": builder("devices", "spread")()},
    "label_flip": lambda: {"of": builder("partitions", "dirichlet")()},
    "dpcsm": lambda: {"score": score_states},
}


def built(kind: str, name: str):
    """The part of this name, with its defaults."""
    return builder(kind, name)(**NEEDED.get(name, dict)())
