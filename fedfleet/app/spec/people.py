"""People and clients: how many clients a spec has that does not say so, which goes by the people where data are dealt by owner."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedfleet.app.spec.spec_record import PERMISSIONS, Spec
from fedfleet.app.spec.table_checks import Table, build_part, builder_of
from fedfleet.core.edges import UserSource
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import MAX_CLIENTS
from fedfleet.core.parts import Task
from fedfleet.world.holdouts import with_holdouts
from fedfleet.world.partitions import people_of
from fedfleet.world.users import UserRecipe

DEFAULT_CLIENTS = 100
BY_OWNER = "by_owner"
_LONG = 1.0  # seconds of counting that a remark is worth
_MOST_A_PERSON = 64  # devices for each person, up to which a number of devices is looked for


@dataclass(frozen=True, slots=True)
class PeopleCount:
    """How many people have samples that are trained on, and how many seconds it took to read the data and count them."""

    people: int
    seconds: float


_counts = dict[tuple[Any, ...], PeopleCount]()  # studies resolve one spec for each of their runs
_counted_task = dict[tuple[Any, ...], Task]()  # the last one, for the run that follows: its data are read once


def default_clients(spec: Spec, count: Callable[[Spec], int] | None = None) -> int:
    """The number of clients of a spec that names none: 100, or one for each person where data are dealt by owner; with users the
    number of devices of as many users. `count` counts the people of data that no spec names."""
    if not deals_by_owner(spec.world["data"]):
        return DEFAULT_CLIENTS
    people = count_people(spec).people if count is None else count(spec)
    return _devices_of_users(spec, people) if "users" in spec.world else people


def deals_by_owner(table: Mapping[str, Any]) -> bool:
    """Does a partition's table deal by people, itself or inside another partition?

    >>> deals_by_owner({"use": "iid"}), deals_by_owner({"use": "label_flip", "of": {"use": "by_owner"}})
    (False, True)
    """
    inner = [value for value in table.values() if isinstance(value, Mapping)]
    return table.get("use") == BY_OWNER or any(map(deals_by_owner, inner))


def permit_numbers(table: Mapping[str, Any], *, replace: bool = False) -> Table:
    """A partition's table that takes any number of clients where it deals by people; `replace`: whatever it says of that itself.

    >>> permit_numbers({"use": "by_owner"})
    {'use': 'by_owner', 'merge_owners': True, 'split_owners': True}
    """
    inner = {k: permit_numbers(v, replace=replace) if isinstance(v, Mapping) else v for k, v in table.items()}
    if table.get("use") != BY_OWNER:
        return inner
    return {**inner, **{key: True for key in PERMISSIONS if replace or key not in inner}}


def people_in(task: Task, spec: Spec) -> int:
    """How many people of a task have samples that clients train on: not those that are held out."""
    left = with_holdouts(task, spec.world, spec.data_seed, test_users=bool(spec.task.get("test_users")))
    return len(people_of(left.dataset, left.client_rows())[0])


def count_people(spec: Spec) -> PeopleCount:
    """The people of the task that a spec names. Its data are read for that, once for all specs of this process."""
    if spec.has_custom_task:
        raise BadInput(
            "world.clients: this spec does not contain its data, so the people in it cannot be counted; give world.clients, the "
            "number of people"
        )
    key = _count_key(spec)
    if key not in _counts:
        begin = time.perf_counter()
        task: Task = build_part("tasks", spec.task)(spec.data_seed)
        _counts[key] = PeopleCount(people_in(task, spec), time.perf_counter() - begin)
        _counted_task.clear()
        _counted_task[key] = task
    return _counts[key]


def named_task(spec: Spec) -> Task:
    """The task that a spec names: the one whose people were just counted, or a new one."""
    task = _counted_task.pop(_count_key(spec), None)
    _counted_task.clear()
    return build_part("tasks", spec.task)(spec.data_seed) if task is None else task


def _count_key(spec: Spec) -> tuple[Any, ...]:
    """What the people of a named task depend on."""
    asked = [spec.task, spec.world["holdout"], spec.world["unseen"], spec.data_seed]
    return builder_of("tasks", spec.task["use"]), json.dumps(asked, sort_keys=True, default=str), os.environ.get("FEDFLEET_DATA")


def counting_note(spec: Spec) -> str:
    """How long counting the people of a spec took, if that was long; "" if nothing was counted."""
    if spec.has_custom_task or not deals_by_owner(spec.world["data"]):
        return ""
    counted = _counts.get(_count_key(spec))
    if counted is None or counted.seconds < _LONG:
        return ""
    return f"reading the data of {spec.task['use']} to count its {counted.people:,} people took {counted.seconds:.1f} s"


def _devices_of_users(spec: Spec, people: int) -> int:
    """The number of devices that belong to as many users as there are people; 100 where none does, which is then refused."""
    recipe: UserRecipe = build_part("users", spec.world["users"])

    def users(devices: int) -> int:
        try:
            source: UserSource = recipe.assign(devices, spec.fleet_seed)
        except BadInput:  # fewer devices than groups
            return 0
        return len(source)

    if users(DEFAULT_CLIENTS) == people:
        return DEFAULT_CLIENTS
    # The largest number of devices whose users are no more than the people.
    low, high = 0, people + 1
    limit = min(people * _MOST_A_PERSON, MAX_CLIENTS)
    while high < limit and users(high) <= people:
        low, high = high, min(2 * high, limit)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if users(middle) <= people else (low, middle)
    return low if low and users(low) == people else DEFAULT_CLIENTS
