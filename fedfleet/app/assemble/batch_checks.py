"""Batches of one sample, which batch normalisation cannot train on: foreseen before anything is trained."""

from __future__ import annotations

import numpy as np

from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.parts import Plan, Task
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.records import Ints
from fedfleet.core.sources import World
from fedfleet.tasks.task_checks import needs_two_samples

_MOST = 256  # batch sizes that are tried for the cure


def check_batches(task: Task, plan: Plan, world: World) -> None:
    """Refuse a run in which some client would train on a batch of one sample, where the model needs two."""
    try:
        if not needs_two_samples(task.build, task.dataset.x):
            return
    except FedFleetError:  # a model that is not here is not trained here either
        return
    sizes = world.data.sizes(0)
    for client, samples in enumerate(sizes.tolist()):
        local = plan.algorithm.local(client, {})
        for stage in local.work() if isinstance(local, LocalPass) else ():
            if leaves_batch_of_one(stage.batches, samples):
                raise BadInput(
                    f"the model normalises batches, which takes two samples at least, and client {client} with {samples} "
                    f"training samples in batches of {stage.batches.size} would be left with one; {_cure(sizes)}"
                )


def leaves_batch_of_one(batches: BatchPlan, samples: int) -> bool:
    """Does walking through so many samples come to a batch of one?

    >>> leaves_batch_of_one(BatchPlan(16), 33), leaves_batch_of_one(BatchPlan(16), 34)
    (True, False)
    >>> leaves_batch_of_one(BatchPlan(16, steps=2), 33)
    False
    """
    last = -(-samples // batches.size)
    return samples > 0 and (samples - 1) % batches.size == 0 and (batches.steps is None or batches.steps >= last)


def _cure(sizes: Ints) -> str:
    counts = np.unique(sizes[sizes > 0])
    batches = [b for b in range(2, _MOST) if not ((counts - 1) % b == 0).any()]
    group = "use GroupNorm instead of BatchNorm"
    return f"set algorithm.batch to {min(batches, key=lambda b: abs(b - 16))}, or {group}" if batches else group
