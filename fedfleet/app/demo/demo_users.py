"""The demo's second question: the same devices grouped by user; a user's devices may exchange samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.edges import NestedPass
from fedfleet.core.parts import Job, Offer
from fedfleet.engine.hierarchy import make_visits
from fedfleet.shuffle import Problem, problem_from

DEVICES, USERS_A_ROUND, MINUTES, TARGET = 70, 4, 20, 0.85
METHODS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "FedAvg": ("Devices are asked one by one, no matter whose they are.", None),
    "HierFL": (
        "A user's devices are averaged three times among themselves before anything goes to the server.",
        {"use": "hierfl", "kappa1": 2, "kappa2": 3},
    ),
    "ShuffleFL": (
        "Before training, a user's devices exchange samples, so that all finish together and hold similar mixtures.",
        {"use": "shufflefl"},
    ),
}


def users_spec(method: str, seed: int) -> dict[str, Any]:
    """The spec of one of the runs. A flat run asks as many devices per round as the users of the others have together."""
    edge = METHODS[method][1]
    table = {
        "seed": seed,
        "task": {"use": "digits_mlp"},
        "world": {
            "clients": DEVICES,
            "devices": {"use": "spread", "mbps": 20.0, "link": 1.33, "compute": 0.64},
            "data": {"use": "dirichlet", "alpha": 1.0},
            "users": {"use": "households", "devices": [2, 5]},
        },
        "algorithm": {"use": "fedavg", "optimiser": "adam", "lr": 0.003, "epochs": 5, "batch": 32},
        "pace": {"use": "readiness", "cohort": USERS_A_ROUND if edge else round(3.5 * USERS_A_ROUND)},
        "stop": {"rounds": 10_000, "virtual_seconds": 60.0 * MINUTES},
        "run": {"execute": "stacked"},
    }
    return table | ({"edge": edge} if edge else {})


def one_user(seed: int) -> Problem:
    """The exchange of samples of the user with most devices, in the first round."""
    setup = assemble(resolve(users_spec("ShuffleFL", seed)))
    inside = setup.plan.algorithm.local(0, {})
    assert isinstance(inside, NestedPass)
    user = int(np.argmax(np.bincount(inside.fleet.users.user_of)))
    job = Job(0, user, 0, seed, Offer({}), inside, setup.world.data.shard(user, "train", 0))
    (visit,) = make_visits([job])
    data = setup.task.dataset
    return problem_from(
        {
            "counts": np.stack([np.bincount(data.y[rows], minlength=data.classes) for rows in visit.rows]),
            "seconds_per_sample": visit.abilities.seconds_per_sample,
            "up_bps": visit.abilities.up_bps,
            "down_bps": visit.abilities.down_bps,
            "bits_per_sample": 8 * data.x[:1].nbytes,
            "epochs": 5,
            "alpha": "auto",
        }
    )
