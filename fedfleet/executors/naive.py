"""The loop that everybody writes: one torch module, its state reloaded for each client, a torch optimiser. For comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fedfleet.core.parts import Job, Task
from fedfleet.core.passes import LocalPass
from fedfleet.executors.client_half import batches
from fedfleet.tasks.dropout import AddressedDropout, addresses


def naive_loop(
    task: Task, jobs: Sequence[Job], x: torch.Tensor, y: torch.Tensor, *, lr: float
) -> list[dict[str, torch.Tensor]]:
    """Train each client by plain SGD and give back its parameters, on the device where the data is."""
    import numpy as np

    module = task.build().to(x.device)
    module.train()
    dropouts = [m for m in module.modules() if isinstance(m, AddressedDropout)]
    start: dict[str, Any] = {n: torch.from_numpy(np.array(v)).to(x.device) for n, v in jobs[0].offer.params.items()}
    models = []
    for job in jobs:
        assert isinstance(job.local, LocalPass)
        module.load_state_dict(start)
        optimiser = torch.optim.SGD(module.parameters(), lr=lr)
        for t, rows in enumerate(batches(job.local.batches, job)):
            for leaf in dropouts:
                place = addresses(job.seed, np.array([job.key], np.uint64), np.array([job.task]), t)
                leaf.address = torch.from_numpy(place).to(x.device)
            batch = torch.from_numpy(rows).to(x.device)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
        models.append({n: v.detach().clone() for n, v in module.state_dict().items()})
    return models
