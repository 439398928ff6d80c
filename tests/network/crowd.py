"""A crowd of honest devices: puppets in threads that go on through everything, and write down what they were told.

They know nothing of a killed server but that calls break: they call again, and hand the same bytes in again until they have a
receipt. What they wrote down is what `proving` holds against the journal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc

from fedfleet.core.records import Report
from fedfleet.network.protocol import fleet_pb2 as fleet
from tests.network.proving import Receipt
from tests.network.puppet import PAUSE, Errand, Puppet, Status
from tests.network.toys import Toy, payload_of, worked

# What a call may end with while a server dies, restarts or is full; anything else is a fault of the server.
_PASSING = {
    grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}  # fmt: skip


@dataclass(slots=True)
class Crowd:
    """What the devices of a run did and were told, all of them together."""

    toy: Toy
    address: str
    pause: Callable[[int, int], float] = lambda client, task: 0.0  # how long a device works on a task
    receipts: list[Receipt] = field(default_factory=list[Receipt])
    reports: dict[int, Report] = field(default_factory=dict[int, Report])
    errors: list[str] = field(default_factory=list[str])
    over: set[int] = field(default_factory=set[int])  # clients that heard that the run is over
    broken: int = 0  # calls that broke
    seconds: list[float] = field(default_factory=list[float])  # from handing in to the receipt
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def safe(self) -> int:
        """How many reports were acknowledged so far."""
        with self.lock:
            return sum(r.status == "SAFE" for r in self.receipts)

    def live(self, client: int) -> None:
        """One device's life, in a thread of its own."""
        puppet = Puppet(self.address, client)
        try:
            self._persist(lambda: puppet.enrol())
            errand: Errand | None = None
            while not self.stopped.is_set():
                errand = self._do(puppet, errand) if errand else self._ask(puppet)
                if client in self.over:
                    return
        except Exception as error:
            with self.lock:
                self.errors.append(f"client {client}: {error!r}")
        finally:
            puppet.close()

    def _ask(self, puppet: Puppet) -> Errand | None:
        result = self._persist(lambda: puppet.check(hold=True))
        return self._heard(puppet, *result) if result else None

    def _heard(self, puppet: Puppet, answer: fleet.Answer, payload: bytes) -> Errand | None:
        match answer.WhichOneof("what"):
            case "work":
                return self._persist(lambda: puppet.opened(answer, payload))
            case "over":
                self.over.add(puppet.client)
            case "later":
                self.stopped.wait(PAUSE)
            case _:
                pass
        return None

    def _do(self, puppet: Puppet, errand: Errand) -> Errand | None:
        """Work and hand in, until there is a receipt; the next work may come with it."""
        work = errand.work
        if seconds := self.pause(puppet.client, work.task):
            self.stopped.wait(seconds)
        done = worked(self.toy, puppet.client, work.task, errand.model)
        with self.lock:
            self.reports[work.task] = done
        payload = payload_of(done)
        head = puppet.report(work, payload, weight=done.weight, stats=dict(done.stats))
        while not self.stopped.is_set():
            began = time.monotonic()
            said = self._persist(lambda: puppet.handed(head, payload))
            if said is None:
                return None
            self.seconds.append(time.monotonic() - began)
            receipt, more = said
            with self.lock:
                self.receipts.append(Receipt(work.task, puppet.client, Status.Name(receipt.status)))
            if receipt.status in (Status.BUSY, Status.RETRY):
                self.stopped.wait(max(receipt.seconds, PAUSE))
                continue
            return self._heard(puppet, receipt.next, more) if receipt.HasField("next") else None
        return None

    def _persist(self, call):
        """Call until it works, or the crowd is stopped."""
        while not self.stopped.is_set():
            try:
                return call()
            except grpc.RpcError as error:
                if error.code() not in _PASSING:  # pyright: ignore[reportAttributeAccessIssue]
                    raise
                with self.lock:
                    self.broken += 1
                time.sleep(PAUSE)
        return None


@contextmanager
def crowd(
    toy: Toy, address: str, clients: Iterable[int] | None = None, pause: Callable[[int, int], float] | None = None
) -> Iterator[Crowd]:
    """A crowd at work, which is sent home at the end."""
    made = Crowd(toy, address) if pause is None else Crowd(toy, address, pause)
    named = range(toy.clients) if clients is None else clients
    threads = [threading.Thread(target=made.live, args=(client,), daemon=True) for client in named]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.stopped.set()
        for thread in threads:
            thread.join(60)
