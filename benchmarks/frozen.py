"""What one more client adds to a stack on a frozen backbone: `python -m benchmarks.frozen`.

The most living tensors while a cohort trains, on the CPU: every storage is counted once, from when an operation makes it until it is
freed. Steps of one and of two samples tell activations from everything else.
"""

from __future__ import annotations

import argparse
import weakref

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedfleet.core.parts import Algorithm, Job, Offer, Task
from fedfleet.core.trees import tree_nbytes
from fedfleet.executors.stacked.cohort import train_cohort
from fedfleet.executors.stacked.placement import open_place
from fedfleet.learn.zoo import biasprompt
from fedfleet.tasks.photos import vit_tiny


class Living(TorchDispatchMode):
    """Counts the bytes of all storages that operations make, now and at the most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for found in out if isinstance(out, tuple | list) else (out,):
            if isinstance(found, torch.Tensor):
                self._count(found.untyped_storage())
        return out

    def _count(self, storage) -> None:
        place = storage.data_ptr()
        if place in self.known or not storage.nbytes():
            return
        size = storage.nbytes()
        self.known.add(place)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._freed, place, size)

    def _freed(self, place: int, size: int) -> None:
        self.known.discard(place)
        self.now -= size


def peak(task: Task, algorithm: Algorithm, clients: int, batch: int) -> int:
    """The most bytes of living tensors while so many clients train in one stack."""
    where = open_place(task, device="cpu", threads=1, form="merged", tf32=False, graphs=False)
    where.max_clients = clients
    offer, n = Offer(task.init(0)), len(task.dataset.y)
    rows = [(np.arange(batch) + i) % n for i in range(clients)]
    jobs = [Job(i, i, i, 0, offer, algorithm.local(i, {}), rows[i], 1) for i in range(clients)]
    with Living() as living:
        train_cohort(where, jobs)
    return living.most


def main() -> None:
    """Print the peaks, and what one more client adds: for each of its samples, and apart from them."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--clients", type=int, nargs=2, default=[10, 100])
    few, many = asked.parse_args().clients
    print("vit_tiny, one stack, one step, living tensors at the most, MB")
    print(f"| method | travels | frozen | {few} clients | {many} clients | one more adds a sample | and apart from samples |")
    for method in (biasprompt(), biasprompt(momentum=0.9), biasprompt(optimiser="adam")):
        assert method.adapt is not None
        task = method.adapt(vit_tiny(synthetic=True, samples=500)(0), 0)
        once, twice = ([peak(task, method, n, batch) / 1e6 for n in (few, many)] for batch in (1, 2))
        one, two = ((found[1] - found[0]) / (many - few) for found in (once, twice))
        cells = (tree_nbytes(task.init(0)) / 1e6, tree_nbytes(task.frozen) / 1e6, *once, two - one, 2 * one - two)
        print("| biasprompt |", " | ".join(f"{v:.2f}" for v in cells), "|", flush=True)


if __name__ == "__main__":
    main()
