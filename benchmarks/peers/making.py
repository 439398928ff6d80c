"""Making the work from a task of ours: made-up data of its shape, dropout taken out so that all can be compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.peers.work import Work, write_work
from fedfleet.core.parts import Task
from fedfleet.core.registry import builder

MOST_SAMPLES = 20_000  # the data wrap around beyond that


def make_work(folder: Path, work: Work) -> None:
    """Write the work's folder. Rows are dealt out by label, so that clients differ and one left out would be seen."""
    import torch

    each = work.steps * work.batch
    wanted = max(200, min(work.cohort * each, MOST_SAMPLES))
    task: Task = builder("tasks", work.task)(synthetic=True, samples=wanted)(0)
    module = without_dropout(task.build())
    module.load_state_dict({n: torch.from_numpy(v) for n, v in task.init(0).items()})
    sorted_rows = np.argsort(task.dataset.y, kind="stable")
    rows = sorted_rows[np.arange(work.cohort * each).reshape(work.cohort, each) % len(sorted_rows)]
    write_work(folder, work, module, task.dataset.x[rows], task.dataset.y[rows])


def without_dropout(module):
    """The model with identities for dropouts: everybody draws masks in their own way, and no two would train alike."""
    from torch import nn

    from fedfleet.tasks.dropout import AddressedDropout

    for path, leaf in list(module.named_modules()):
        if isinstance(leaf, AddressedDropout | nn.Dropout):
            parent, _, last = path.rpartition(".")
            setattr(module.get_submodule(parent), last, nn.Identity())
    return module
