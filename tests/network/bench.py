"""One server that many tests share: each plays a client of its own and hands in whatever it likes; at the end all is proven.

Pacing is asynchronous and every report makes a model, so that tests need not wait for each other.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.events import Event, TaskArrived
from fedfleet.core.records import Report
from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.protocol import fleet_pb2 as fleet
from tests.network.harness import Ground, ground, wait_for
from tests.network.proving import Receipt, complaints, models_again
from tests.network.puppet import Errand, Puppet, Status
from tests.network.toys import Toy, plan_of, worked

UNTIL_STOPPED = 1_000_000


@dataclass(slots=True)
class Bench:
    """A running server, and what was handed in and answered."""

    ground: Ground
    receipts: list[Receipt] = field(default_factory=list[Receipt])
    reports: dict[int, Report] = field(default_factory=dict[int, Report])
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _made: list[Puppet] = field(default_factory=list[Puppet])

    @property
    def toy(self) -> Toy:
        """The plan's numbers."""
        return self.ground.toy

    def newcomer(self, address: str | None = None) -> Puppet:
        """A puppet that is enrolled as a client whom nobody else plays."""
        puppet = Puppet(address or self.ground.address, next(self._numbers))
        self._made.append(puppet)
        puppet.enrol()
        return puppet

    def again(self, puppet: Puppet, address: str | None = None) -> Puppet:
        """The same device on a new connection."""
        made = Puppet(address or self.ground.address, puppet.client, puppet.secret)
        self._made.append(made)
        return made

    def working(self) -> tuple[Puppet, Errand, fleet.Report, bytes]:
        """A newcomer with work, and what an honest device would hand in for it."""
        puppet = self.newcomer()
        errand = puppet.await_work()
        return puppet, errand, *self.honest(puppet, errand)

    def honest(self, puppet: Puppet, errand: Errand) -> tuple[fleet.Report, bytes]:
        """What an honest device hands in, written down for the proof."""
        self.reports[errand.work.task] = worked(self.toy, puppet.client, errand.work.task, errand.model)
        return puppet.honest(self.toy, errand)

    def hand(self, puppet: Puppet, head: fleet.Report, payload: bytes) -> fleet.Receipt:
        """Hand in, and write the receipt down; who is told that it is busy comes again."""

        def look() -> fleet.Receipt | None:
            receipt = puppet.hand(head, payload)
            return None if receipt.status == Status.BUSY else receipt

        receipt = wait_for(look, f"receipt for task {head.task}", seconds=60)
        self.note(head, receipt)
        return receipt

    def note(self, head: fleet.Report, receipt: fleet.Receipt) -> None:
        """Write a receipt down for the proof."""
        self.receipts.append(Receipt(head.task, head.caller.client, Status.Name(receipt.status)))

    def of_task(self, task: int, kind: type[Event], count: int = 1) -> list[Any]:
        """What the journal says of this task, as soon as it says so much."""

        def look() -> list[Event]:
            result = [e for e in self.ground.events() if isinstance(e, kind) and e.task == task]  # pyright: ignore[reportAttributeAccessIssue]
            return result if len(result) >= count else []

        return wait_for(look, f"{kind.__name__} of task {task}", seconds=60, said=lambda: self.ground.said)

    def arrivals(self, task: int) -> int:
        """How often this task arrived, so far."""
        return sum(isinstance(e, TaskArrived) and e.task == task for e in self.ground.events())


@contextmanager
def bench(folder: Path, toy: Toy, **options: Any) -> Iterator[Bench]:
    """A server until the tests are done with it; then it is stopped politely, and its journal must hold."""
    with ground(folder, toy) as place:
        place.serve(**{"devices": 1, "patience": 0.1, **options})
        place.await_listening()
        made = Bench(place)
        try:
            yield made
        finally:
            for puppet in made._made:
                puppet.close()
        assert place.server is not None
        place.server.send_signal(signal.SIGTERM)
        place.ended()
        events = place.events()
        assert complaints(events, made.receipts, ended=False) == []
        assert models_again(plan_of(toy), events, made.reports) == []


def tree(**leaves: Any) -> bytes:
    """A payload of these leaves."""
    return pack_tree({name: np.asarray(value) for name, value in leaves.items()})
