"""Registered parts with what they cannot do without."""

from functools import partial

from fedfleet.app.assemble import assemble, score_states
from fedfleet.app.spec import resolve
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.registry import builder, parameters
from fedfleet.core.rng import client_keys
from fedfleet.tasks.digits import digits_logreg
from fedfleet.tasks.narrow_models import shape_at


def slicing():
    """What methods that slice a model must know of the one that they are tried on."""
    return {"fleet": FleetFacts(partial(shape_at, digits_logreg()(0)), client_keys(50))}


# What a builder cannot do without, by name.
NEEDED = {
    **{name: lambda: {"head": "3.*"} for name in ("fedper", "fedrep", "fedbabu")},
    "overcommit": lambda: {"policy": builder("policies", "deadline")(5)},
    "first_of": lambda: {"first": builder("policies", "timeout")(6), "second": builder("policies", "deadline")(5)},
    "only": lambda: {"ids": list(range(0, 50, 2))},
    "mobile": lambda: {"devices": builder("devices", "spread")()},
    "equalled": lambda: {"devices": builder("devices", "spread")(), "links": True},
    "all_of": lambda: {"faults": [builder("faults", name)() for name in ("lossy", "crashes", "delayed", "slowed")]},
    "label_flip": lambda: {"of": builder("partitions", "dirichlet")()},
    "dpcsm": lambda: {"score": score_states},
    "per_kind": lambda: {"watts": {"slow": {"compute": 2.0}, "fast": {"compute": 6.0, "tail": 0.0}}},
    "carbon": lambda: {"energy": builder("energy", "phones")(link="4g")},
    "heterofl": slicing,
    "fjord": slicing,
}


# What an algorithm needs of a model, by name, as a spec names a task: more than one layer, layers that normalise, a backbone.
_TINY_VIT = {"use": "digits_vit", "width": 8, "depth": 2, "heads": 2, "backbone": ""}
FITTING = {
    **{n: {"use": "digits_mlp"} for n in ("fedper", "fedrep", "fedbabu", "heterofl", "fjord", "timelyfl")},
    "fedbn": {"use": "digits_cnn", "channels": 2, "norm": "batch"},
    "biasprompt": _TINY_VIT,
    "biasprompt_plus": _TINY_VIT,
}


def fitting_task(algorithm: str):
    """The table of a small task that this algorithm can train."""
    return FITTING.get(algorithm, {"use": "digits_logreg"})


def assembled(algorithm: str, task: dict[str, object] | None = None, **settings: object):
    """A small run of this algorithm, put together as any run is: its plan, and the task as the algorithm trains it."""
    table = {
        "task": task or fitting_task(algorithm),
        "algorithm": {"use": algorithm, **settings},
        "world": {"clients": 8},
    }
    return assemble(resolve({**table, "pace": {"cohort": 3}, "stop": {"rounds": 5}}))


def built(kind: str, name: str):
    """The part of this name, with its defaults; who asks about the run is told of a small one."""
    return builder(kind, name)(**NEEDED.get(name, dict)(), **facts_for(builder(kind, name)))


def facts_for(build):
    """What this builder wants to know about the run, by parameter."""
    return {n: RunFacts(clients=8, seed=3, rounds=5) for n, (hint, _) in parameters(build).items() if hint is RunFacts}
