"""Stacks of several runs trained as one, where that changes no bit of any of them.

Each run cuts its cohort into stacks exactly as it would alone. Stacks whose layout agrees (equal passes, equally wide batches,
padded or not, one learning rate) are put on top of each other: every client then goes through the very products and sums that it
would go through alone, only beside more neighbours. What would not (weights that a stack shares by its own size) stays alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
import torch

from fedfleet.core.parts import Job
from fedfleet.core.passes import Carry
from fedfleet.executors.client_half import PreparedJob, Tallies, TrainedStack, group_by_pass
from fedfleet.executors.stacked.cohort import prepare_jobs, train_stack
from fedfleet.executors.stacked.lean_loop import use_one_kernel_thread
from fedfleet.executors.stacked.numerics import Layout, layout_of, trial_passes
from fedfleet.executors.stacked.placement import Place
from fedfleet.executors.stacked.schedule import chunks, step_counts
from fedfleet.executors.stacked.stacked_model import Twin
from fedfleet.executors.tensor_stacks import Tensors

# Clients of one tall stack: their weights should stay near the cache, and what is saved by more is little.
_TALL_BYTES, _FEWEST = 5e6, 50


@dataclass(frozen=True, slots=True)
class Part:
    """One stack of one run: its clients, their places in the cohort, and what must agree before it is put on another.

    `layout` is None where nothing may be put beside it.
    """

    group: list[PreparedJob]
    places: list[int]
    layout: Layout | None


def parts_of(place: Place, jobs: Sequence[Job]) -> list[Part]:
    """The stacks of one cohort as it would be cut if it were alone; jobs that stacks refuse are in none of them."""
    stackable, ready = prepare_jobs(jobs)
    parts: list[Part] = []
    for _, members in group_by_pass(ready):
        limit = max(1, min(place.max_clients, -(-len(members) // place.threads)))
        for part in chunks(ready, members, limit):
            group = [ready[j] for j in part]
            parts.append(Part(group, [stackable[j] for j in part], layout_of(place, group)))
    return parts


def train_parts(place: Place, parts: Sequence[Part], trials: dict[Hashable, bool]) -> list[TrainedStack | Exception]:
    """Every part trained, on top of others where that is allowed; what goes wrong in one is its own and nobody else's.

    `trials` remembers for which layouts a trial has shown that it is.
    """
    results: list[TrainedStack | Exception] = [RuntimeError("never trained")] * len(parts)
    free: dict[float, SimpleQueue[Twin]] = {}
    for width in {part.group[0].local.width for part in parts}:
        free[width] = SimpleQueue()
        for twin in place.twins_at(width):
            free[width].put(twin)

    def train_together(stack: list[int]) -> None:
        twins = free[parts[stack[0]].group[0].local.width]
        twin = twins.get()
        try:
            trained = train_stack(place, twin, [prepared for i in stack for prepared in parts[i].group])
            first = 0
            for i in stack:
                results[i] = _slice_stack(trained, first, first + len(parts[i].group))
                first += len(parts[i].group)
        except Exception as error:
            if len(stack) == 1:
                results[stack[0]] = error
                return
        else:
            return
        finally:
            twins.put(twin)
        for i in stack:  # whose fault it was shows when each is alone
            train_together([i])

    model_bytes = sum(np.asarray(v).nbytes for v in parts[0].group[0].start.values()) if parts else 1
    limit = max(_FEWEST, int(_TALL_BYTES // max(1, model_bytes)))
    stacks: list[list[int]] = []
    for stack in _stack_parts(parts, limit, place.threads):
        stacks += [stack] if len(stack) == 1 or _trial_allows(place, parts[stack[0]], limit, trials) else [[i] for i in stack]
    if place.threads == 1 or len(stacks) == 1:
        for stack in stacks:
            train_together(stack)
        return results
    with ThreadPoolExecutor(place.threads, initializer=use_one_kernel_thread) as pool:
        list(pool.map(train_together, stacks))
    return results


def _trial_allows(place: Place, part: Part, limit: int, trials: dict[Hashable, bool]) -> bool:
    """Has a trial shown that stacks of this layout may be as tall as that?"""
    assert part.layout is not None
    kind = part.layout.kind
    if kind not in trials:
        trials[kind] = trial_passes(place, part.group, limit)
    return trials[kind]


def _stack_parts(parts: Sequence[Part], most: int, threads: int) -> list[list[int]]:
    """Which parts are put on top of each other: equal layouts, like amounts of work, so many clients at most."""
    stacks: list[list[int]] = []
    by_layout: dict[Layout, list[int]] = {}
    for i, part in enumerate(parts):
        if part.layout is None:
            stacks.append([i])
        else:
            by_layout.setdefault(part.layout, []).append(i)
    for members in by_layout.values():
        clients = sum(len(parts[i].group) for i in members)
        limit = min(most, -(-clients // threads))
        members.sort(key=lambda i: (-_max_steps(parts[i]), i))
        stack: list[int] = []
        for i in members:
            if stack and sum(len(parts[j].group) for j in stack) + len(parts[i].group) > limit:
                stacks.append(stack)
                stack = []
            stack.append(i)
        stacks.append(stack)
    return stacks


def _max_steps(part: Part) -> int:
    """The steps of the client that takes most."""
    return int(step_counts(part.group[0].local.batches, [prepared.job for prepared in part.group]).max())


def _slice_stack(trained: TrainedStack, a: int, b: int) -> TrainedStack:
    def slice_tree(tree: Mapping[str, torch.Tensor]) -> Tensors:
        return {n: v[a:b] for n, v in tree.items()}

    t, carry = trained.tallies, trained.carry
    tallies = Tallies(t.loss[a:b], t.squared[a:b], t.samples[a:b], t.steps[a:b])
    memory = {slot: slice_tree(tree) for slot, tree in carry.memory.items()}
    return TrainedStack(
        trained.arrays,
        slice_tree(trained.start),
        slice_tree(trained.end),
        tallies,
        Carry(memory, slice_tree(carry.given)),
        slice_tree(trained.second),
    )
