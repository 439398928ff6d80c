"""People against clients: where data are dealt by owner, their numbers must agree, or the spec must say that they need not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task
from fedfleet.world.partitions import PartitionRecipe, owner_partition, people_of


@dataclass(frozen=True, slots=True)
class DealtPeople:
    """How many people were dealt to how many holders, which are clients or users; and how many people have fewer samples than
    `world.min_samples`, `least`."""

    people: int
    holders: int
    holder: str
    few: int
    least: int

    def __str__(self) -> str:
        how = "as" if self.people == self.holders else "merged into" if self.people > self.holders else "split into"
        return f"{count(self.people, 'person', 'people')} {how} {count(self.holders, self.holder)}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """That some people get samples of others, which nobody expects of people."""
        if not self.few or self.people != self.holders:
            return ()
        have = "has" if self.few == 1 else "have"
        return (
            f"{self.few:,} of {count(self.people, 'person', 'people')} {have} fewer than world.min_samples = {self.least} samples, "
            "and the clients are filled up with samples of other people; lower world.min_samples to keep people apart",
        )


def count(number: int, one: str, many: str = "") -> str:
    """A number and its noun.

    >>> count(1, "person", "people"), count(2000, "client")
    ('1 person', '2,000 clients')
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def dealt_people(deal: PartitionRecipe, task: Task, holders: int, least: int, *, devices: int | None = None) -> DealtPeople | None:
    """The people of a partition that deals by owner to that many clients, or users with so many `devices`; None of others.

    Refuse another number of holders than people, unless the partition permits it: every figure about people would be one about
    parts of people, or about groups of them.
    """
    partition = owner_partition(deal)
    if partition is None:
        return None
    people, person_of_row = people_of(task.dataset, task.client_rows())
    n, few = len(people), int((np.bincount(person_of_row, minlength=len(people)) < least).sum())
    permitted = partition.merge_owners if holders < n else partition.split_owners
    if holders != n and not permitted:
        key, what = ("merge_owners", "let people share") if holders < n else ("split_owners", "divide the samples of people over")
        holder = "client" if devices is None else "user"
        given = f"world.clients = {holders}" if devices is None else f"world.users: world.clients = {devices} makes {holders} users"
        raise BadInput(
            f"{given}: by_owner makes each person a {holder}, and the data have {count(n, 'person', 'people')} to train on; leave "
            f'world.clients out, or {what} {holder}s with world.data = {{ use = "by_owner", {key} = true }}'
        )
    return DealtPeople(n, holders, "client" if devices is None else "user", few, least)
