"""Processes of the command line without the price of a fresh interpreter: they are forked from a template that has loaded PyTorch.

`start(module, ..)` is `python -m module ..`, or `python file.py ..`: a process of its own with its own signals, memory and end, and
a child of the test. What is tried by its imports, its flags or its first instants needs a real interpreter: `subprocess` is there
for that.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[1]
_SET_CHILD_SUBREAPER = 36  # of prctl: orphans of the processes below this one become its children
_LOADED = ("torch", "fedfleet.app.cli.main", "fedfleet.app.runs.served_run", "fedfleet.network.device.client_loop")
_MOST = 1 << 20  # bytes of an order


class Forked(subprocess.Popen[Any]):
    """A child of this process that the template made."""

    def __init__(self, pid: int, args: Sequence[str], stdout: IO[Any] | None) -> None:
        self.args, self.pid, self.returncode = args, pid, None
        self.stdin, self.stdout, self.stderr = None, stdout, None
        self.text_mode, self.encoding, self.errors = isinstance(stdout, type(None)) or "b" not in stdout.mode, None, None
        self._waitpid_lock, self._child_created, self._communication_started, self._input = threading.Lock(), True, False, None
        self._sigint_wait_secs = 0.25


class _Template:
    """The template, and the line to it; both end with this process."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        words = [sys.executable, "-m", "tests.processes", str(theirs.fileno())]
        self._process = subprocess.Popen(words, cwd=_ROOT, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        atexit.register(self.close)

    def fork(self, order: dict[str, Any], files: Sequence[int]) -> int:
        """The number of a new process that does this."""
        set_adopting(True)
        try:
            socket.send_fds(self._line, [json.dumps(order).encode()], list(files))
            answer = self._line.recv(64)
            assert answer, "the template of processes ended"
            return int(answer)
        finally:
            set_adopting(False)

    def close(self) -> None:
        """Hang up, upon which it ends."""
        self._line.close()
        self._process.wait()


_templates: dict[int, _Template] = {}  # by process: a fork of this one has its own


def start(
    module: str,
    *words: object,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    stdout: Any = None,
    stderr: Any = None,
    text: bool = False,
    session: bool = False,
) -> subprocess.Popen[Any]:
    """Start `python -m module words`; outputs go to open files, DEVNULL, a pipe (stdout alone), or where those of this one go."""
    with (Path(os.devnull)).open("r+b") as nothing:
        read, write = os.pipe() if stdout == subprocess.PIPE else (-1, -1)
        files = [nothing.fileno(), *(_descriptor(given, own, nothing.fileno(), write) for given, own in ((stdout, 1), (stderr, 2)))]
        order = {
            "module": module, "words": [str(word) for word in words], "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env), "parent": os.getpid(), "session": session,
        }  # fmt: skip
        template = _templates.get(os.getpid()) or _templates.setdefault(os.getpid(), _Template())
        pid = template.fork(order, files)
    if write >= 0:
        os.close(write)
    told = None if read < 0 else os.fdopen(read, "r" if text else "rb")
    return Forked(pid, [module, *order["words"]], told)


def run(module: str, *words: object, seconds: float = 240.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """`start` it, wait for its end, and give its code and what it wrote, as `subprocess.run` does."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(module, *words, stdout=out, stderr=err, **options)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read().decode(), err.read().decode())


def _descriptor(given: Any, own: int, nothing: int, pipe: int) -> int:
    if given is None:
        return own
    if given == subprocess.DEVNULL:
        return nothing
    return pipe if given == subprocess.PIPE else given.fileno()


def set_adopting(on: bool) -> None:
    """Whether orphans below this process become its children, as the forked ones do for a moment."""
    assert ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0


# ---- the template ---------------------------------------------------------------------------------------------------


def _serve(line: socket.socket) -> dict[str, Any]:
    """Fork for each order; in a forked process, return what it has to do. At the end of the line this process ends."""
    while True:
        data, files, _, _ = socket.recv_fds(line, _MOST, 3)
        if not data:
            raise SystemExit(0)
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            if pid := os.fork():  # whose child, an orphan then, is adopted by the test
                os.write(tell, str(pid).encode())
                os._exit(0)
            line.close()
            os.close(told)
            os.close(tell)
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            return json.loads(data)
        os.waitpid(between, 0)  # before the answer, until which the test adopts
        line.send(os.read(told, 64))
        for file in (*files, told, tell):
            os.close(file)


def _become(order: dict[str, Any]) -> None:
    """Be the process that was ordered."""
    until = time.monotonic() + 60.0
    while os.getppid() != order["parent"]:
        assert time.monotonic() < until, "nobody adopted this process"
        time.sleep(0.001)
    os.chdir(order["cwd"])
    if order["session"]:
        os.setsid()
    sys.path[:0] = [order["cwd"], *filter(None, order["env"].get("PYTHONPATH", "").split(os.pathsep))]
    set_by_imports = {name: value for name, value in os.environ.items() if name not in order["before"]}
    os.environ.clear()
    os.environ.update(set_by_imports | order["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if threads := order["env"].get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(threads))
    sys.argv = [order["module"], *order["words"]]
    warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
    if order["module"].endswith(".py"):
        runpy.run_path(order["module"], run_name="__main__")
    else:
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


def main() -> None:
    """Load what the command line needs, and fork whatever is ordered at the line of this number."""
    line = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    before = list(os.environ)
    for name in _LOADED:
        __import__(name)
    gc.collect()
    gc.freeze()
    _become({**_serve(line), "before": before})


if __name__ == "__main__":
    main()
