"""The pool's loop: forks the devices, starts again those that die, cuts and mends links as states say, until the server ends.

One thread and one queue: lines of the template, of devices and of the relay, and the moments at which something is due.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np

from fedfleet.core.errors import RunFailed
from fedfleet.executors.child_process import Child
from fedfleet.network.pool.availability import Availability
from fedfleet.network.pool.cgroups import DeviceGroup, PoolGroups, make_device_group
from fedfleet.network.pool.device_limits import DeviceLimits, FleetLimits
from fedfleet.network.pool.emulated_device import FINISHED, GAVE_UP
from fedfleet.network.pool.pool_journal import PoolJournal, Row
from fedfleet.network.pool.restart_rule import RestartRule, Restarts

Message = dict[str, Any]
LOOK_SECONDS = 0.2  # between two looks at states and at the server
_FAREWELL = 15.0  # seconds for devices to end after their server
_ANSWER = 60.0
_SPARE_MB = 64.0  # that the kernel's limit leaves beyond a device's own, which is to be met first


class ServerProcess(Protocol):
    """The server's process."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        ...


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What a pool emulates: the clients of each device process, each client's limits, where the server is, and where files go.

    When the server has ended, devices get `farewell` seconds to hear that.
    """

    folder: Path
    server: tuple[str, int]
    allocation: Sequence[Sequence[int]]
    limits: FleetLimits
    rule: RestartRule = field(default_factory=RestartRule)
    farewell: float = _FAREWELL


@dataclass(slots=True)
class _Slot:
    """One device process: its group, its deaths, and what it is doing."""

    clients: Sequence[int]
    group: DeviceGroup
    restarts: Restarts
    pid: int = 0
    began: float = 0.0
    start_at: float | None = 0.0
    oom_kills: int = 0
    frozen: bool = False
    # By the faults of its fleet: it starts again when one of its clients is back, and its restarts do not count this death.
    crashed: bool = False


class Pool:
    """The processes of a pool around one server; a resource, to be closed."""

    def __init__(
        self,
        plan: PoolPlan,
        groups: PoolGroups,
        template: Callable[[SimpleQueue[tuple[Child, bytes]]], Child],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan, self._clock = plan, clock
        self._inbox: SimpleQueue[tuple[Child, bytes]] = SimpleQueue()
        self.journal = PoolJournal(plan.folder / "pool.jsonl", len(plan.allocation), clock)
        self._slots = [_Slot(own, make_device_group(groups, d), Restarts(plan.rule)) for d, own in enumerate(plan.allocation)]
        self._offline = set[int]()
        self._limits = list(plan.limits.first)
        self._turns = [0] * len(self._limits)
        (plan.folder / "devices").mkdir(exist_ok=True)
        self._relay = Child("fedfleet.network.pool.relay", relay_order(plan))
        self._ports: list[int] = self._relay.answer(_ANSWER)["ports"]
        self._controller = Child("fedfleet.network.pool.cpu_controller")
        self._template = template(self._inbox)
        self._ready = False
        # By the limit that could not be kept: a sentence for the report.
        self.problems: dict[str, str] = {}

    # ---- the loop -------------------------------------------------------------------------------------------------

    def run(self, server: ServerProcess, availability: Availability) -> int:
        """Emulate until the server ends; its exit code."""
        self.journal.write("pool", devices=len(self._slots), clients=len(self._limits))
        next_look = self._clock()
        while (code := server.poll()) is None:
            now = self._clock()
            if now >= next_look:
                self._check_helpers()
                if not availability.constant:
                    self._follow(availability)
                next_look = now + LOOK_SECONDS
            if self._ready:
                self._start_due(now)
            starts = [slot.start_at for slot in self._slots if slot.start_at is not None] if self._ready else []
            self._handle(min([next_look, *starts]) - now)
        deadline = self._clock() + self.plan.farewell
        for device, slot in enumerate(self._slots):
            slot.start_at = None
            if slot.pid and slot.frozen:  # it will not hear that the run is over
                self._freeze(device, slot, frozen=False)
        while any(slot.pid for slot in self._slots) and self._clock() < deadline:
            self._handle(LOOK_SECONDS, ending=True)
        self.journal.write("server ended", code=code)
        return code

    def _check_helpers(self) -> None:
        for helper in (self._relay, self._controller):
            if not helper.running:
                raise RunFailed(f"the {helper.name} of the pool ended ({helper.exit_text()}), so its devices have no limits now")

    def _handle(self, seconds: float, *, ending: bool = False) -> None:
        """The next line, if one comes in that time."""
        try:
            child, line = self._inbox.get(timeout=min(max(seconds, 0.001), LOOK_SECONDS))
        except Empty:
            return
        if not line:
            if ending:
                return
            raise RunFailed(f"the template of the devices ended ({child.exit_text()}); see {self.plan.folder / 'template.log'}")
        try:
            message = json.loads(line)
            event, device = message.pop("event"), message.pop("device", None)
        except (ValueError, KeyError, AttributeError):
            return
        match event:
            case "template":
                self._ready = True
                self.journal.write("template", **message)
            case "started":
                self._on_start(device, message["pid"])
            case "ended":
                self._on_end(device, message, ending=ending)
            case "turn":
                if len(self._slots[device].clients) > 1 or not self.plan.limits.constant:
                    self._set_share(device, message["client"])
            case "task":
                limits = self._limits[message["client"]]
                self.journal.write(event, device=device, cpu_share=limits.cpu_share, **link_of(limits), **message)
            case _:
                self.journal.write(event, device=device, **message)
                if event == "delivered":
                    self._end_turn(message["client"])

    # ---- life and death -------------------------------------------------------------------------------------------

    def _start_due(self, now: float) -> None:
        for device, slot in enumerate(self._slots):
            if slot.start_at is not None and slot.start_at <= now:
                slot.start_at = None
                self._set_kernel_limits(slot)
                self._template.tell(self._order(device, slot))

    def _order(self, device: int, slot: _Slot) -> Message:
        folder = self.plan.folder / "devices"
        return {
            "device": device,
            "log": str(folder / f"d{device}.log"),
            "join": slot.group.join_files,
            "clients": [
                {
                    "client": client,
                    "server": f"127.0.0.1:{self._ports[client]}",
                    "store": str(folder / f"c{client}"),
                    "memory_mb": self._limits[client].memory_mb,
                }
                for client in slot.clients
            ],
        }

    def _set_kernel_limits(self, slot: _Slot) -> None:
        self._set_group_share(slot, self._limits[slot.clients[0]].cpu_share)
        memory = [self._limits[client].memory_mb for client in slot.clients]
        if all(mb is not None for mb in memory):
            try:
                slot.group.set_memory(int((max(mb or 0.0 for mb in memory) + _SPARE_MB) * (1 << 20)))
            except OSError as error:
                self.problems.setdefault(
                    "memory", f"the kernel refused a limit of memory ({error.strerror}); allocations are limited"
                )
        slot.oom_kills = slot.group.oom_kills()

    def _set_group_share(self, slot: _Slot, share: float | None) -> None:
        try:
            slot.group.set_share(share)
        except OSError as error:
            self.problems.setdefault(
                "cpu",
                f"the kernel refused the share {share or 0.0:.3g} of a core ({error.strerror}), perhaps because this process "
                "itself has less; devices with such shares ran without a limit; lower --cores",
            )

    def _on_start(self, device: int, pid: int) -> None:
        slot, record = self._slots[device], self.journal.devices[device]
        slot.pid, slot.began, slot.frozen = pid, self._clock(), False
        record.starts += 1
        record.state = "running"
        share = self._limits[slot.clients[0]].cpu_share if slot.group.cpu is None else None
        self._controller.tell({"device": device, "pid": pid, "share": share})
        self.journal.write("started", device=device, pid=pid, clients=list(slot.clients))
        if self._offline.issuperset(slot.clients):
            self._freeze(device, slot, frozen=True)

    def _set_share(self, device: int, client: int) -> None:
        """The share of the client whose turn it is."""
        slot, share = self._slots[device], self._limits[client].cpu_share
        if slot.group.cpu is None:
            self._controller.tell({"device": device, "share": share})
        else:
            self._set_group_share(slot, share)

    def _end_turn(self, client: int) -> None:
        """The limits of a client's next turn: from the end of this one on, since the next one begins with its model."""
        self._turns[client] += 1
        if self.plan.limits.constant:
            return
        (limits,) = self.plan.limits.at(np.array([client]), self._turns[client])
        if limits != self._limits[client]:
            self._limits[client] = limits
            self._relay.tell({"client": client, **link_of(limits)})
            self.journal.write("limits", client=client, turn=self._turns[client], **asdict(limits))

    def _on_end(self, device: int, message: Message, *, ending: bool) -> None:
        slot, record = self._slots[device], self.journal.devices[device]
        code, lived = message["code"], self._clock() - slot.began
        self._controller.tell({"device": device, "ended": True})
        slot.pid = 0
        record.cpu_seconds += message["cpu_seconds"]
        record.peak_rss_mb = max(record.peak_rss_mb, message["peak_rss_mb"])
        if code in (FINISHED, GAVE_UP):
            record.state = "finished" if code == FINISHED else "gave up"
            self.journal.write(record.state, device=device, lived=lived)
            return
        reason = exit_reason(code, slot.group.oom_kills() - slot.oom_kills)
        record.deaths.append("crashed, as a fault of the fleet" if slot.crashed else reason)
        pause = None if ending or slot.crashed else slot.restarts.pause(lived)
        record.state = "down" if pause is None else "restarting"
        slot.start_at = None if pause is None else self._clock() + pause
        self.journal.write("died", device=device, reason=reason, lived=lived, restart_in=pause)

    # ---- states and faults ----------------------------------------------------------------------------------------

    def _follow(self, availability: Availability) -> None:
        changes = availability.look(self.journal.seconds)
        for client in changes.offline.tolist():
            self._offline.add(client)
            self._relay.tell({"client": client, "online": False})
            self.journal.write("offline", client=client)
        for client in changes.online.tolist():
            self._offline.discard(client)
            self._relay.tell({"client": client, "online": True})
            self.journal.write("online", client=client)
        crashed = set(changes.crashed.tolist())
        touched = {*changes.offline.tolist(), *changes.online.tolist()}
        for device, slot in enumerate(self._slots):
            own = set(slot.clients)
            if slot.pid and crashed & own:
                self.journal.write("crashed", device=device, clients=sorted(crashed & own))
                slot.crashed = True
                self._template.tell({"device": device, "kill": True})
            elif slot.pid and touched & own:
                self._freeze(device, slot, frozen=self._offline.issuperset(own))
            elif slot.crashed and not self._offline.issuperset(own):
                slot.crashed, slot.start_at = False, self._clock()

    def _freeze(self, device: int, slot: _Slot, *, frozen: bool) -> None:
        if frozen != slot.frozen:
            slot.frozen = frozen
            self._controller.tell({"device": device, "frozen": frozen})
            self.journal.write("frozen" if frozen else "thawed", device=device)

    # ---- the end --------------------------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """A row for each device, for the report."""
        return [
            {
                "device": device, "clients": list(slot.clients), "starts": record.starts,
                "restarts": max(0, record.starts - 1), "deaths": record.deaths, "state": record.state,
                "cpu_seconds": round(record.cpu_seconds, 3), "peak_rss_mb": round(record.peak_rss_mb, 1),
            }
            for device, (slot, record) in enumerate(zip(self._slots, self.journal.devices, strict=True))
        ]  # fmt: skip

    def link_bytes(self) -> list[list[int]]:
        """The bytes up and down that passed each client's relay."""
        self._relay.tell({"bytes": True})
        return self._relay.answer(_ANSWER)["bytes"]

    def close(self) -> None:
        """End the devices and everything around them."""
        self._template.close()
        self._controller.close()
        self._relay.close()
        self.journal.close()


def relay_order(plan: PoolPlan) -> Message:
    """The first line to the relay: the server, and the link of each client."""
    return {"server": list(plan.server), "links": [link_of(limits) for limits in plan.limits.first]}


def link_of(limits: DeviceLimits) -> Message:
    """What the relay is told of the link of a client."""
    return {"up": limits.up, "down": limits.down, "delay": limits.delay}


def exit_reason(code: int, oom_kills: int) -> str:
    """How a device process ended, in words; a kill by the kernel for its memory is told from any other.

    >>> exit_reason(-9, 0), exit_reason(-9, 1), exit_reason(1, 0)
    ('killed by SIGKILL', 'out of memory: killed by the kernel', 'exit code 1')
    """
    if code == -signal.SIGKILL and oom_kills > 0:
        return "out of memory: killed by the kernel"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
