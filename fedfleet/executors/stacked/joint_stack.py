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
from fedfleet.core.passes import Carried
from fedfleet.executors.client_half import Begun, StackEnd, Tallies, Tensors, begin, grouped
from fedfleet.executors.inline import naming
from fedfleet.executors.stacked.executor import refuses, train_stack
from fedfleet.executors.stacked.lean_loop import alone_on_its_core
from fedfleet.executors.stacked.numerics import Layout, layout_of, tried
from fedfleet.executors.stacked.placement import Place
from fedfleet.executors.stacked.schedule import chunks, lengths
from fedfleet.executors.stacked.twin import Twin

# Clients of one tall stack: their weights should stay near the cache, and what is saved by more is little.
_TALL_BYTES, _FEWEST = 5e6, 50


@dataclass(frozen=True, slots=True)
class Part:
    """One stack of one run: its clients, their places in the cohort, and what must agree before it is put on another.

    `layout` is None where nothing may be put beside it.
    """

    group: list[Begun]
    places: list[int]
    layout: Layout | None


def parts_of(where: Place, jobs: Sequence[Job]) -> list[Part]:
    """The stacks of one cohort as it would be cut if it were alone; jobs that stacks refuse are in none of them."""
    mine = [i for i, job in enumerate(jobs) if not refuses(job.local)]
    ready: list[Begun] = []
    for i in mine:
        with naming(jobs[i]):
            ready.append(begin(jobs[i]))
    found: list[Part] = []
    for _, inside in grouped(ready):
        most = max(1, min(where.most, -(-len(inside) // where.threads)))
        for part in chunks(ready, inside, most):
            group = [ready[j] for j in part]
            found.append(Part(group, [mine[j] for j in part], layout_of(where, group)))
    return found


def train_parts(where: Place, parts: Sequence[Part], known: dict[Hashable, bool]) -> list[StackEnd | Exception]:
    """Every part trained, on top of others where that is allowed; what goes wrong in one is its own and nobody else's.

    `known` remembers for which layouts a trial has shown that it is.
    """
    ended: list[StackEnd | Exception] = [RuntimeError("never trained")] * len(parts)
    free: dict[float, SimpleQueue[Twin]] = {}
    for width in {part.group[0].local.width for part in parts}:
        free[width] = SimpleQueue()
        for twin in where.twins_at(width):
            free[width].put(twin)

    def one(stack: list[int]) -> None:
        twins = free[parts[stack[0]].group[0].local.width]
        twin = twins.get()
        try:
            whole = train_stack(where, twin, [begun for i in stack for begun in parts[i].group])
            for i, end in zip(stack, _cut(whole, [len(parts[i].group) for i in stack]), strict=True):
                ended[i] = end
        except Exception as wrong:
            if len(stack) == 1:
                ended[stack[0]] = wrong
                return
        else:
            return
        finally:
            twins.put(twin)
        for i in stack:  # whose fault it was shows when each is alone
            one([i])

    most = max(_FEWEST, int(_TALL_BYTES // max(1, _bytes(parts))))
    stacks: list[list[int]] = []
    for stack in _tall(parts, most, where.threads):
        stacks += [stack] if len(stack) == 1 or _shown(where, parts[stack[0]], most, known) else [[i] for i in stack]
    if where.threads == 1 or len(stacks) == 1:
        for stack in stacks:
            one(stack)
        return ended
    with ThreadPoolExecutor(where.threads, initializer=alone_on_its_core) as pool:
        list(pool.map(one, stacks))
    return ended


def _shown(where: Place, part: Part, most: int, known: dict[Hashable, bool]) -> bool:
    """Has a trial shown that stacks of this layout may be as tall as that?"""
    assert part.layout is not None
    kind = part.layout.kind
    if kind not in known:
        known[kind] = tried(where, part.group, most)
    return known[kind]


def _bytes(parts: Sequence[Part]) -> int:
    return sum(np.asarray(v).nbytes for v in parts[0].group[0].start.values()) if parts else 1


def _tall(parts: Sequence[Part], most: int, threads: int) -> list[list[int]]:
    """Which parts are put on top of each other: equal layouts, like amounts of work, so many clients at most."""
    found: list[list[int]] = []
    alike: dict[Layout, list[int]] = {}
    for i, part in enumerate(parts):
        if part.layout is None:
            found.append([i])
        else:
            alike.setdefault(part.layout, []).append(i)
    for inside in alike.values():
        clients = sum(len(parts[i].group) for i in inside)
        room = min(most, -(-clients // threads))
        inside.sort(key=lambda i: (-_longest(parts[i]), i))
        stack: list[int] = []
        for i in inside:
            if stack and sum(len(parts[j].group) for j in stack) + len(parts[i].group) > room:
                found.append(stack)
                stack = []
            stack.append(i)
        found.append(stack)
    return found


def _longest(part: Part) -> int:
    """The steps of the client that takes most."""
    return int(lengths(part.group[0].local.batches, [begun.job for begun in part.group]).max())


def _cut(whole: StackEnd, sizes: Sequence[int]) -> list[StackEnd]:
    """A tall stack taken apart again."""
    ends = np.cumsum(sizes).tolist()
    return [_piece(whole, end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _piece(whole: StackEnd, a: int, b: int) -> StackEnd:
    def own(tree: Mapping[str, torch.Tensor]) -> Tensors:
        return {n: v[a:b] for n, v in tree.items()}

    t, carried = whole.tallies, whole.carried
    tallies = Tallies(t.loss[a:b], t.squared[a:b], t.seen[a:b], t.steps[a:b])
    memory = {slot: own(tree) for slot, tree in carried.memory.items()}
    return StackEnd(own(whole.start), own(whole.end), tallies, Carried(memory, own(carried.given)), own(whole.second))
