"""What is refused before a run begins: parts of a plan that do not fit together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput, FedFleetError, suggest_name
from fedfleet.core.limits import read_target
from fedfleet.core.memory_limit import check_memory
from fedfleet.core.parts import Job, Plan, Policy, Task
from fedfleet.core.passes import NO_SETTINGS, BatchPlan, LocalPass, remembers
from fedfleet.core.records import Ints, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import World
from fedfleet.tasks.task_checks import needs_two_samples

# What a client costs while a world is made; and as one of a user's devices, whose samples are listed one by one.
_CLIENT_BYTES, _USER_BYTES = 400, 4000
# Batch sizes that are tried for the cure.
_MOST_BATCH = 256
# Clients whose hooks are tried: enough to meet what is drawn for each of them, such as a width.
_MOST_CLIENTS = 50


def check_pace(table: Mapping[str, Any], where: str) -> None:
    """Refuse a policy that is made of the same policy twice."""
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    for (key, policy), (other_key, other_policy) in combinations(inner.items(), 2):
        if policy == other_policy:
            raise BadInput(
                f"{where}: {key} and {other_key} are the same policy {policy['use']!r}; use two different policies, or only one"
            )
    for key, value in inner.items():
        check_pace(value, f"{where}.{key}")


def check_fold_minimum(plan: Plan) -> None:
    """Refuse a fold that needs more reports than a round can have."""
    least, holds = plan.algorithm.fold.least, plan.pace.holds
    cohort, key = (plan.pace.cohort, plan.pace.key) if holds is None else (holds, plan.pace.holds_key)
    if cohort < least:
        raise BadInput(
            f"algorithm.fold: the fold needs {least} reports, but a round of {plan.pace.name!r} has at most {cohort}; raise "
            f"pace.{key}, "
            "or lower the number that the fold needs"
        )


def check_report_capacity(plan: Plan) -> None:
    """Refuse a buffer that can never fill: a client with memory is asked again only after its report was folded."""
    holds = plan.pace.holds
    if holds is None or holds <= plan.clients:
        return
    if any(remembers(plan.algorithm.local(client, NO_SETTINGS)) for client in range(plan.clients)):
        key = f"pace.{plan.pace.holds_key}"
        raise BadInput(
            f"{key} = {holds}: clients of {plan.algorithm.name!r} keep memory, so each client can have one report "
            f"in a commit, but there are only {plan.clients} clients; lower {key} or raise world.clients"
        )


def check_whole_work(plan: Plan) -> None:
    """Refuse a selector that sets the amount of work for edges, which train on all that they hold by their own rule."""
    if plan.choose.tailors:
        raise BadInput(
            f"choose: {plan.choose.name!r} gives each client its own amount of work (data, steps, a part of the "
            "model), but behind edges every client does all of its work; use another selector, or remove [edge]"
        )


def check_charge(spec: Spec, plan: Plan) -> None:
    """Refuse a flat charge, under which all work costs the same, where work is given out by its cost."""
    if plan.charge is None:
        return
    if spec.edge is not None:
        raise BadInput(
            "world.charge: edges plan with the real cost of training, not with a flat charge; remove [edge] or world.charge"
        )
    if plan.choose.tailors:
        raise BadInput(
            f"world.charge: {plan.choose.name!r} gives each client the work that it has time for, but with a flat "
            "charge any work takes the same time; use another selector, or remove world.charge"
        )


def check_rounds(plan: Plan) -> None:
    """Refuse a selector that picks whole rounds under a policy that has none."""
    if plan.choose.by_round and not plan.pace.rounds:
        raise BadInput(
            f"choose: {plan.choose.name!r} selects the clients of a whole round at once, but {plan.pace.name!r} has no rounds: "
            'it replaces clients one by one; use another selector, or a policy with rounds such as pace.use = "readiness"'
        )


def check_stop(stop: Stop) -> None:
    """Refuse more models than rounds."""
    if stop.commits is not None and stop.commits > stop.rounds:
        raise BadInput(
            f"stop.commits: {stop.commits} models cannot be made in stop.rounds = {stop.rounds} rounds; raise stop.rounds or lower "
            "stop.commits"
        )


def check_target(stop: Stop, task: Task) -> None:
    """Refuse a target for a measure that the task has not."""
    parsed = None if stop.target is None else read_target(stop.target)
    if parsed is None:
        return
    kind = task.dataset.kind
    own = kind.score.lower().replace(" ", "_")
    names = ("score", own, *kind.measures, *task.metrics)
    if parsed[0].removeprefix("own.") not in (*names, kind.score):
        raise BadInput(
            f"stop.target: the task {task.name!r} ({kind.name}) has no measure {parsed[0]!r}{suggest_name(parsed[0], names)}"
        )


def check_clients(spec: Spec) -> None:
    """Refuse a fleet that does not fit into this machine's memory, before any of it is taken."""
    n = spec.world["clients"]
    each = _USER_BYTES if "users" in spec.world else _CLIENT_BYTES
    check_memory(each * n, f"world.clients: a fleet of {n:,} clients", "ask for fewer clients")


