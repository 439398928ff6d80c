"""The cost of a task, Eq. (3) of FLHetBench: |theta|/B_up + |theta|/B_down + |D| S_comp (+ unavailable time and t_break).

To this we add, for devices that say so, a fixed time for every training batch, whatever its size. Unavailable time
comes from the state source, t_break from the pacing policy: neither belongs to a device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fedfleet.core.commands import Account
from fedfleet.core.events import TasksSpent
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import NO_SETTINGS, BatchPlan, LocalPass
from fedfleet.core.records import Assignments, Cost, Floats, Ints, ServerState, Settings
from fedfleet.core.trees import tree_nbytes

# A training sample costs a forward and a backward pass, taken as three times the forward pass alone.
TRAINING_PASSES = 3.0


def stage_seconds(
    cost: Cost,
    down_kbps: Floats,
    up_kbps: Floats,
    seconds_per_sample: Floats,
    latency: Floats,
    *,
    seconds_per_batch: Floats | float = 0.0,
) -> dict[str, Floats]:
    """Seconds of latency, download, training and upload; speeds in kbit/s, `seconds_per_sample` is inference time.

    `seconds_per_batch` is what a training batch takes besides its samples; it is not tripled.

    >>> import numpy as np
    >>> one = Cost(np.array([10.0]), np.array([1e6]), np.array([1e6]))
    >>> stages = stage_seconds(one, np.array([8000.0]), np.array([4000.0]), np.array([0.1]), np.array([0.0]))
    >>> {name: float(seconds[0]) for name, seconds in stages.items()}
    {'latency': 0.0, 'download': 1.0, 'compute': 3.0, 'upload': 2.0}
    """
    bits = 8.0 / 1000.0
    compute = TRAINING_PASSES * cost.samples * seconds_per_sample
    if cost.batches is not None:
        compute = compute + seconds_per_batch * cost.batches
    down, up = cost.bytes_down * bits / down_kbps, cost.bytes_up * bits / up_kbps
    return {"latency": latency, "download": down, "compute": compute, "upload": up}


def scale_cost(cost: Cost, byte_scale: float, charge: float | None = None) -> Cost:
    """The cost as if the model had its declared size: bytes scale, samples and batches do not.

    With `charge`, every task is charged for that many samples, whatever it trains on; nothing is counted by batches then.
    """
    if charge is not None:
        cost = replace(cost, samples=np.full(len(cost.samples), float(charge)), batches=None)
    if byte_scale == 1.0:
        return cost
    return replace(cost, bytes_down=cost.bytes_down * byte_scale, bytes_up=cost.bytes_up * byte_scale)


def cost_of(algorithm: Algorithm, server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
    """The algorithm's own price, or the one that follows from its parts."""
    return (algorithm.cost or partial(derive_cost, algorithm))(server, assignments, samples)


