"""Taking part: enrol, check in, do the work, hand it in, until the run is over or somebody stops this device.

A device calls; it is never called. What it cannot do it declines with the reason. Killed at any moment, it goes on as the same
client: a report that was made is handed in again with the same bytes, and what it remembers is what the server says was folded.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from fedfleet.core.errors import BadInput, FedFleetError, Refused, RunFailed
from fedfleet.network.device.caps import Caps, spent_up
from fedfleet.network.device.device_store import Identity, Store, Waiting
from fedfleet.network.device.server_calls import Line, OutOfReach, Patience, Stranger, patiently
from fedfleet.network.device.transfer import handed
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import PROTOCOL, framed, split_address
from fedfleet.network.security.sanitiser import shown
from fedfleet.network.security.secrets import check_signature

if TYPE_CHECKING:
    from fedfleet.network.device.client_runtime import Kit
    from fedfleet.network.device.work import Fetch

FIRST_SECONDS = 30.0  # for which a server is tried that never answered
_LONGEST_REST = 3600.0
_IN_A_ROW = 3  # tasks that fail one after the other, before a device gives up
_UNTOLD_LEASE = 600.0
_WAITING = "waiting for work"


class Stopped(BaseException):
    """Somebody stops this device; like KeyboardInterrupt it passes whatever only catches errors."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a device takes part: as which client, with which token, data and evidence, within which caps."""

    client: int | None = None
    token: str = ""
    data: str = ""
    samples: int = 0
    test_samples: int = 0
    memory_bytes: int = 0
    evidence: bytes = b""
    caps: Caps = field(default_factory=Caps)
    patience: float = 600.0


@dataclass(frozen=True, slots=True)
class Attended:
    """What a device did: tasks whose reports are safe, tasks that it declined, and why it stopped."""

    client: int
    tasks: int
    declined: int
    reason: str


class MakeKit(Protocol):
    """From a sheet, and how frozen weights are brought, to what a client trains with."""

    def __call__(self, sheet: bytes, *, fetch: Fetch) -> Kit: ...


