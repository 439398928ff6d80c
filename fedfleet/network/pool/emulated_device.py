"""One emulated device: a forked process that plays its clients, which compute in turn, each with its own store, link and limits."""

from __future__ import annotations

import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fedfleet.core.errors import FedFleetError
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.device.work_observer import ReportEnd
from fedfleet.network.pool.cgroups import join_groups
from fedfleet.network.pool.template import Emit, Message
from fedfleet.network.protocol import fleet_pb2 as pb

if TYPE_CHECKING:
    from fedfleet.network.device.client_runtime import ClientRuntime
    from fedfleet.network.device.work import Fetch

FINISHED, CRASHED, GAVE_UP = 0, 1, 3  # exit codes of a device process
PATIENCE = 30 * 86400.0  # an emulated device is offline for as long as its states say, and its pool ends it
_MIB = 1 << 20
MakeRuntime = Callable[[bytes, "Path | None", "Fetch"], "ClientRuntime"]


def be_device(order: Message, emit: Emit, make_runtime: MakeRuntime) -> int:
    """Play the clients of an order until the run is over for all of them; the exit code says how it went."""
    join_groups(order["join"])
    turn = threading.Lock()
    codes: dict[int, int] = {}

    def play(client: Message) -> None:
        codes[client["client"]] = _play(client, turn, emit, make_runtime)

    clients = order["clients"]
    if len(clients) == 1:
        play(clients[0])
    else:
        threads = [threading.Thread(target=play, args=(client,), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return max(codes.values(), key=(FINISHED, GAVE_UP, CRASHED).index)


def _play(client: Message, turn: threading.Lock, emit: Emit, make_runtime: MakeRuntime) -> int:
    number = client["client"]

    def say(text: str) -> None:
        sys.stderr.write(f"client {number}: {text}\n")

    observer = TurnRecorder(client, turn, emit)
    options = DeviceOptions(client=number, patience=PATIENCE, first_seconds=PATIENCE, observer=observer)
    try:
        with closing(DeviceStore(Path(client["store"]))) as store, closing(Connection(client["server"])) as connection:
            device = Device(connection, store, options, lambda config, fetch: make_runtime(config, None, fetch), say)
            result = device.run()
    except FedFleetError as error:
        say(str(error))
        emit({"event": "gave up", "client": number, "reason": str(error)})
        return GAVE_UP
    except BaseException:
        traceback.print_exc()
        return CRASHED
    say(f"end: {result.reason}")
    return FINISHED


class TurnRecorder:
    """Gives a client its turn to compute, under its own limits, and tells the pool what each task took."""

    def __init__(self, client: Message, turn: threading.Lock, emit: Emit) -> None:
        self._client, self._turn, self._emit = client, turn, emit
        self._rounds: dict[int, tuple[int, float, float]] = {}  # round, beginning and end of the computation
        self._memory: dict[int, Message] = {}

    @contextmanager
    def computing(self, work: pb.Work) -> Iterator[None]:
        """The turn of this client: no other client of this device computes meanwhile."""
        with self._turn:
            began, before = time.monotonic(), own_memory()
            self._emit({"event": "turn", "client": self._client["client"], "task": work.task})
            reset_peak()
            try:
                with memory_cap(self._client["memory_mb"]):
                    yield
            finally:
                after = own_memory()
                self._rounds[work.task] = (work.round, began, time.monotonic())
                self._memory[work.task] = {
                    "private_mb": after.get("private_mb"),
                    "task_mb": max(0.0, after.get("peak_mb", 0.0) - before.get("rss_mb", 0.0)),
                }

    def on_report(self, head: pb.Report) -> None:
        """Tell the pool what a task took."""
        now = time.monotonic()
        round, began, ended = self._rounds.get(head.task, (0, now, now))
        self._emit(
            {
                "event": "task", "client": self._client["client"], "task": head.task, "kind": pb.Kind.Name(head.kind).lower(),
                "round": round, "began": began, "ended": ended, "declined": head.declined,
                "download_seconds": head.spent.get("download", 0.0), "compute_seconds": head.spent.get("compute", 0.0),
                "cpu_seconds": head.resources.cpu_seconds, "bytes_down": head.resources.bytes_down,
                "bytes_up": head.resources.bytes_up, "samples": head.resources.samples, **self._memory.get(head.task, {}),
            }
        )  # fmt: skip

    def on_end(self, head: pb.Report, end: ReportEnd) -> None:
        """Tell the pool that a task is over."""
        self._rounds.pop(head.task, None)
        self._memory.pop(head.task, None)
        kind = pb.Kind.Name(head.kind).lower()
        self._emit(
            {
                "event": "delivered", "client": self._client["client"], "task": head.task, "kind": kind, "at": time.monotonic(),
                "end": end,
            }
        )  # fmt: skip


# ---- limits that a device sets for itself -----------------------------------------------------------------------------


@contextmanager
def memory_cap(megabytes: float | None) -> Iterator[None]:
    """Within this, memory beyond what the process has now is refused (`MemoryError`) from so many megabytes on."""
    if megabytes is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(_status_kb("VmData") * 1024 + megabytes * _MIB)
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def reset_peak() -> None:
    """Let the peak of memory begin anew, where the system can."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def own_memory() -> dict[str, float]:
    """Megabytes of this process: resident, the peak of that, and what no other process shares."""
    result = {"rss_mb": _status_kb("VmRSS") / 1024, "peak_mb": _status_kb("VmHWM") / 1024}
    with suppress(OSError, ValueError), open("/proc/self/smaps_rollup", encoding="utf-8") as file:
        lines = [line.split() for line in file if line.startswith("Private_")]
        result["private_mb"] = sum(int(words[1]) for words in lines) / 1024
    return result


def _status_kb(name: str) -> int:
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0
