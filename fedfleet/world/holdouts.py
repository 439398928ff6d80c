"""Held-out data: samples, as a central test set in a size of its own, and people on whose data no client trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream

_NAMES_SHOWN = 3  # people that a sentence names


def with_holdouts(task: Task, world: Mapping[str, Any], seed: int, *, test_users: bool = False) -> Task:
    """The task with the test set and the unseen people that a [world] asks for. `test_users`: the task says whose samples are the
    test set."""
    return with_unseen(with_holdout(task, world["holdout"], seed, test_users=test_users), world["unseen"], seed)


def with_holdout(task: Task, wanted: float | int | None, seed: int, *, test_users: bool = False) -> Task:
    """The task with a central test set of `world.holdout`: a share of all samples, or a number of them.

    Drawn from the order that the usual fifth is drawn from, so that a larger set has the smaller one inside.
    """
    if wanted is None:
        return task
    n = len(task.dataset.y)
    if test_users:
        raise BadInput(
            "world.holdout: task.test_users already says whose samples are the central test set; set only one of the two"
        )
    size = max(1, round(wanted * n)) if isinstance(wanted, float) else int(wanted)
    if size >= n:
        raise BadInput(f"world.holdout = {wanted}: the data has {n} samples, but some must be left for training; hold out fewer")
    return replace(task, holdout=np.sort(stream(seed, "holdout").permutation(n)[:size]))


def with_unseen(task: Task, wanted: float | int | Sequence[int] | None, seed: int) -> Task:
    """The task without some people: none of their samples is trained on or in the central test set, and they are judged apart.

    `wanted` is a share of the people who made the samples, how many of them, or a list of them by number. Which partition deals
    the rest makes no difference; but the data must say who made each sample.
    """
    if wanted is None:
        return task
    owner = task.dataset.owner
    if owner is None:
        raise BadInput(
            f"world.unseen: the data of {task.name!r} do not name the owner of each sample, so people cannot be held out; use data "
            "with owners, or hold out samples instead of people with world.holdout"
        )
    people = np.unique(owner)
    chosen = _pick_people(people, wanted, seed)
    unseen = np.flatnonzero(np.isin(owner, chosen))
    new_task = replace(task, unseen=unseen, holdout=np.setdiff1d(task.holdout, unseen))
    if len(chosen) >= len(people) or not len(new_task.client_rows()):
        raise BadInput(
            f"world.unseen: {len(chosen)} of {len(people)} people would be held out, but training needs at least one; hold out "
            "fewer"
        )
    if not len(new_task.holdout):
        raise BadInput("world.unseen: no sample is left for the central test set; hold out fewer people, or raise world.holdout")
    return new_task


def _pick_people(people: Ints, wanted: float | int | Sequence[int], seed: int) -> Ints:
    if isinstance(wanted, Sequence):
        odd = [one for one in wanted if one not in people]
        if odd or not wanted:
            numbers = f"{people.min()} to {people.max()}" if np.ptp(people) == len(people) - 1 else f"{people[:_NAMES_SHOWN]} .."
            problem = f"there is no person {odd[0]}" if odd else "the list is empty"
            raise BadInput(f"world.unseen: {problem}; the people of this dataset have the numbers {numbers}")
        return np.array(wanted, np.int64)
    n = max(1, round(wanted * len(people))) if isinstance(wanted, float) else wanted
    return stream(seed, "unseen").permutation(people)[:n]
