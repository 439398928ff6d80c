"""Registered parts with what they cannot do without."""

from fedfleet.app.assemble import score_states
from fedfleet.core.labels import RunFacts
from fedfleet.core.registry import builder, parameters

# What a builder cannot do without, by name.
NEEDED = {
    "overcommit": lambda: {"policy": builder("policies", "deadline")(5)},
    "mobile": lambda: {"devices": builder("devices", "spread")()},
    "dpcsm": lambda: {"score": score_states},
}


def built(kind: str, name: str):
    """The part of this name, with its defaults; who asks about the run is told of a small one."""
    return builder(kind, name)(**NEEDED.get(name, dict)(), **facts_for(builder(kind, name)))


def facts_for(build):
    """What this builder wants to know about the run, by parameter."""
    return {n: RunFacts(clients=8, seed=3, rounds=5) for n, (hint, _) in parameters(build).items() if hint is RunFacts}