class Device:
    """One device at one server. `attend` is all that it does."""

    def __init__(
        self,
        line: Line,
        store: Store,
        wishes: Wishes,
        make_kit: MakeKit,
        say: Callable[[str], None],
        wait: Patience | None = None,
    ) -> None:
        self.line, self.store, self.wishes, self._make, self._say = line, store, wishes, make_kit, say
        self._wait = wait or Patience()
        self._sheet, self._kit = b"", None
        self._who: Identity | None = None
        self.safe = self.declined = self._failed = 0  # tasks
        self._worked = 0.0  # seconds
        self._told = ""
        self._working: pb.Work | None = None

    def attend(self) -> Attended:
        """Take part until the run is over, the caps are used up, or somebody stops it (Stopped passes, after a farewell)."""
        try:
            # A server that this device knows is down for a while; one that never answered may be none.
            known = self.store.identity() is not None
            self._enrol(self.wishes.patience if known else min(FIRST_SECONDS, self.wishes.patience))
            reason = self._take_part()
        except (Stopped, KeyboardInterrupt):
            self._say("stopping: taking leave of the server")
            self._farewell("the device was stopped")
            raise
        except FedFleetError as wrong:
            self._farewell(str(wrong))
            raise
        return Attended(self.client, self.safe, self.declined, reason)

    @property
    def client(self) -> int:
        """Which client it is."""
        return -1 if self._who is None else self._who.client

    @property
    def _caller(self) -> pb.Caller:
        assert self._who is not None
        return pb.Caller(client=self._who.client, secret=self._who.secret)

    # ---- who it is ------------------------------------------------------------------------------------------------

    def _enrol(self, seconds: float) -> None:
        """Become a client, or the same one as before; the sheet must be signed for this device."""
        wishes, known = self.wishes, self.store.identity()
        if known is not None and _host(known.server) != _host(self.line.server):
            known = None  # a secret is shown to the server that gave it, and to no other
        request = pb.EnrolRequest(
            protocol=PROTOCOL, token=wishes.token, samples=wishes.samples, test_samples=wishes.test_samples, data=wishes.data,
            evidence=wishes.evidence, memory_bytes=wishes.memory_bytes, attempt=self.store.attempt(),
        )  # fmt: skip
        client = wishes.client if wishes.client is not None else (None if known is None else known.client)
        if client is not None:
            request.client = client
        if known is not None and known.client == client:
            request.secret = known.secret
        try:
            reply = patiently(lambda: self.line.enrol(request), self.line, self._wait, seconds, self._once)
        except Stranger as wrong:
            raise BadInput(f"the server at {self.line.server} refuses: {wrong}") from None
        except Refused as wrong:
            raise BadInput(
                f"at {self.line.server} something answers that is no FedFleet server ({shown(str(wrong))})"
            ) from None
        if not check_signature(reply.secret, reply.sheet, reply.signature):
            raise BadInput(
                f"the sheet of the server at {self.line.server} is not signed for this device; it may have been changed on its way"
            )
        self._who = Identity(self.line.server, reply.run, reply.client, reply.secret)
        self.store.become(self._who)
        if reply.sheet != self._sheet:
            self._sheet, self._kit = reply.sheet, None
        self._once(
            f"enrolled at {self.line.server} as client {reply.client} of {shown(reply.run) or 'a run'}; {_WAITING}"
        )
        self._told = _WAITING

    def _again(self) -> None:
        """The server does not know this device, or has another sheet: perhaps another server has taken its place."""
        self._enrol(self.wishes.patience)

    # ---- the loop -------------------------------------------------------------------------------------------------

    def _take_part(self) -> str:
        answer, model, seconds = self._resumed() or self._check()
        while True:
            match answer.WhichOneof("what"):
                case "work":
                    last = spent_up(self.wishes.caps, self.safe + self.declined, self._worked)
                    if last is not None:
                        self._decline(answer.work, last)
                        self._leave()
                        return last
                    answer, model, seconds = self._work(answer.work, model, seconds) or self._check()
                case "later":
                    last = spent_up(self.wishes.caps, self.safe + self.declined, self._worked)
                    if last is not None:
                        self._leave()
                        return last
                    self._once(_WAITING)
                    self._wait.sleep(min(max(answer.later.seconds, 0.0), _LONGEST_REST))
                    answer, model, seconds = self._check()
                case "over":
                    return shown(answer.over.reason) or "the run is over"
                case _:
                    answer, model, seconds = self._check()

    def _check(self) -> tuple[pb.Answer, memoryview, float]:
        """Check in; the answer, the model where it came along, and the seconds that this took without those on hold."""
        known = False
        while True:
            began = time.monotonic()
            request = pb.CheckIn(caller=self._caller, hold=True)
            try:
                answer, model = patiently(
                    lambda asked=request: self.line.check(asked),
                    self.line,
                    self._wait,
                    self.wishes.patience,
                    self._once,
                )
            except Stranger as wrong:
                if known:
                    raise BadInput(f"the server at {self.line.server} refuses: {wrong}") from None
                known = True
                self._again()
                continue
            except Refused as wrong:
                raise RunFailed(
                    f"the server at {self.line.server} answers what nobody can read: {shown(str(wrong))}"
                ) from None
            held = answer.work.held_seconds if answer.HasField("work") else 0.0
            return answer, model, time.monotonic() - began - held

    # ---- work -----------------------------------------------------------------------------------------------------

    def _work(self, work: pb.Work, model: memoryview, seconds: float) -> tuple[pb.Answer, memoryview, float] | None:
        """Do one task and hand it in; the next answer, if it came with the receipt."""
        from fedfleet.network.device.work import Bench, Declined, done, frozen_from

        self._working, began = work, time.monotonic()
        until = time.time() + (work.lease_seconds or _UNTOLD_LEASE)
        if work.sheet and work.sheet != hashlib.sha256(self._sheet).hexdigest():
            self._again()
        bench = Bench(self.line, self._caller, self.store, self.wishes.caps, self._wait)
        try:
            kit = self._ready(frozen_from(bench, work, until))
            what = f"working on task {work.task}" if work.kind == pb.TRAIN else f"judging model {work.version}"
            self._once(f"{what} (round {work.round})")
            head, payload = done(bench, kit, work, model, until, seconds)
        except Declined as wrong:
            self._failed += 1
            self._worked += time.monotonic() - began
            found = self._decline(work, str(wrong))
            if self._failed >= _IN_A_ROW:
                raise RunFailed(
                    f"{self._failed} tasks in a row could not be done here; the last one: {wrong}"
                ) from None
            return found
        self._failed = 0
        self._worked += time.monotonic() - began
        try:
            self.store.keep_report(Waiting(head, payload, until))
        except RunFailed as wrong:  # then it lasts as long as this process
            self._say(f"the report of task {work.task} cannot be kept here: {wrong}")
        return self._hand(head, payload, until)

    def _ready(self, fetch: Fetch) -> Kit:
        """What this client trains with, made when the first work is there. If it cannot be made, this device cannot take part."""
        if self._kit is None:
            try:
                self._kit = self._make(self._sheet, fetch=fetch)
            except Refused as wrong:
                raise BadInput(f"the server at {self.line.server} cannot be served: {shown(str(wrong))}") from None
        return self._kit

    def _resumed(self) -> tuple[pb.Answer, memoryview, float] | None:
        """A report that an earlier life of this device had ready is handed in first."""
        waiting = self.store.report()
        if waiting is None or time.time() > waiting.until:
            self.store.handed_in()
            return None
        self._once(f"handing in the report of task {waiting.head.task}, which was ready before")
        waiting.head.caller.CopyFrom(self._caller)
        return self._hand(waiting.head, waiting.payload, waiting.until)

    def _hand(
        self, head: pb.Report, payload: bytes, until: float, *, known: bool = False
    ) -> tuple[pb.Answer, memoryview, float] | None:
        """Hand a report in; the next answer, if it came with the receipt."""
        try:
            found = handed(self.line, head, payload, self._wait, until)
        except Stranger as wrong:
            if known:
                raise BadInput(f"the server at {self.line.server} refuses: {wrong}") from None
            before = self.client
            self._again()
            if self.client != before:  # of another client, whose reports these are not
                return None
            head.caller.CopyFrom(self._caller)
            return self._hand(head, payload, until, known=True)
        except Refused as wrong:
            raise RunFailed(
                f"the server at {self.line.server} answers what nobody can read: {shown(str(wrong))}"
            ) from None
        self.store.handed_in()
        self._working = None
        if found is None:
            self._once(f"the report of task {head.task} could not be handed in before its lease ended")
            return None
        receipt, model = found
        if receipt.status == pb.Receipt.SAFE:
            self.safe += not head.declined
        else:
            self._say(f"the server does not take the report of task {head.task}: {shown(receipt.reason)}")
        return (receipt.next, model, 0.0) if receipt.HasField("next") else None

    def _decline(self, work: pb.Work, why: str) -> tuple[pb.Answer, memoryview, float] | None:
        """Tell the server that it need not wait for this task."""
        self.declined += 1
        self._say(f"declining task {work.task}: {why}")
        until = time.time() + (work.lease_seconds or _UNTOLD_LEASE)
        return self._hand(_declined(work, self._caller, why), b"", until)

    # ---- good-bye -------------------------------------------------------------------------------------------------

    def _farewell(self, why: str) -> None:
        """Say that this device goes, and that a task which it was at will not be done; if nobody hears, that is no harm."""
        work, ready = self._working, self.store.report() is not None
        self._working = None
        with suppress(OutOfReach, Stranger, Refused, FedFleetError):
            if self._who is not None and work is not None and not ready:
                self.line.hand(framed(_declined(work, self._caller, why)), 2.0)
        self._leave()

    def _leave(self) -> None:
        with suppress(OutOfReach, Stranger, Refused, FedFleetError):
            if self._who is not None:
                self.line.leave(pb.LeaveRequest(caller=self._caller))

    def _once(self, text: str) -> None:
        """Tell a person what this device waits for; the same thing not twice in a row."""
        if text != self._told:
            self._told = text
            self._say(text)


def _host(server: str) -> str:
    return split_address(server)[0]


def _declined(work: pb.Work, caller: pb.Caller, why: str) -> pb.Report:
    return pb.Report(caller=caller, task=work.task, nonce=work.nonce, kind=work.kind, declined=shown(why))
