"""What a client's half refuses when it begins is refused before the run does."""

from __future__ import annotations

import numpy as np

from fedfleet.core.parts import Job, Plan
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.rng import client_keys

_MOST_TRIED = 50  # clients: enough to meet what is drawn for each of them, such as a width


def check_first_jobs(plan: Plan) -> None:
    """Let some clients' hooks look at a first task, without training it: BadInput is better raised here than in round 17."""
    server = plan.algorithm.init(plan.params)
    some = min(plan.clients, _MOST_TRIED)
    for client, key in enumerate(client_keys(some).tolist()):
        local = plan.algorithm.local(client, NO_SETTINGS)
        if not isinstance(local, LocalPass) or not local.before:
            continue
        offer = plan.algorithm.offer(server, client, NO_SETTINGS)
        job = Job(client, client, key, plan.seed, offer, local, np.zeros(1, np.int64))
        for hook in local.before:
            job = hook(job)
