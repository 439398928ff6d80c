"""What this machine can emulate, and how truly: each limit is put on a process or a link and measured for about a second."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fedfleet.core.errors import RunFailed
from fedfleet.executors.child_process import Child, package_env
from fedfleet.network.pool.cgroups import DeviceGroup, PoolGroups, make_device_group, make_groups
from fedfleet.network.pool.link import CREDIT_SECONDS
from fedfleet.network.pool.processes import cpu_clock, pool_name, recorded_pool

SHARES = (0.25, 0.05)  # of a core, which are tried
_SECONDS = 1.0  # of each measurement
_CAP_MB = 64
_RATE, _DELAY = 5e6 / 8, 0.05  # bytes a second, and seconds each way, of the link that is tried
_PINGS = 10
_WAIT = 30.0
_ERRORS = (OSError, RunFailed, subprocess.SubprocessError)
# A process that does nothing but compute.
_BUSY = "while True: pass"
# Within the cap, half of it can be had, and twice as much cannot.
_CAPPED = f"""
from fedfleet.network.pool.emulated_device import memory_cap
with memory_cap({_CAP_MB}):
    bytearray({_CAP_MB // 2} << 20)
    try:
        bytearray({2 * _CAP_MB} << 20)
    except MemoryError:
        print("refused")
"""
# Writes to memory until the kernel ends it.
_GREEDY = f"import sys; sys.stdin.readline(); x = bytearray({4 * _CAP_MB} << 20); x[::4096] = bytes(len(x[::4096]))"


@dataclass(frozen=True, slots=True)
class Capability:
    """One limit: how it is kept, what was wanted and measured (None: it works or not), and why it does not work ("": it does)."""

    limit: str
    how: str
    wanted: float | None = None
    measured: float | None = None
    unit: str = ""
    reason: str = ""

    @property
    def works(self) -> bool:
        """Whether this machine can keep it."""
        return not self.reason


def check_machine() -> list[Capability]:
    """Try each limit, one after the other; some seconds in all."""
    name = pool_name()
    groups = make_groups(name)
    with recorded_pool(name, groups.folders):
        group = make_device_group(groups, 0)
        return [
            *_cpu_by_groups(groups, group),
            *_cpu_by_signals(),
            _freezing(),
            _refused_memory(),
            _kernel_memory(groups, group),
            *_network(),
        ]


# ---- the processor ------------------------------------------------------------------------------------------------------


@contextmanager
def _process(code: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=package_env()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _used_share(pid: int, seconds: float = _SECONDS) -> float:
    """The part of a core that a process uses from now on."""
    clock = cpu_clock(pid)
    before, began = time.clock_gettime(clock), time.monotonic()
    time.sleep(seconds)
    return (time.clock_gettime(clock) - before) / (time.monotonic() - began)


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


def _cpu_by_groups(groups: PoolGroups, group: DeviceGroup) -> list[Capability]:
    how = f"control group, version {1 if groups.cpu is None else groups.cpu.version}"
    if group.cpu is None:
        return [Capability("cpu", "control group", reason=groups.missing["cpu"])]
    result: list[Capability] = []
    with _process(_BUSY) as busy:
        for share in SHARES:
            try:
                group.set_share(share)
                (group.cpu / "cgroup.procs").write_text(str(busy.pid), encoding="ascii")
                result.append(Capability("cpu", how, share, _used_share(busy.pid), "of a core"))
            except OSError as error:
                result.append(Capability("cpu", how, share, reason=f"the quota cannot be set ({error.strerror})"))
    return result


def _cpu_by_signals() -> list[Capability]:
    def at(share: float) -> Capability:
        how = "budget, kept by signals"
        with _process(_BUSY) as busy, Child("fedfleet.network.pool.cpu_controller") as controller:
            controller.tell({"device": 0, "pid": busy.pid, "share": share})
            deadline = time.monotonic() + _WAIT
            while not _is_stopped(busy.pid) and time.monotonic() < deadline:
                time.sleep(0.005)
            return Capability("cpu", how, share, _used_share(busy.pid), "of a core")

    return [_try_limit(lambda share=share: at(share), "cpu", "budget, kept by signals") for share in SHARES]


def _freezing() -> Capability:
    def freeze() -> Capability:
        with _process(_BUSY) as busy, Child("fedfleet.network.pool.cpu_controller") as controller:
            controller.tell({"device": 0, "pid": busy.pid, "share": None})
            controller.tell({"device": 0, "frozen": True})
            deadline = time.monotonic() + _WAIT
            while _used_share(busy.pid, 0.05) and time.monotonic() < deadline:
                continue
            return Capability("offline", "frozen process", 0.0, _used_share(busy.pid, 0.3), "of a core")

    return _try_limit(freeze, "offline", "frozen process")


# ---- memory -------------------------------------------------------------------------------------------------------------


def _refused_memory() -> Capability:
    how = "refused allocations (MemoryError)"

    def cap() -> Capability:
        with _process(_CAPPED) as process:
            said, _ = process.communicate(timeout=_WAIT)
        reason = "" if said.strip() == b"refused" else "this system does not count the memory of a process against its data limit"
        return Capability("memory", how, reason=reason)

    return _try_limit(cap, "memory", how)


def _kernel_memory(groups: PoolGroups, group: DeviceGroup) -> Capability:
    how = f"control group, version {1 if groups.memory is None else groups.memory.version}"
    folder = group.memory
    if folder is None:
        return Capability("memory", "control group", reason=groups.missing["memory"])

    def greedy() -> Capability:
        group.set_memory(_CAP_MB << 20)
        before = group.oom_kills()
        with _process(_GREEDY) as process:
            (folder / "cgroup.procs").write_text(str(process.pid), encoding="ascii")
            process.communicate(b"\n", timeout=_WAIT)
        known = process.returncode == -9 and group.oom_kills() > before
        return Capability("memory", how, reason="" if known else "the kernel did not end and count a process over its limit")

    return _try_limit(greedy, "memory", how)


# ---- the network --------------------------------------------------------------------------------------------------------


def _network() -> list[Capability]:
    how = "relay"
    try:
        with socket.create_server(("127.0.0.1", 0)) as sink:
            threading.Thread(target=_answer_all, args=(sink,), daemon=True).start()
            link = {"up": _RATE, "down": None, "delay": _DELAY}
            with Child("fedfleet.network.pool.relay", {"server": list(sink.getsockname()), "links": [link]}) as relay:
                port = relay.answer(_WAIT)["ports"][0]
                with socket.create_connection(("127.0.0.1", port), timeout=_WAIT) as line:
                    trips = [_round_trip(line, 1) for _ in range(_PINGS)]
                    delay = statistics.median(trips) / 2
                    credit = int(_RATE * CREDIT_SECONDS)  # passes at once
                    nbytes = int(_RATE * _SECONDS)
                    rate = nbytes / (_round_trip(line, nbytes + credit) - 2 * _DELAY)
    except _ERRORS as error:
        return [Capability("network", how, reason=f"the relay did not work ({error})")]
    return [
        Capability("network", how, _RATE * 8e-6, rate * 8e-6, "Mbit/s"),
        Capability("network", how, 1000 * _DELAY, 1000 * delay, "ms each way"),
    ]


def _answer_all(sink: socket.socket) -> None:
    """Take one connection, and answer each message of 8 bytes of length and so many bytes with one byte."""
    with suppress(OSError), sink.accept()[0] as line:
        while head := _receive(line, 8):
            _receive(line, int.from_bytes(head, "big"))
            line.sendall(b"!")


def _receive(line: socket.socket, nbytes: int) -> bytes:
    data = bytearray()
    while len(data) < nbytes and (piece := line.recv(min(1 << 16, nbytes - len(data)))):
        data += piece
    return bytes(data)


def _round_trip(line: socket.socket, nbytes: int) -> float:
    began = time.monotonic()
    line.sendall(nbytes.to_bytes(8, "big") + bytes(nbytes))
    _receive(line, 1)
    return time.monotonic() - began


def _try_limit(attempt: Callable[[], Capability], limit: str, how: str) -> Capability:
    try:
        return attempt()
    except _ERRORS as error:
        return Capability(limit, how, reason=f"it could not be tried ({error})")


def load_warning() -> str:
    """What to say if other programs use the processors, since they disturb what is measured; empty if they do not."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"other programs use this machine (load {load:.1f} on {cores} cores) and disturb these figures" if load > 0.5 else ""