def check_cohort(pace: Policy, clients: int, what: str) -> None:
    """Refuse a cohort that is larger than the fleet."""
    if pace.cohort > clients:
        raise BadInput(
            f"pace: {pace.name!r} needs {pace.cohort} clients at once, more than the fleet of {clients} {what}; "
            f"lower pace.{pace.key} or raise world.clients"
        )


def check_batches(task: Task, plan: Plan, world: World) -> None:
    """Refuse a run in which some client would train on a batch of one sample, where the model needs two."""
    try:
        if not needs_two_samples(task.build, task.dataset.x):
            return
    except FedFleetError:  # the model of another machine, which is not trained here
        return
    sizes = world.data.sizes(0)
    for client, samples in enumerate(sizes.tolist()):
        local = plan.algorithm.local(client, {})
        for stage in local.work() if isinstance(local, LocalPass) else ():
            if leaves_batch_of_one(stage.batches, samples):
                raise BadInput(
                    f"batch normalisation needs at least two samples in a batch, but client {client} has "
                    f"{samples} training samples in batches of {stage.batches.size}, so its last batch would have one; "
                    f"{_cure(sizes)}"
                )


def leaves_batch_of_one(batches: BatchPlan, samples: int) -> bool:
    """Is one of the batches of that many samples a batch of one?

    >>> [leaves_batch_of_one(BatchPlan(16), n) for n in (33, 34)], leaves_batch_of_one(BatchPlan(16, steps=2), 33)
    ([True, False], False)
    """
    last = -(-samples // batches.size)
    return samples > 0 and (samples - 1) % batches.size == 0 and (batches.steps is None or batches.steps >= last)


def _cure(sizes: Ints) -> str:
    counts = np.unique(sizes[sizes > 0])
    batches = [b for b in range(2, _MOST_BATCH) if not ((counts - 1) % b == 0).any()]
    group = "use GroupNorm instead of BatchNorm"
    return f"set algorithm.batch to {min(batches, key=lambda b: abs(b - 16))}, or {group}" if batches else group


def check_first_jobs(plan: Plan) -> None:
    """Run the hooks of some clients on a first task, without training: a refusal comes before the run, not in round 17."""
    server = plan.algorithm.init(plan.params)
    some = min(plan.clients, _MOST_CLIENTS)
    for client, key in enumerate(client_keys(some).tolist()):
        local = plan.algorithm.local(client, NO_SETTINGS)
        if not isinstance(local, LocalPass) or not local.before:
            continue
        offer = plan.algorithm.offer(server, client, NO_SETTINGS)
        job = Job(client, client, key, plan.seed, offer, local, np.zeros(1, np.int64))
        for hook in local.before:
            job = hook(job)
