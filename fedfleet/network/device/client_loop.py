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

from fedfleet.core.errors import BadInput, FedFleetError, Refused, RunFailed, printable
from fedfleet.core.json_text import parse_json
from fedfleet.network.device.call_errors import UnknownDevice
from fedfleet.network.device.caps import Caps, budget_reason
from fedfleet.network.device.device_store import DeviceStore, Identity, WaitingReport
from fedfleet.network.device.retries import FAILURES, RetryPolicy, bounded_seconds, call_with_retries
from fedfleet.network.device.server_line import ServerLine, split_server
from fedfleet.network.device.transfers import deliver_report
from fedfleet.network.device.work_observer import NO_OBSERVER, WorkObserver
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import PROTOCOL, encode_frame
from fedfleet.network.security.secrets import check_signature

if TYPE_CHECKING:
    from fedfleet.network.device.client_runtime import ClientRuntime
    from fedfleet.network.device.work import EdgeWorker, Fetch

FIRST_SECONDS = 30.0  # for which a server is tried that never answered
_MAX_REST = 3600.0
_MAX_FAILURES = 3  # tasks that fail one after the other, before a device gives up
_DEFAULT_LEASE, _MAX_LEASE = 600.0, 30 * 86400.0
_WAITING = "waiting for work"


class Stopped(BaseException):
    """Somebody stops this device; like KeyboardInterrupt it passes whatever only catches errors."""


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """How a device takes part: as which client, with which token, data and evidence, within which caps.

    It tries a server for `patience` seconds, and one that never answered for `first_seconds`. `observer` is told of its work.
    `share_samples`: its owner agrees that samples go to other devices of the same person.
    """

    client: int | None = None
    token: str = ""
    data: str = ""
    samples: int = 0
    test_samples: int = 0
    memory_bytes: int = 0
    evidence: bytes = b""
    caps: Caps = field(default_factory=Caps)
    patience: float = 600.0
    first_seconds: float = FIRST_SECONDS
    observer: WorkObserver = NO_OBSERVER
    share_samples: bool = False


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """What a device did: tasks whose reports are safe, tasks that it declined, and why it stopped."""

    client: int
    tasks: int
    declined: int
    reason: str


@dataclass(slots=True)
class _Effort:
    """What work took so far: tasks in a row that failed, and seconds in all."""

    failed: int = 0
    seconds: float = 0.0


class MakeRuntime(Protocol):
    """From a client's configuration, and how frozen weights are brought, to what it trains with."""

    def __call__(self, config: bytes, *, fetch: Fetch) -> ClientRuntime | EdgeWorker: ...


# From a client's configuration to a refusal, if this device's own samples are none that the run can use.
CheckSamples = Callable[[bytes], None]