def derive_cost(algorithm: Algorithm, server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
    """Down: the offer without what stays at home. Up: what the fold takes. Samples and batches: every stage of the chain."""
    n = len(assignments.clients)
    done, batches, down = np.zeros(n), np.zeros(n), np.zeros(n)
    sizes: dict[tuple[int, ...], float] = {}
    groups: dict[LocalPass, list[int]] = {}
    groups_by_id: dict[int, list[int]] = {}  # by identity first: a value takes longer to find
    for i, client in enumerate(assignments.clients.tolist()):
        settings = settings_at(assignments, i)
        offer, local = algorithm.offer(server, client, settings), algorithm.local(client, settings)
        chain = local if isinstance(local, LocalPass) else None
        encoded_bytes = -1 if offer.nbytes is None else int(offer.nbytes)
        size_key = (id(offer.params), id(offer.extra) if offer.extra else 0, id(chain.keep) if chain else 0, encoded_bytes)
        if size_key not in sizes:
            keep = None if chain is None else chain.keep
            sent = {n: v for n, v in offer.params.items() if keep is None or not keep(n)}
            sizes[size_key] = float(tree_nbytes(sent) + tree_nbytes(offer.extra)) if offer.nbytes is None else offer.nbytes
        down[i] = sizes[size_key]
        if chain is None:  # an opaque pass is taken to see its shard once
            done[i] = np.ceil(assignments.share[i] * samples[i])
        else:
            positions = groups_by_id.get(id(chain))
            if positions is None:
                positions = groups_by_id[id(chain)] = groups.setdefault(chain, [])
            positions.append(i)
    for chain, members in groups.items():
        at = np.array(members, np.int64)
        for stage in chain.work():
            seen, steps = work_of(stage.batches, assignments.steps[at], assignments.share[at], samples[at])
            done[at] += seen
            batches[at] += steps
    up = np.full(n, float(tree_nbytes(algorithm.fold.like(server))))
    return Cost(done, down, up, batches)


def steps_of(algorithm: Algorithm, clients: Ints, samples: Ints) -> Floats:
    """How many steps the whole work takes each client; NaN where an opaque pass does not say."""
    result = np.full(len(clients), np.nan)
    groups: dict[LocalPass, list[int]] = {}
    for i, client in enumerate(clients.tolist()):
        local = algorithm.local(client, NO_SETTINGS)
        if isinstance(local, LocalPass):
            groups.setdefault(local, []).append(i)
    for chain, members in groups.items():
        at = np.array(members, np.int64)
        whole, all_of_it = np.zeros(len(at), np.int64), np.ones(len(at))
        result[at] = sum(work_of(stage.batches, whole, all_of_it, samples[at])[1] for stage in chain.work())
    return result


def epochs_of(algorithm: Algorithm, samples: Ints) -> float:
    """How often a sample is trained on in one task, on average over clients with that many samples each."""
    seen, known = 0.0, 0
    for i, n in enumerate(samples.tolist()):
        local = algorithm.local(i, NO_SETTINGS)
        if isinstance(local, LocalPass):
            own = (np.zeros(1, np.int64), np.ones(1), samples[i : i + 1])
            seen += sum(float(work_of(stage.batches, *own)[0][0]) for stage in local.work())
            known += n
    return seen / known if known else 1.0


def settings_at(assignments: Assignments, i: int) -> Settings:
    """The settings of one assignment."""
    return {name: float(column[i]) for name, column in assignments.settings.items()} if assignments.settings else NO_SETTINGS


def work_of(batches: BatchPlan, asked_steps: Ints, share: Floats, samples: Ints) -> tuple[Floats, Floats]:
    """How many samples each assignment trains on in one stage, repetitions counted, and in how many batches."""
    shard = np.ceil(share * samples)
    per_pass = np.maximum(np.ceil(shard / batches.size), 1.0)
    steps = np.where(asked_steps > 0, asked_steps, batches.steps or 0)
    # The last batch of a pass is short, so that whole passes are counted by the shard and only the rest by batches.
    passes, rest = np.divmod(steps, per_pass)
    seen = np.where(steps > 0, passes * shard + rest * batches.size, batches.epochs * shard)
    return seen, np.where(steps > 0, steps, batches.epochs * per_pass).astype(np.float64)


@dataclass(frozen=True, slots=True)
class ReportedCost:
    """What is known of a task's cost: the bytes of its report, and what its device measured, by stage."""

    bytes_up: float
    spent: Mapping[str, float]


_NOT_REPORTED = ReportedCost(math.nan, {})
_MEASURED_STAGES = ("download", "compute")  # whose length a device can measure


def tasks_spent(command: Account, costs: list[ReportedCost | None], now: float) -> TasksSpent:
    """What ended tasks cost, as far as it is known; a device that reports more seconds than passed is not believed.

    How long an upload takes only its two ends together could measure, so that it stays unknown.
    """
    n = len(command.tasks)
    spent = {name: np.full(n, np.nan) for name in (*_MEASURED_STAGES, "upload", "bytes_down", "bytes_up")}
    clients = np.zeros(n, np.int64)
    for i, (task, wave, seconds) in enumerate(zip(command.tasks, command.waves, command.seconds, strict=True)):
        slot, cost = task - wave.first, costs[i] or _NOT_REPORTED
        clients[i], spent["bytes_up"][i] = wave.assignments.clients[slot], cost.bytes_up
        if not math.isnan(cost.bytes_up):
            spent["bytes_down"][i] = wave.cost.bytes_down[slot]
        if all(v >= 0 for v in cost.spent.values()) and sum(cost.spent.values()) <= seconds:
            for name in _MEASURED_STAGES:
                spent[name][i] = cost.spent.get(name, math.nan)
    return TasksSpent(now, np.array(command.tasks, np.int64), clients, spent)
