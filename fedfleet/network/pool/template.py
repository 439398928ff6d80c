"""The template: a process that has loaded what a device needs and becomes each device by a fork, so that a device costs few MB.

It has one thread, since only the thread that forks lives on in a device; gRPC starts its own in the device, after the fork.
Orders (a device to fork, or to kill) come as lines of JSON on standard input; what devices tell goes to the same standard output, a
short line at a time, which the system writes whole.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import selectors
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedfleet.core.errors import RunFailed
from fedfleet.network.pool.processes import die_with_parent, leave_group, parent_of_start, raise_file_limit

Message = dict[str, Any]
Emit = Callable[[Message], None]
# What a forked process does: with its order, and how it tells the pool; the exit code.
BeDevice = Callable[[Message, Emit], int]
_LONGEST = 4000  # bytes of a line: the system writes up to 4096 whole


def run_template(prepare: Callable[[Message], None], be_device: BeDevice) -> None:
    """Prepare with the first line, then fork a device for each further line, until the input ends; devices end with it."""
    leave_group()
    die_with_parent(parent_of_start())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise_file_limit()
    orders = _Lines()
    while not (first := orders.read()):
        if orders.at_end:
            return
    prepare(first[0])
    threads = len(os.listdir("/proc/self/task")) if Path("/proc/self/task").is_dir() else 1
    if threads > 1:
        raise RunFailed(f"the template has {threads} threads, and a device would only get one; please report this")
    gc.collect()
    gc.freeze()
    tell({"event": "template", "pid": os.getpid()})
    children: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        waiting = first[1:]
        while True:
            for order in waiting:
                if order.get("kill"):
                    _kill(order["device"], children)
                else:
                    _fork(order, be_device, selector, children)
            waiting = []
            for key, _ in selector.select():
                if key.fd == 0:
                    waiting = orders.read()
                    if orders.at_end:
                        _end_all(children)
                        return
                else:
                    selector.unregister(key.fd)
                    _reap(key.fd, *children.pop(key.fd))


class _Lines:
    """Lines of JSON on standard input, read without a buffer that a select would not see."""

    def __init__(self) -> None:
        self._rest, self.at_end = b"", False

    def read(self) -> list[Message]:
        data = os.read(0, 1 << 16)
        self.at_end = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def tell(message: Message) -> None:
    """One line to the pool."""
    write_line(1, message)


def write_line(handle: int, message: Message) -> None:
    """A line of JSON in one piece; what would be too long for that loses its texts."""
    data = json.dumps(message).encode()
    if len(data) > _LONGEST:
        data = json.dumps({k: v[:500] if isinstance(v, str) else v for k, v in message.items()}).encode()
    with suppress(BrokenPipeError):
        os.write(handle, data + b"\n")


def _fork(order: Message, be_device: BeDevice, selector: selectors.BaseSelector, children: dict[int, tuple[int, int]]) -> None:
    template = os.getpid()
    pid = os.fork()
    if pid:
        handle = os.pidfd_open(pid)
        children[handle] = (order["device"], pid)
        selector.register(handle, selectors.EVENT_READ)
        tell({"event": "started", "device": order["device"], "pid": pid})
        return
    code = 1
    try:
        die_with_parent(template)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        events = _own_files(Path(order["log"]), children)
        code = be_device(order, lambda message: write_line(events, {**message, "device": order["device"]}))
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _own_files(log: Path, others: dict[int, tuple[int, int]]) -> int:
    """The files of a device: its log for what it prints, and a handle by which it tells the pool."""
    for handle in others:
        os.close(handle)
    events = os.dup(1)
    os.set_inheritable(events, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    text = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for handle, number in ((nothing, 0), (text, 1), (text, 2)):
        os.dup2(handle, number)
    os.close(nothing)
    os.close(text)
    return events


def _kill(device: int, children: dict[int, tuple[int, int]]) -> None:
    for handle, (own, _) in children.items():
        if own == device:
            signal.pidfd_send_signal(handle, signal.SIGKILL)


def _reap(handle: int, device: int, pid: int) -> None:
    os.close(handle)
    _, status, usage = os.wait4(pid, 0)
    tell({"event": "ended", "device": device, "pid": pid, "code": os.waitstatus_to_exitcode(status), **_usage(usage)})


def _usage(usage: resource.struct_rusage) -> Message:
    return {"cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_rss_mb": usage.ru_maxrss / 1024}


def _end_all(children: dict[int, tuple[int, int]]) -> None:
    for handle, (_, pid) in children.items():
        with suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(pid, 0)