class Device:
    """One device at one server. `run` is all that it does."""

    def __init__(
        self,
        connection: ServerLine,
        store: DeviceStore,
        options: DeviceOptions,
        make_runtime: MakeRuntime,
        say: Callable[[str], None],
        wait: RetryPolicy | None = None,
        check_samples: CheckSamples | None = None,
    ) -> None:
        self.connection, self.store, self.options, self._make_runtime, self._say = (connection, store, options, make_runtime, say)
        self._wait, self._check_samples = wait or RetryPolicy(), check_samples
        self._config, self._runtime = b"", None
        self._identity: Identity | None = None
        self.safe = self.declined = 0  # tasks
        self._effort = _Effort()
        self._last_text = ""
        self._current_work: pb.Work | None = None

    def run(self) -> DeviceResult:
        """Take part until the run is over, the caps are used up, or somebody stops it (Stopped passes, after a farewell)."""
        try:
            # A server that this device knows is down for a while; one that never answered may be none.
            was_enrolled = self._known_identity() is not None
            self.connection.worked = was_enrolled
            self._enrol(self.options.patience if was_enrolled else min(self.options.first_seconds, self.options.patience))
            reason = self._run_loop()
        except (Stopped, KeyboardInterrupt):
            self._say("stopping: taking leave of the server")
            self._farewell("the device was stopped")
            raise
        except FedFleetError as error:
            self._farewell(str(error))
            raise
        return DeviceResult(self.client, self.safe, self.declined, reason)

    @property
    def client(self) -> int:
        """Which client it is."""
        return -1 if self._identity is None else self._identity.client

    @property
    def _caller(self) -> pb.Caller:
        assert self._identity is not None
        return pb.Caller(client=self._identity.client, secret=self._identity.secret)

    def _known_identity(self) -> Identity | None:
        """Who this device is at this server: a secret is shown to the server that gave it, and to no other."""
        identity = self.store.identity()
        return None if identity is None or _host(identity.server) != _host(self.connection.server) else identity

    # ---- who it is ------------------------------------------------------------------------------------------------

    def _enrol(self, seconds: float) -> None:
        """Become a client, or the same one as before; its configuration must be signed for this device."""
        options, identity = self.options, self._known_identity()
        request = pb.EnrolRequest(
            protocol=PROTOCOL, token=options.token, samples=options.samples, test_samples=options.test_samples, data=options.data,
            evidence=options.evidence, memory_bytes=options.memory_bytes, attempt=self.store.attempt(),
        )  # fmt: skip
        client = options.client if options.client is not None else (None if identity is None else identity.client)
        if client is not None:
            request.client = client
        if identity is not None and identity.client == client:
            request.secret = identity.secret
        try:
            reply = call_with_retries(lambda: self.connection.enrol(request), self.connection, self._wait, seconds, self._say_once)
        except UnknownDevice as error:
            raise BadInput(f"the server at {self.connection.server} refuses: {error}") from None
        if not check_signature(reply.secret, reply.sheet, reply.signature):
            raise BadInput(
                f"the settings from the server at {self.connection.server} are not signed for this device; they may "
                f"have been changed on the way"
            )
        self._identity = Identity(self.connection.server, reply.run, reply.client, reply.secret)
        self.store.set_identity(self._identity)
        if reply.sheet != self._config:
            self._config, self._runtime = reply.sheet, None
            self._check_sharing()
            self._check_data()
        self._say_once(
            f"enrolled at {self.connection.server} as client {reply.client} of {printable(reply.run) or 'a run'}; {_WAITING}"
        )
        self._last_text = _WAITING

    def _check_sharing(self) -> None:
        """Refuse a run that would move samples of this device to others, unless its owner agreed."""
        try:
            table = parse_json(self._config)
        except ValueError:
            return  # it says so with the first task
        if isinstance(table, dict) and "edge" not in table and table.get("moves_samples") and not self.options.share_samples:
            raise BadInput(
                f"the edge at {self.connection.server} moves samples between the devices of one person, so this device takes no "
                "part; if all devices of this edge are yours and you agree, start it with --share-samples"
            )

    def _check_data(self) -> None:
        """Refuse samples that the run cannot use now, and not with the first task, for which this device may wait for hours."""
        if self._check_samples is not None:
            # A configuration that cannot be read says so with the first task, which a device may not live to see.
            with suppress(Refused):
                self._check_samples(self._config)

    # ---- the loop -------------------------------------------------------------------------------------------------

    def _run_loop(self) -> str:
        answer, model, seconds = self._resend_report() or self._check()
        while True:
            match answer.WhichOneof("what"):
                case "work":
                    reason = budget_reason(self.options.caps, self.safe + self.declined, self._effort.seconds)
                    if reason is not None:
                        self._decline(answer.work, reason)
                        self._leave()
                        return reason
                    answer, model, seconds = self._work(answer.work, model, seconds) or self._check()
                case "later":
                    reason = budget_reason(self.options.caps, self.safe + self.declined, self._effort.seconds)
                    if reason is not None:
                        self._leave()
                        return reason
                    self._say_once(_WAITING)
                    self._wait.sleep(bounded_seconds(answer.later.seconds, most=_MAX_REST))
                    answer, model, seconds = self._check()
                case "over":
                    return printable(answer.over.reason) or "the run is over"
                case _:
                    answer, model, seconds = self._check()

    def _check(self) -> tuple[pb.Answer, memoryview, float]:
        """Check in; the answer, the model where it came along, and the seconds that this took without those on hold."""
        retried = False
        while True:
            began = time.monotonic()
            request = pb.CheckIn(caller=self._caller, hold=True)
            try:
                answer, model = call_with_retries(
                    lambda asked=request: self.connection.check(asked),
                    self.connection,
                    self._wait,
                    self.options.patience,
                    self._say_once,
                )
            except UnknownDevice as error:
                if retried:
                    raise BadInput(f"the server at {self.connection.server} refuses: {error}") from None
                retried = True
                self._enrol(self.options.patience)
                continue
            held_seconds = answer.work.held_seconds if answer.HasField("work") else 0.0
            return answer, model, time.monotonic() - began - held_seconds

    # ---- work -----------------------------------------------------------------------------------------------------

    def _work(self, work: pb.Work, model: memoryview, seconds: float) -> tuple[pb.Answer, memoryview, float] | None:
        """Do one task and hand it in; the next answer, if it came with the receipt."""
        from fedfleet.network.device.work import NoModel, TaskRefusal, WorkContext, do_task, frozen_fetcher

        self._current_work, began = work, time.monotonic()
        until = time.time() + _lease_of(work)
        if work.sheet and work.sheet != hashlib.sha256(self._config).hexdigest():
            # Perhaps another server has taken its place.
            self._enrol(self.options.patience)
        options = self.options
        context = WorkContext(
            self.connection,
            self._caller,
            self.store,
            options.caps,
            self._wait,
            self._say_once,
            options.observer,
            options.share_samples,
        )
        try:
            runtime = self._ready_runtime(frozen_fetcher(context, work, until))
            what = f"working on task {work.task}" if work.kind == pb.TRAIN else f"judging model {work.version}"
            self._say_once(f"{what} (round {work.round})")
            head, payload = do_task(context, runtime, work, model, until, seconds)
        except UnknownDevice:
            # It was removed, or another server has taken the place of the one before; what is still its work comes again.
            self._enrol(self.options.patience)
            return None
        except TaskRefusal as error:
            self._effort.failed += not isinstance(error, NoModel)
            self._effort.seconds += time.monotonic() - began
            result = self._decline(work, str(error))
            if self._effort.failed >= _MAX_FAILURES:
                raise RunFailed(f"{self._effort.failed} tasks in a row failed on this device; the last error: {error}") from None
            return result
        self._effort.failed = 0
        self._effort.seconds += time.monotonic() - began
        self.options.observer.on_report(head)
        try:
            self.store.keep_report(WaitingReport(head, payload, until))
        except RunFailed as error:  # then it lasts as long as this process
            self._say(f"the report of task {work.task} cannot be kept here: {error}")
        return self._send_report(head, payload, until)

    def _ready_runtime(self, fetch: Fetch) -> ClientRuntime | EdgeWorker:
        """What this client trains with, made when the first work is there. If it cannot be made, this device cannot take part."""
        if self._runtime is None:
            try:
                self._runtime = self._make_runtime(self._config, fetch=fetch)
            except Refused as error:
                raise BadInput(
                    f"this device cannot work for the server at {self.connection.server}: {printable(str(error))}"
                ) from None
        return self._runtime

    def _resend_report(self) -> tuple[pb.Answer, memoryview, float] | None:
        """A report that an earlier life of this device had ready is handed in first."""
        waiting = self.store.report()
        if waiting is None or time.time() > waiting.until:
            self.store.drop_report()
            return None
        self._say_once(f"handing in the report of task {waiting.head.task}, which was ready before")
        waiting.head.caller.CopyFrom(self._caller)
        return self._send_report(waiting.head, waiting.payload, waiting.until)

    def _send_report(
        self, head: pb.Report, payload: bytes, until: float, *, retried: bool = False
    ) -> tuple[pb.Answer, memoryview, float] | None:
        """Hand a report in; the next answer, if it came with the receipt."""
        try:
            result = deliver_report(self.connection, head, payload, self._wait, until, self._say_once)
        except UnknownDevice as error:
            if retried:
                raise BadInput(f"the server at {self.connection.server} refuses: {error}") from None
            before = self.client
            self._enrol(self.options.patience)
            if self.client != before:  # of another client, whose reports these are not
                return None
            head.caller.CopyFrom(self._caller)
            return self._send_report(head, payload, until, retried=True)
        self.store.drop_report()
        self._current_work = None
        safe = result is not None and result[0].status == pb.Receipt.SAFE
        self.options.observer.on_end(head, "late" if result is None else "safe" if safe else "refused")
        if result is None:
            self._say_once(f"the report of task {head.task} could not be handed in before its lease ended")
            return None
        receipt, model = result
        if safe:
            self.safe += not head.declined
        else:
            self._say(f"the server does not take the report of task {head.task}: {printable(receipt.reason)}")
        return (receipt.next, model, 0.0) if receipt.HasField("next") else None

    def _decline(self, work: pb.Work, why: str) -> tuple[pb.Answer, memoryview, float] | None:
        """Tell the server that it need not wait for this task."""
        self.declined += 1
        self._say(f"declining task {work.task}: {why}")
        head, until = _decline_report(work, self._caller, why), time.time() + _lease_of(work)
        self.options.observer.on_report(head)
        return self._send_report(head, b"", until)

    # ---- good-bye -------------------------------------------------------------------------------------------------

    def _farewell(self, why: str) -> None:
        """Say that this device goes, and that a task which it was at will not be done; if nobody hears, that is no harm."""
        work, ready = self._current_work, self.store.report() is not None
        self._current_work = None
        with suppress(*FAILURES, FedFleetError):
            if self._identity is not None and work is not None and not ready:
                self.connection.send_report(encode_frame(_decline_report(work, self._caller, why)), 2.0)
        self._leave()

    def _leave(self) -> None:
        with suppress(*FAILURES, FedFleetError):
            if self._identity is not None:
                self.connection.leave(pb.LeaveRequest(caller=self._caller))

    def _say_once(self, text: str) -> None:
        """Tell a person what this device waits for; the same thing not twice in a row."""
        if text != self._last_text:
            self._last_text = text
            self._say(text)


def _lease_of(work: pb.Work) -> float:
    return bounded_seconds(work.lease_seconds, most=_MAX_LEASE) or _DEFAULT_LEASE


def _host(server: str) -> str:
    return split_server(server)[1]


def _decline_report(work: pb.Work, caller: pb.Caller, why: str) -> pb.Report:
    return pb.Report(caller=caller, task=work.task, nonce=work.nonce, kind=work.kind, declined=printable(why))
