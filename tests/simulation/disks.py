"""Runs on disks that fill up: what was acknowledged stays, and with room they go on to the same end."""

import multiprocessing
import resource
import signal
import subprocess
import traceback

from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.core.errors import FedFleetError

FULL, BROKEN = 3, 9
SPEC = {
    "seed": 5,
    "task": {"use": "digits_logreg"},
    "world": {"clients": 20, "devices": "spread", "data": {"use": "dirichlet"}, "model_bytes": 1e8},
    "algorithm": {"use": "controlled"},
    "pace": {"use": "deadline", "cohort": 5, "seconds": 60.0},
    "stop": {"rounds": 40},
    "run": {"checkpoint_every": 3, "memory_mb": 1},
}


def _go(folder, most):
    if most is not None:  # no file may grow past this: what a full disk does, without a disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        perform(resolve(SPEC), folder, resume=True)
    except FedFleetError as error:
        raise SystemExit(FULL if "\n" not in str(error) else BROKEN) from None
    except BaseException:
        traceback.print_exc()
        raise SystemExit(BROKEN) from None


def attempt(folder, most=None):
    """Run or resume in a process of its own; its exit code: 0, or FULL for one sentence, or BROKEN."""
    folder.mkdir(exist_ok=True)
    process = multiprocessing.get_context("fork").Process(target=_go, args=(folder, most))
    process.start()
    process.join(120)
    return process.exitcode


def mount(folder, size):
    """A disk of so many bytes at this folder; False where that is not allowed."""
    folder.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def resize(folder, size):
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


def unmount(folder):
    subprocess.run(["umount", str(folder)], check=False)
