"""Starting, resuming and stopping runs: each is a process of its own, `fedfleet run`, and outlives the dashboard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedfleet.app.dashboard.run_watcher import FINISHED, PRUNED, RUNNING, RunSummary
from fedfleet.app.dashboard.served_runs import resume_command
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors.child_process import package_env

STATE_FOLDER = ".dashboard"  # in the folder of the runs: specs that were asked for, and what the runs printed
MAX_RUNS = 16  # runs that one dashboard has going
_LONGEST_LOG = 64 * 1024
# Whoever was started with Ctrl-C ignored passes that on: the run must hear it, since that is how it is stopped.
_COMMAND = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv[0] = 'fedfleet'; "
    "from fedfleet.app.cli.main import main; main()"
)


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that was started here: its folder, what it prints, and its process."""

    name: str
    folder: Path
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def is_running(self) -> bool:
        """Has it not ended yet?"""
        return self.process.poll() is None


class Starter:
    """The processes that were started here, by the name of their run. It is a resource only in name: runs outlive it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: dict[str, StartedRun] = {}

    def start(self, name: str, toml: str) -> StartedRun:
        """Start a new run by this spec, in a folder of this name."""
        self._check_free(name)  # before the spec is written: one that is just being started has yet to read its own
        spec, folder = self._state_folder() / f"{name}.toml", self.root / name
        try:
            spec.write_text(toml, encoding="utf-8")
        except OSError as error:
            raise RunFailed(f"the run could not be started: {spec} cannot be written ({error.strerror})") from None
        return self._launch(name, folder, ["run", str(spec.absolute()), "--out", str(folder.absolute())])

    def resume(self, run: RunSummary) -> StartedRun:
        """Go on with a run that was stopped."""
        if run.served:
            raise BadInput(f"{run.name} was served to devices; resume it with: {resume_command(run.folder)}")
        if run.status in (RUNNING, FINISHED, PRUNED):
            raise BadInput(f"{run.name} is {run.status}; there is nothing to resume")
        self._check_free(run.name)
        folder = run.folder.absolute()
        return self._launch(run.name, folder, ["run", str(folder / "spec.toml"), "--resume", "--out", str(folder)])

    def stop(self, run: RunSummary) -> None:
        """Ask a run to stop as Ctrl-C does; a server is asked as its operator would.

        Only a process that was started here, or whose lock names it as the one that writes this folder on this machine.
        """
        started = self.started.get(run.name)
        pid = started.process.pid if started and started.is_running else run.holder.pid if run.holder else None
        if pid is None:
            raise BadInput(f"{run.name} is not running on this machine; there is nothing to stop")
        if pid == os.getpid():
            raise BadInput(f"{run.name} runs in this process, which cannot stop itself")
        try:
            os.kill(pid, signal.SIGTERM if run.served else signal.SIGINT)
        except ProcessLookupError:
            raise BadInput(f"{run.name} has just ended") from None
        except PermissionError:
            raise BadInput(f"{run.name} belongs to another user (process {pid}); that user has to stop it") from None

    def wait_for_start(self, run: StartedRun, seconds: float) -> str:
        """Wait until a run has its folder or has ended; what it said if it was refused, "" if all is well."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not run.is_running:
                return "" if run.process.returncode == 0 else end_reason(run)
            if (run.folder / "run.db").exists():
                return ""
            time.sleep(0.05)
        return ""

    def output_lines(self, name: str) -> list[str]:
        """The last lines that a run printed, if it was started from a dashboard."""
        return _last_lines(self.root / STATE_FOLDER / f"{name.replace('/', '+')}.log")

    def _state_folder(self) -> Path:
        folder = self.root / STATE_FOLDER
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise BadInput(f"cannot write to {self.root}: {error.strerror}; a run needs a folder that it can write") from None
        return folder

    def _check_free(self, name: str) -> None:
        """Refuse one run too many, and one that is on its way already."""
        running = [run for run in self.started.values() if run.is_running]
        if len(running) >= MAX_RUNS:
            raise BadInput(f"{MAX_RUNS} runs that were started here are still running; stop one, or wait until one ends")
        if any(run.name == name for run in running):
            raise BadInput(f"{name} is already starting")

    def _launch(self, name: str, folder: Path, arguments: Sequence[str]) -> StartedRun:
        log = self._state_folder() / f"{name.replace('/', '+')}.log"
        try:
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [sys.executable, "-c", _COMMAND, *arguments],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                    env={**package_env(), "NO_COLOR": "1"},
                )  # fmt: skip
        except OSError as error:
            raise RunFailed(f"the run could not be started: {error}") from None
        self.started[name] = StartedRun(name, folder, log, process)
        return self.started[name]


def end_reason(run: StartedRun) -> str:
    """Why a run ended, by its last line."""
    lines = _last_lines(run.log)
    return lines[-1].removeprefix("fedfleet: ") if lines else f"the run ended with exit code {run.process.returncode} and no word"


def _last_lines(path: Path, most: int = 200) -> list[str]:
    """The last lines of a text file; those that a progress bar wrote over are gone."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LONGEST_LOG))
            text = file.read(_LONGEST_LOG).decode(errors="replace")
    except OSError:
        return []
    lines = (line.rpartition("\r")[2].strip() for line in text.split("\n"))
    return [line for line in lines if line][-most:]
